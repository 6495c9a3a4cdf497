"""The platform's own limits for jobs that a cluster's engine admits: user limits and used-up budgets.

The cluster's engine knows neither. So a job beyond them gets no workload there, or loses it while it waits;
all workloads of one user together stay within the user's limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.allowances import AllowanceReader
from scheduling.models import Job, JobState


@dataclass(frozen=True, slots=True)
class Unwanted:
    """The reason why a job must have no workload in the cluster."""

    code: Reason
    numbers: Mapping[str, int | str]


class PlatformLimits:
    """The limits at one moment, for the jobs of one reconciliation; checked in the order of submission."""

    def __init__(self, jobs: Sequence[Job], pools: Mapping[str, em.Flavor], now: datetime) -> None:
        places = {job.workspace_id: job.workspace for job in jobs if job.state == JobState.QUEUED}
        self._found = AllowanceReader((places[pk] for pk in sorted(places)), now=now)
        self._pools = pools
        self._given: Counter[tuple[str, str]] = Counter()

    def barred_flavors(self, job: Job) -> Mapping[str, em.BarredFlavor]:
        """Return the flavors, by id, in which the job may take no GPUs because a budget is used up."""
        found = self._found.barred_flavors(job.workspace_id, preemptible=job.preemptible)
        return {item.flavor: item for item in found}

    def find_limit(
        self, job: Job, roles: Sequence[em.Role], pools: Sequence[Sequence[str]]
    ) -> Unwanted | None:
        """Return the limit that the job exceeds; if there is none, the job counts for the jobs checked next.

        `pools` are the flavors that each role may be admitted to. The job counts with all its tasks at the
        highest charge, even if the cluster admits it at a smaller size.
        """
        caps = self._found.of_user(job.workspace_id, job.submitted_by_id)
        asked: Counter[str] = Counter()
        for role, allowed in zip(roles, pools, strict=True) if caps else ():
            charged = [engine.compute_demand(role.request, self._pools[pool]) for pool in allowed]
            for resource in Resource:
                asked[resource.value] += role.replicas * max(each.get(resource, 0) for each in charged)
        for cap in caps:
            held, more = cap.held + self._given[cap.id, cap.resource], asked[cap.resource]
            if more and held + more > cap.limit:
                extra = {"asked": more, "held": held, "user_limit": cap.limit}
                return Unwanted(Reason.POLICY_DENIED, {"resource": cap.resource, **extra})
        for cap in caps:
            self._given[cap.id, cap.resource] += asked[cap.resource]
        return None


def budget_refusal(budget: em.BarredFlavor, flavor: str) -> Unwanted:
    """Return the refusal because of a used-up budget; `flavor` is a name."""
    numbers: dict[str, int | str] = {
        "flavor": flavor,
        "budget_of": budget.tenant,
        "used_hours": budget.used_hours,
        "budget_hours": budget.budget_hours,
    }
    return Unwanted(
        Reason.POLICY_DENIED, numbers | ({"preemptible_in": flavor} if budget.preemptible_only else {})
    )
