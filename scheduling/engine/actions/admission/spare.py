"""Room that evicted jobs leave when they borrow again, so that the next who comes for his own needs nobody's.

A job that was evicted went because somebody came for what he owns. Where next to nothing is unused, the
next one who comes pushes it out once more: a third of what a job may be evicted is gone, and its work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.quantities import Resource
from scheduling.engine.actions.admission.entry import Entry
from scheduling.engine.model import FlavorResource, Help, HelpCode, Reason
from scheduling.engine.quota.assignment import Refusal

if TYPE_CHECKING:
    from scheduling.engine.session import Session

# Room is left in whole cards: less than one would keep a small cluster from being used in full.
CARD: dict[str, int] = {Resource.GPU_CARDS: 1, Resource.GPU_CORES: 100}


def too_little_spare(session: Session, entry: Entry, *, charged: bool) -> Refusal | None:
    """Why a job that was evicted must not borrow now; None where it may.

    `charged`: the snapshot's usage includes the job.
    """
    evictions, permille = entry.job.evictions, session.config.preemption.spare_permille
    if not evictions or not permille or not entry.assignment.borrow_level:
        return None
    tree, leaf = session.snapshot.quota, entry.queue.quota_node
    root = tuple(tree.path(leaf))[-1]
    for key, amount in entry.assignment.usage.items():
        card, owned, more = CARD.get(key.resource), tree.subtree_quota(root, key), 0 if charged else amount
        if card is None or owned is None or not amount or not tree.borrows(leaf, key, more):
            continue
        unused = owned - tree.usage(root, key) - more
        short = owned * permille * evictions // (1000 * card) * card - unused
        if short > 0:
            return _refused(key, amount, max(0, amount - short), short)
    return None


def _refused(key: FlavorResource, asked: int, available: int, short: int) -> Refusal:
    where: dict[str, int | str] = {"flavor": key.flavor, "resource": key.resource}
    numbers = {**where, "asked": asked, "available": available}
    return Refusal(
        Reason.WAITING_FOR_BORROWED, numbers, (Help(HelpCode.WAIT_FOR_RELEASE, {**where, "short": short}),)
    )
