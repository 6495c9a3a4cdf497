"""What people and budgets allow beside the quota: the caps of a user, and flavors whose budget is used up.

Both come with the job. A cap counts what the user's jobs hold and, on top, what this cycle gives or has
promised to others of them, so that jobs admitted together stay within it together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from scheduling.engine.gang import smallest
from scheduling.engine.model import (
    Allocation,
    Allowance,
    Barred,
    FlavorResource,
    Instant,
    Job,
    JobState,
    Queue,
    Reason,
    ResourceName,
)
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.quota.charges import asked_of, summed
from scheduling.engine.state.snapshot import Snapshot

_Sums = Mapping[ResourceName, int]


class Allowances:
    """What one cycle gives to jobs that are limited."""

    def __init__(self, snapshot: Snapshot, now: Instant) -> None:
        self._snapshot = snapshot
        self._given: dict[str, tuple[Job, _Sums]] = {}
        self._sums: Counter[tuple[str, ResourceName]] = Counter()
        for job_id in sorted(snapshot.claims):
            claim, job = snapshot.claims[job_id], snapshot.jobs.get(job_id)
            if job is not None and job.state is JobState.QUEUED and claim.until > now:
                self.give(job, claim.allocations)

    def give(self, job: Job, allocations: Iterable[Allocation]) -> None:
        """Count what a job gets, in place of what it was promised."""
        if job.allowances:
            self.take_back(job.id)
            usage = summed(charge for allocation in allocations for charge in allocation.charges)
            self._given[job.id] = job, _by_resource(usage)
            self._count(job, self._given[job.id][1], 1)

    def take_back(self, job_id: str) -> None:
        """A promise that is none any more."""
        if job_id in self._given:
            self._count(*self._given.pop(job_id), -1)

    def refused(self, queue: Queue, job: Job) -> dict[str, Refusal]:
        """The flavors of a queue in which even the job's smallest size is not allowed, and why."""
        if not job.allowances and not job.barred:
            return {}
        counts, found = smallest(job), {}
        barred = {item.flavor: item for item in job.barred}
        for name in queue.flavors:
            flavor = self._snapshot.flavors.get(name)
            if name in barred:
                found[name] = _spent(barred[name])
            elif flavor is not None and (over := self.over(job, asked_of(job, counts, flavor))) is not None:
                found[name] = over
        return found

    def denied(self, queue: Queue, job: Job, without: Collection[str] = ()) -> Refusal | None:
        """Why no flavor of the queue is allowed, apart from some that do not count; None where one is."""
        refused = {name: why for name, why in self.refused(queue, job).items() if name not in without}
        known = sum(name in self._snapshot.flavors and name not in without for name in queue.flavors)
        return next(iter(refused.values())) if refused and len(refused) >= known else None

    def over(self, job: Job, usage: Mapping[FlavorResource, int]) -> Refusal | None:
        """The first cap that a job would go beyond with this use."""
        asked = _by_resource(usage) if job.allowances else {}
        own = self._given[job.id][1] if job.id in self._given else {}
        for cap in job.allowances:
            given = self._sums[cap.id, cap.resource] - own.get(cap.resource, 0)
            more = asked.get(cap.resource, 0)
            if more and cap.held + given + more > cap.limit:
                return _above(cap, cap.held + given, more)
        return None

    def allows(self, job: Job, allocations: tuple[Allocation, ...]) -> bool:
        """Whether a job may have these."""
        usage = summed(charge for allocation in allocations for charge in allocation.charges)
        barred = {item.flavor for item in job.barred}
        return barred.isdisjoint(key.flavor for key in usage) and self.over(job, usage) is None

    def _count(self, job: Job, sums: _Sums, sign: int) -> None:
        for cap in job.allowances:
            self._sums[cap.id, cap.resource] += sign * sums.get(cap.resource, 0)


def _by_resource(usage: Mapping[FlavorResource, int]) -> Counter[ResourceName]:
    sums: Counter[ResourceName] = Counter()
    for key, amount in usage.items():
        sums[key.resource] += amount
    return sums


def _above(cap: Allowance, held: int, asked: int) -> Refusal:
    numbers: dict[str, int | str] = {
        "resource": cap.resource, "asked": asked, "held": held, "user_limit": cap.limit,
    }  # fmt: skip
    return Refusal(Reason.POLICY_DENIED, numbers)


def _spent(budget: Barred) -> Refusal:
    numbers: dict[str, int | str] = {
        "flavor": budget.flavor,
        "budget_of": budget.tenant,
        "used_hours": budget.used_hours,
        "budget_hours": budget.budget_hours,
        **({"preemptible_in": budget.flavor} if budget.preemptible_only else {}),
    }
    return Refusal(Reason.POLICY_DENIED, numbers)
