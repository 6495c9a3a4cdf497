"""The shortage of quota for a request: the reason, its numbers, and the changes that would help.

A request fits if the tree has it available for each flavor and resource, and if a job that may not borrow
stays inside the queue's nominal. A non-preemptible job never borrows, because the quota could not be
reclaimed; a static queue never borrows, because its share is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from quotas.tree import Amount, QuotaTree, is_at_least
from quotas.tree.limits import compute_own_part, min_amount
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

AmountsByKey = Mapping[FlavorResource, int]
_BY_SEVERITY = (Reason.WAITING_FOR_BORROWED, Reason.WAITING_FOR_QUOTA, Reason.EXCEEDS_MAX_QUOTA)


@dataclass(frozen=True, slots=True)
class Shortage:
    """The reason why quota does not admit a request, and the missing amount (`short`)."""

    reason: Reason
    numbers: Numbers
    help: tuple[Help, ...]
    short: int = 0


def may_borrow(queue: Queue, job: Job, eviction_cap: int | None = None) -> bool:
    """Return whether a job of this queue may use more than the queue's nominal.

    A job that was evicted `eviction_cap` times may not: within the nominal no other queue reclaims from it.
    """
    dynamic = queue.allocation_mode is AllocationMode.DYNAMIC
    return dynamic and job.preemptible and not is_eviction_capped(job, eviction_cap)


def is_eviction_capped(job: Job, eviction_cap: int | None) -> bool:
    """Return whether a job reached the number of evictions after which it may not be evicted again."""
    return eviction_cap is not None and job.evictions >= eviction_cap


def compute_max_amount(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    key: FlavorResource,
    eviction_cap: int | None = None,
) -> Amount:
    """Return the amount that the queue could use for this job without any other usage; None is unlimited."""
    potential = tree.potential(queue.quota_node, key)
    if may_borrow(queue, job, eviction_cap):
        return potential
    return min_amount(potential, tree.subtree_quota(queue.quota_node, key))


def find_excess(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    charges: Iterable[Charge],
    own: AmountsByKey,
    eviction_cap: int | None = None,
) -> Shortage | None:
    """Return EXCEEDS_MAX_QUOTA if the request and `own`, what the job has already, exceed the maximum."""
    found = []
    for charge in charges:
        asked = charge.amount + own.get(charge.key, 0)
        limit = compute_max_amount(tree, queue, job, charge.key, eviction_cap)
        if limit is not None and asked > limit:
            found.append(describe_excess(tree, queue, job, charge, asked, limit, eviction_cap))
    return combine_shortages(found) if found else None


def combine_shortages(found: Sequence[Shortage]) -> Shortage:
    """Return the most severe shortage of one flavor, with help for each of the missing resources.

    Each help names one resource, and under `with` the others, because one of them alone does not help.
    """
    gravest = max(found, key=lambda each: _BY_SEVERITY.index(each.reason))
    if len(found) == 1:
        return gravest
    shorts = {str(each.numbers["resource"]): each.short for each in found}
    ways: list[Help] = []
    for way in gravest.help:
        together = way.code in (HelpCode.RAISE_QUOTA, HelpCode.WAIT_FOR_RELEASE)
        ways += expand_help(way, shorts) if together else (way,)
    return replace(gravest, help=tuple(ways))


def expand_help(way: Help, shorts: Mapping[str, int]) -> tuple[Help, ...]:
    """Return the help for several resources of a flavor; `shorts` is what is missing, by resource."""
    ways = []
    for name, short in shorts.items():
        others = ",".join(other for other in shorts if other != name)
        more = {"with": others} if others else {}
        ways.append(Help(way.code, {**way.numbers, "resource": name, "short": short, **more}))
    return tuple(ways)


def describe_excess(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    charge: Charge,
    asked: int,
    limit: int,
    eviction_cap: int | None = None,
) -> Shortage:
    """Return EXCEEDS_MAX_QUOTA: the request is above what the queue could ever use for this job."""
    numbers = {
        **_charge_numbers(charge),
        "asked": asked,
        "available": limit,
        "limit": limit,
        **_cap_numbers(queue, job, eviction_cap),
    }
    ways = _find_help(tree, queue, job, charge, asked, limit, eviction_cap)
    return Shortage(Reason.EXCEEDS_MAX_QUOTA, numbers, ways, asked - limit)


def describe_shortage(
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
    """Return WAITING_FOR_BORROWED if other queues use the missing amount, else WAITING_FOR_QUOTA.

    `used` is the usage of the queue, `counted` the part that counts against the job in the nominal. A
    negative `available` is usage above the quota, which has to be released as well.
    """
    # Without the usage of other queues the request would fit: then others use the quota.
    others = limit is None or used + charge.amount <= limit
    short, had = charge.amount - available, max(0, available)
    own = compute_own_part(had, nominal, counted)
    numbers: dict[str, int | str] = {
        **_charge_numbers(charge),
        "asked": charge.amount,
        "available": had,
        "own_free": own,
        "borrowable": had - own,
        "used": used,
        **({"counted": counted} if counted != used else {}),
        **({} if nominal is None else {"nominal": nominal}),
        **({} if limit is None else {"limit": limit}),
        **_cap_numbers(queue, job, eviction_cap),
    }
    wait = Help(HelpCode.WAIT_FOR_RELEASE, {**_charge_numbers(charge), "short": short})
    if others:
        return Shortage(Reason.WAITING_FOR_BORROWED, numbers, (wait,), short)
    raise_quota = Help(HelpCode.RAISE_QUOTA, {"queue": queue.id, **_charge_numbers(charge), "short": short})
    # Usage of jobs that cannot be evicted is not released by other queues.
    unevictable = nominal is not None and counted != used and counted + charge.amount > nominal
    ways = (raise_quota,) if unevictable else (wait, raise_quota)
    return Shortage(Reason.WAITING_FOR_QUOTA, {**numbers, "short": short}, ways, short)


def _cap_numbers(queue: Queue, job: Job, eviction_cap: int | None) -> dict[str, int | str]:
    """Return the number of evictions if that number alone keeps the job from borrowing."""
    borrows = may_borrow(queue, job) and not may_borrow(queue, job, eviction_cap)
    return {"capped": job.evictions} if borrows else {}


def _find_help(
    tree: QuotaTree[FlavorResource],
    queue: Queue,
    job: Job,
    charge: Charge,
    asked: int,
    limit: int,
    eviction_cap: int | None,
) -> tuple[Help, ...]:
    ways = [
        Help(HelpCode.RAISE_QUOTA, {"queue": queue.id, **_charge_numbers(charge), "short": asked - limit})
    ]
    if limit > 0:
        ways.insert(0, Help(HelpCode.ASK_LESS, {**_charge_numbers(charge), "limit": limit}))
    could_borrow = not job.preemptible and may_borrow(queue, replace(job, preemptible=True), eviction_cap)
    if could_borrow and is_at_least(tree.potential(queue.quota_node, charge.key), asked):
        ways.append(Help(HelpCode.MAKE_PREEMPTIBLE, {"flavor": charge.flavor}))
    return tuple(ways)


def _charge_numbers(charge: Charge) -> dict[str, int | str]:
    return {"flavor": charge.flavor, "resource": charge.resource}
