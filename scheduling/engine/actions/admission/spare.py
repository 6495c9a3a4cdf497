"""Room that evicted jobs leave when they borrow again, so that the next who comes for his own needs nobody's.

A job that was evicted went because somebody came for what he owns. Where next to nothing is unused, the
next one who comes pushes it out once more: a third of what a job may be evicted is gone, and its work.
A job that was drained lately does not borrow at all: it would take at once what it has just given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from foundation.core.quantities import Resource
from scheduling.engine.actions.admission.entry import Entry
from scheduling.engine.gang import smallest
from scheduling.engine.model import FlavorResource, Help, HelpCode, Job, Queue, Reason
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.quota.charges import asked_of
from scheduling.engine.quota.verdict import may_borrow

if TYPE_CHECKING:
    from scheduling.engine.session import Session, Usage

# Room is left in whole cards: less than one would keep a small cluster from being used in full.
CARD: dict[str, int] = {Resource.GPU_CARDS: 1, Resource.GPU_CORES: 100}
# By which rule a job waits, among the numbers of its reason.
SPARE, DRAINED = "spare", "drained"


def too_little_spare(session: Session, entry: Entry, *, charged: bool) -> Refusal | None:
    """Why a job that was evicted must not borrow now; None where it may.

    `charged`: the snapshot's usage includes the job.
    """
    if not _counts(session, entry.queue, entry.job) or not entry.assignment.borrow_level:
        return None
    return _short(session, entry.queue, entry.job, entry.assignment.usage, charged=charged)


def short_of_spare(session: Session, queue: Queue, job: Job) -> dict[str, Refusal]:
    """The same before anything is tried, by flavor: where even its smallest size would have to borrow and
    leave too little."""
    if not _counts(session, queue, job) or queue.resource_groups:
        return {}
    each = (
        (name, _short(session, queue, job, usage, charged=False))
        for name, usage in _least(session, queue, job)
    )
    return {name: refusal for name, refusal in each if refusal is not None}


def kept_free(session: Session, queue: Queue, job: Job, key: FlavorResource) -> int:
    """How much of a quota must stay unused in the whole tree when a job borrows of it."""
    tree, card = session.snapshot.quota, CARD.get(key.resource)
    owned = tree.subtree_quota(tree.root(queue.quota_node), key)
    if card is None or owned is None:
        return 0
    return owned * session.config.preemption.spare_permille * job.evictions // (1000 * card) * card


def _least(session: Session, queue: Queue, job: Job) -> Iterable[tuple[str, Usage]]:
    """What the smallest size of a job is charged for cards in each flavor of its queue."""
    key = (queue.id, session.likes.asked_by(job))
    known = session.least.get(key)
    if known is None:
        counts, flavors = smallest(job), map(session.snapshot.flavors.get, queue.flavors)
        known = session.least[key] = [
            (flavor.id, {key: n for key, n in asked_of(job, counts, flavor).items() if key.resource in CARD})
            for flavor in flavors
            if flavor is not None
        ]
    return known


def _counts(session: Session, queue: Queue, job: Job) -> bool:
    """Whether the rule is about a job. One that does not borrow anyway keeps to what its queue owns."""
    options = session.config.preemption
    if job.drained:
        return True
    evicted = bool(job.evictions and options.spare_permille)
    return evicted and may_borrow(queue, job, options.eviction_cap)


def _short(
    session: Session, queue: Queue, job: Job, usage: Mapping[FlavorResource, int], *, charged: bool
) -> Refusal | None:
    tree, leaf = session.snapshot.quota, queue.quota_node
    root = tree.root(leaf)
    for key, amount in usage.items():
        owned, more = tree.subtree_quota(root, key), 0 if charged else amount
        if owned is None or not amount or not tree.borrows(leaf, key, more):
            continue
        if job.drained:
            return _drained(key, amount, job)
        keep = kept_free(session, queue, job, key)
        unused = owned - tree.usage(root, key) - more + amount
        # Where nothing is to be left, others may be asked to leave for it as for any borrower.
        if keep and unused - amount < keep:
            raised = tree.usage(leaf, key) + more - (tree.subtree_quota(leaf, key) or 0)
            return _short_by(key, amount, keep, unused, job.evictions, queue.id, raised)
    return None


def _short_by(
    key: FlavorResource, asked: int, keep: int, unused: int, evictions: int, queue: str, raised: int
) -> Refusal:
    """`raised` is by how much more nominal the queue would not have to borrow."""
    where: dict[str, int | str] = {"flavor": key.flavor, "resource": key.resource}
    numbers: dict[str, int | str] = {
        **where,
        "rule": SPARE,
        "asked": asked,
        "available": max(0, unused - keep),
        "keep_free": keep,
        "unused": max(0, unused),
        "evictions": evictions,
    }
    ways = (
        Help(HelpCode.WAIT_FOR_RELEASE, {**where, "short": asked + keep - unused}),
        Help(HelpCode.RAISE_QUOTA, {"queue": queue, **where, "short": raised}),
    )
    return Refusal(Reason.WAITING_FOR_BORROWED, numbers, ways)


def _drained(key: FlavorResource, asked: int, job: Job) -> Refusal:
    where: dict[str, int | str] = {"flavor": key.flavor, "resource": key.resource}
    numbers = {**where, "rule": DRAINED, "asked": asked}
    if job.drained_until is None:
        return Refusal(Reason.WAITING_FOR_BORROWED, numbers)
    at = int(-(-job.drained_until // 1))
    ways = (Help(HelpCode.WAIT_UNTIL, {"at": at}),)
    return Refusal(Reason.WAITING_FOR_BORROWED, {**numbers, "drained_until": at}, ways)
