"""Whether a request fits the quota tree, and if not, why and what would help.

Fits means: for each flavor and resource the tree has it available; and where the job may not borrow,
it stays inside the queue's own nominal besides. A non-preemptible job never borrows, because nobody
could take back what it borrowed; a static queue never borrows, because its share is to stay fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from quotas.tree import Amount, QuotaTree, is_at_least
from quotas.tree.limits import min_amount
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
_GRAVITY = (Reason.WAITING_FOR_BORROWED, Reason.WAITING_FOR_QUOTA, Reason.EXCEEDS_MAX_QUOTA)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why quota does not let a request in, and by how much it is short."""

    reason: Reason
    numbers: Numbers
    help: tuple[Help, ...]
    short: int = 0


def may_borrow(queue: Queue, job: Job, eviction_cap: int | None = None) -> bool:
    """Whether a job of this queue may use more than the queue's own nominal.

    A job that was evicted `eviction_cap` times may not: within the nominal nobody reclaims from it.
    """
    dynamic = queue.allocation_mode is AllocationMode.DYNAMIC
    return dynamic and job.preemptible and not capped(job, eviction_cap)


def capped(job: Job, eviction_cap: int | None) -> bool:
    """Whether a job was evicted so often that nobody may evict it again; never without a cap."""
    return eviction_cap is not None and job.evictions >= eviction_cap


def ceiling(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    key: FlavorResource,
    eviction_cap: int | None = None,
) -> Amount:
    """The most that the queue could ever use for such a job, with nobody else using anything."""
    potential = tree.potential(queue.quota_node, key)
    if may_borrow(queue, job, eviction_cap):
        return potential
    return min_amount(potential, tree.subtree_quota(queue.quota_node, key))


def beyond_ceiling(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    charges: Iterable[Charge],
    own: Held,
    eviction_cap: int | None = None,
) -> Shortage | None:
    """EXCEEDS_MAX_QUOTA when the request, with `own` that the job was given before, is above the ceiling."""
    found = []
    for charge in charges:
        asked = charge.amount + own.get(charge.key, 0)
        limit = ceiling(tree, queue, job, charge.key, eviction_cap)
        if limit is not None and asked > limit:
            found.append(exceeding(tree, queue, job, charge, asked, limit, eviction_cap))
    return all_together(found) if found else None


def all_together(found: Sequence[Shortage]) -> Shortage:
    """The gravest of what one flavor lacks. What would help against it names all that is lacking there:
    each resource by itself, and `with` the others, because none of them helps alone."""
    gravest = max(found, key=lambda each: _GRAVITY.index(each.reason))
    if len(found) == 1:
        return gravest
    shorts = {str(each.numbers["resource"]): each.short for each in found}
    ways: list[Help] = []
    for way in gravest.help:
        together = way.code in (HelpCode.RAISE_QUOTA, HelpCode.WAIT_FOR_RELEASE)
        ways += for_each(way, shorts) if together else (way,)
    return replace(gravest, help=tuple(ways))


def for_each(way: Help, shorts: Mapping[str, int]) -> tuple[Help, ...]:
    """A way out for each of several resources of its flavor by what is short, `with` the others."""
    ways = []
    for name, short in shorts.items():
        others = ",".join(other for other in shorts if other != name)
        more = {"with": others} if others else {}
        ways.append(Help(way.code, {**way.numbers, "resource": name, "short": short, **more}))
    return tuple(ways)


def exceeding(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    charge: Charge,
    asked: int,
    limit: int,
    eviction_cap: int | None = None,
) -> Shortage:
    """EXCEEDS_MAX_QUOTA: more is asked than the queue could ever use for this job."""
    numbers = {
        **_where(charge),
        "asked": asked,
        "available": limit,
        "limit": limit,
        **_at_cap(queue, job, eviction_cap),
    }
    ways = _ways_out(tree, queue, job, charge, asked, limit, eviction_cap)
    return Shortage(Reason.EXCEEDS_MAX_QUOTA, numbers, ways, asked - limit)


def missing(
    queue: Queue,
    job: Job,
    charge: Charge,
    *,
    used: int,
    counted: int,
    nominal: Amount,
    available: int,
    limit: Amount,
    eviction_cap: int | None = None,
) -> Shortage:
    """WAITING_FOR_BORROWED where other queues hold what is missing, else WAITING_FOR_QUOTA.

    `used` is what the queue uses, `counted` what of it stands against the job in its nominal. `available` is
    negative where more is used than there is: that much has to come back as well.
    """
    # With everyone else gone the request would fit: then it is others who hold the quota.
    others = limit is None or used + charge.amount <= limit
    short, had = charge.amount - available, max(0, available)
    own = had if nominal is None else min(had, max(0, nominal - counted))
    numbers: dict[str, int | str] = {
        **_where(charge),
        "asked": charge.amount,
        "available": had,
        "own_free": own,
        "borrowable": had - own,
        "used": used,
        **({"counted": counted} if counted != used else {}),
        **({} if nominal is None else {"nominal": nominal}),
        **({} if limit is None else {"limit": limit}),
        **_at_cap(queue, job, eviction_cap),
    }
    wait = Help(HelpCode.WAIT_FOR_RELEASE, {**_where(charge), "short": short})
    if others:
        return Shortage(Reason.WAITING_FOR_BORROWED, numbers, (wait,), short)
    raise_quota = Help(HelpCode.RAISE_QUOTA, {"queue": queue.id, **_where(charge), "short": short})
    # What only jobs that nobody can evict could give back is nothing that others release.
    kept = nominal is not None and counted != used and counted + charge.amount > nominal
    ways = (raise_quota,) if kept else (wait, raise_quota)
    return Shortage(Reason.WAITING_FOR_QUOTA, {**numbers, "short": short}, ways, short)


def _at_cap(queue: Queue, job: Job, eviction_cap: int | None) -> dict[str, int | str]:
    """That a job borrows no more because of its evictions, where nothing else keeps it from borrowing."""
    borrows = may_borrow(queue, job) and not may_borrow(queue, job, eviction_cap)
    return {"capped": job.evictions} if borrows else {}


def _ways_out(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    charge: Charge,
    asked: int,
    limit: int,
    eviction_cap: int | None,
) -> tuple[Help, ...]:
    ways = [Help(HelpCode.RAISE_QUOTA, {"queue": queue.id, **_where(charge), "short": asked - limit})]
    if limit > 0:
        ways.insert(0, Help(HelpCode.ASK_LESS, {**_where(charge), "limit": limit}))
    could_borrow = not job.preemptible and may_borrow(queue, replace(job, preemptible=True), eviction_cap)
    if could_borrow and is_at_least(tree.potential(queue.quota_node, charge.key), asked):
        ways.append(Help(HelpCode.MAKE_PREEMPTIBLE, {"flavor": charge.flavor}))
    return tuple(ways)


def _where(charge: Charge) -> dict[str, int | str]:
    return {"flavor": charge.flavor, "resource": charge.resource}
