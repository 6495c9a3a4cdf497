"""Whether a request fits the quota tree, and if not, why and what would help.

Fits means: for each flavor and resource the tree has it available; and where the job may not borrow,
it stays inside the queue's own nominal besides. A non-preemptible job never borrows, because nobody
could take back what it borrowed; a static queue never borrows, because its share is to stay fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quotas.tree import Amount, QuotaTree, at_least
from quotas.tree.limits import smaller
from scheduling.engine.model import (
    AllocationMode,
    Charge,
    FlavorResource,
    Help,
    HelpCode,
    Job,
    Numbers,
    Queue,
    Reason,
)

Held = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why quota does not let a request in."""

    reason: Reason
    numbers: Numbers
    help: tuple[Help, ...]


def may_borrow(queue: Queue, job: Job, eviction_cap: int | None = None) -> bool:
    """Whether a job of this queue may use more than the queue's own nominal.

    A job that was evicted `eviction_cap` times may not: within the nominal nobody reclaims from it.
    """
    dynamic = queue.allocation_mode is AllocationMode.DYNAMIC
    return dynamic and job.preemptible and not capped(job, eviction_cap)


def capped(job: Job, eviction_cap: int | None) -> bool:
    """Whether a job was evicted so often that nobody may evict it again; never without a cap."""
    return eviction_cap is not None and job.evictions >= eviction_cap


def ceiling(tree: QuotaTree[FlavorResource], queue: Queue, job: Job, key: FlavorResource) -> Amount:
    """The most that the queue could ever use for such a job, with nobody else using anything."""
    potential = tree.potential(queue.quota_node, key)
    if may_borrow(queue, job):
        return potential
    return smaller(potential, tree.subtree_quota(queue.quota_node, key))


def beyond_ceiling(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    charges: Iterable[Charge],
    own: Held,
) -> Shortage | None:
    """EXCEEDS_MAX_QUOTA when the request, with `own` that the job was given before, is above the ceiling."""
    for charge in charges:
        asked = charge.amount + own.get(charge.key, 0)
        limit = ceiling(tree, queue, job, charge.key)
        if limit is not None and asked > limit:
            return exceeding(tree, queue, job, charge, asked, limit)
    return None


def exceeding(
    tree: QuotaTree[FlavorResource], queue: Queue, job: Job, charge: Charge, asked: int, limit: int
) -> Shortage:
    """EXCEEDS_MAX_QUOTA: more is asked than the queue could ever use."""
    numbers = {**_where(charge), "asked": asked, "available": limit, "limit": limit}
    return Shortage(Reason.EXCEEDS_MAX_QUOTA, numbers, _ways_out(tree, queue, job, charge, asked, limit))


def missing(
    queue: Queue, charge: Charge, *, used: int, nominal: Amount, available: int, limit: Amount
) -> Shortage:
    """WAITING_FOR_BORROWED where others hold what is missing, else WAITING_FOR_QUOTA."""
    # With everyone else gone the request would fit: then it is others who hold the quota.
    others = limit is None or used + charge.amount <= limit
    short = charge.amount - max(0, available)
    numbers: dict[str, int | str] = {
        **_where(charge),
        "asked": charge.amount,
        "available": max(0, available),
        "used": used,
        **({} if nominal is None else {"nominal": nominal}),
        **({} if limit is None else {"limit": limit}),
    }
    wait = Help(HelpCode.WAIT_FOR_RELEASE, {**_where(charge), "short": short})
    if others:
        return Shortage(Reason.WAITING_FOR_BORROWED, numbers, (wait,))
    raise_quota = Help(HelpCode.RAISE_QUOTA, {"queue": queue.id, **_where(charge), "short": short})
    return Shortage(Reason.WAITING_FOR_QUOTA, numbers, (wait, raise_quota))


def _ways_out(
    tree: QuotaTree[FlavorResource], queue: Queue, job: Job, charge: Charge, asked: int, limit: int
) -> tuple[Help, ...]:
    ways = [Help(HelpCode.RAISE_QUOTA, {"queue": queue.id, **_where(charge), "short": asked - limit})]
    if limit > 0:
        ways.insert(0, Help(HelpCode.ASK_LESS, {**_where(charge), "limit": limit}))
    borrowable = at_least(tree.potential(queue.quota_node, charge.key), asked)
    if not job.preemptible and queue.allocation_mode is AllocationMode.DYNAMIC and borrowable:
        ways.append(Help(HelpCode.MAKE_PREEMPTIBLE, {"flavor": charge.flavor}))
    return tuple(ways)


def _where(charge: Charge) -> dict[str, int | str]:
    return {"flavor": charge.flavor, "resource": charge.resource}
