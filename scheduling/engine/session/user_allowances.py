"""This module checks what user caps and budgets allow beside the quota of a queue.

Both come with the job. A cap counts what the user's jobs hold, plus what this cycle allocated to, or claimed
for, others of them, so that jobs admitted together stay within it together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scheduling.engine.gang import smallest_gang
from scheduling.engine.model import (
    Allocation,
    Allowance,
    BarredFlavor,
    Flavor,
    FlavorResource,
    Instant,
    Job,
    JobState,
    Queue,
    Reason,
    ResourceName,
)
from scheduling.engine.placement.feasibility import InfeasibleFlavors
from scheduling.engine.placement.index.clusters import queue_clusters
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.state.charges import compute_demand, compute_job_demand, sum_charges
from scheduling.engine.state.snapshot import Snapshot

_Sums = Mapping[ResourceName, int]


class UserAllowances:
    """The usage that one cycle adds for jobs with caps."""

    def __init__(self, snapshot: Snapshot, now: Instant) -> None:
        self._snapshot = snapshot
        self._usage_by_job: dict[str, tuple[Job, _Sums]] = {}
        self._sums: Counter[tuple[str, ResourceName]] = Counter()
        for job_id in sorted(snapshot.claims):
            claim, job = snapshot.claims[job_id], snapshot.jobs.get(job_id)
            due = job is not None and job.state is JobState.QUEUED and claim.until > now
            # A claim that the caps do not cover any more is not counted, so that other jobs may use the cap.
            if job is not None and due and self.is_allowed(job, claim.allocations):
                self.record_use(job, claim.allocations)

    def record_use(self, job: Job, allocations: Iterable[Allocation]) -> None:
        """Count the allocations of a job, in place of its claim."""
        if job.allowances:
            self.forget_claim(job.id)
            usage = sum_charges(charge for allocation in allocations for charge in allocation.charges)
            self._usage_by_job[job.id] = job, _by_resource(usage)
            self._count(job, self._usage_by_job[job.id][1], 1)

    def forget_claim(self, job_id: str) -> None:
        """Stop counting the claim of a job."""
        if job_id in self._usage_by_job:
            self._count(*self._usage_by_job.pop(job_id), -1)

    def find_refused_flavors(self, queue: Queue, job: Job) -> dict[str, Refusal]:
        """Return the flavors in which even the job's smallest size is not allowed, each with the refusal."""
        if not job.allowances and not job.barred:
            return {}
        counts, found = smallest_gang(job), {}
        barred = {item.flavor: item for item in job.barred}
        for name in queue.flavors:
            flavor = self._snapshot.flavors.get(name)
            if name in barred:
                found[name] = _refuse_budget(barred[name])
            elif (
                flavor is not None
                and (over := self.find_exceeded_cap(job, compute_job_demand(job, counts, flavor))) is not None
            ):
                found[name] = over
        return found

    def find_denial(
        self, queue: Queue, job: Job, infeasible: InfeasibleFlavors = frozenset()
    ) -> Refusal | None:
        """Return why the job may not start, whichever flavors of the queue its roles get in one cluster.

        The result is None if it is allowed somewhere. `infeasible` flavors of a role are left out.
        """
        if not job.allowances and not job.barred:
            return None
        flavors = self._snapshot.flavors
        known = [found for name in queue.flavors if (found := flavors.get(name)) is not None]
        clusters = queue_clusters(flavors, queue) if len(job.roles) > 1 else ()
        why: Refusal | None = None
        for cluster in clusters or ("",):
            in_cluster = [
                each for each in known if not (clusters and each.placed and each.cluster != cluster)
            ]
            feasible = {
                role.name: [each for each in in_cluster if (role.name, each.id) not in infeasible]
                for role in job.roles
            }
            if not all(feasible.values()):
                continue
            refused = self._denial_among(job, feasible)
            if refused is None:
                return None
            why = why or refused
        return why

    def _denial_among(self, job: Job, feasible: Mapping[str, Sequence[Flavor]]) -> Refusal | None:
        """Return why a role is allowed none of these flavors, or which cap is below the least that the job
        asks for in the allowed ones."""
        barred, counts = {item.flavor: item for item in job.barred}, smallest_gang(job)
        least: Counter[ResourceName] = Counter()
        for role in job.roles:
            allowed = [flavor for flavor in feasible[role.name] if flavor.id not in barred]
            if not allowed:
                return _refuse_budget(barred[feasible[role.name][0].id])
            for cap in job.allowances:
                each = min(compute_demand(role.request, flavor).get(cap.resource, 0) for flavor in allowed)
                least[cap.resource] += each * counts[role.name]
        return self._exceeded_cap(job, least)

    def find_exceeded_cap(self, job: Job, usage: Mapping[FlavorResource, int]) -> Refusal | None:
        """Return the refusal of the first cap that the job would exceed with this usage."""
        return self._exceeded_cap(job, _by_resource(usage)) if job.allowances else None

    def _exceeded_cap(self, job: Job, asked: _Sums) -> Refusal | None:
        own = self._usage_by_job[job.id][1] if job.id in self._usage_by_job else {}
        for cap in job.allowances:
            given = self._sums[cap.id, cap.resource] - own.get(cap.resource, 0)
            more = asked.get(cap.resource, 0)
            if more and cap.held + given + more > cap.limit:
                return _refuse_cap(cap, cap.held + given, more)
        return None

    def is_allowed(self, job: Job, allocations: tuple[Allocation, ...]) -> bool:
        """Return whether the job may have these allocations."""
        usage = sum_charges(charge for allocation in allocations for charge in allocation.charges)
        barred = {item.flavor for item in job.barred}
        return barred.isdisjoint(key.flavor for key in usage) and self.find_exceeded_cap(job, usage) is None

    def _count(self, job: Job, sums: _Sums, sign: int) -> None:
        for cap in job.allowances:
            self._sums[cap.id, cap.resource] += sign * sums.get(cap.resource, 0)


def _by_resource(usage: Mapping[FlavorResource, int]) -> Counter[ResourceName]:
    sums: Counter[ResourceName] = Counter()
    for key, amount in usage.items():
        sums[key.resource] += amount
    return sums


def _refuse_cap(cap: Allowance, held: int, asked: int) -> Refusal:
    numbers: dict[str, int | str] = {
        "resource": cap.resource, "asked": asked, "held": held, "user_limit": cap.limit,
    }  # fmt: skip
    return Refusal(Reason.POLICY_DENIED, numbers)


def _refuse_budget(budget: BarredFlavor) -> Refusal:
    numbers: dict[str, int | str] = {
        "flavor": budget.flavor,
        "budget_of": budget.tenant,
        "used_hours": budget.used_hours,
        "budget_hours": budget.budget_hours,
        **({"preemptible_in": budget.flavor} if budget.preemptible_only else {}),
    }
    return Refusal(Reason.POLICY_DENIED, numbers)
