"""The platform's own limits before a job may wait at all: limits of users, and budgets that are used up.

The engine of a cluster knows of neither. So a job beyond them is not handed over, and is taken back while it
waits; what is handed over of one user fits into that user's limit together.
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
    """A job that is not to be asked for, and why."""

    code: Reason
    numbers: Mapping[str, int | str]


class PlatformLimits:
    """The rules at one moment, for the jobs of one look; to be asked in the order of their arrival."""

    def __init__(self, jobs: Sequence[Job], pools: Mapping[str, em.Flavor], now: datetime) -> None:
        places = {job.workspace_id: job.workspace for job in jobs if job.state == JobState.QUEUED}
        self._found = AllowanceReader((places[pk] for pk in sorted(places)), now=now)
        self._pools = pools
        self._given: Counter[tuple[str, str]] = Counter()

    def barred_flavors(self, job: Job) -> Mapping[str, em.BarredFlavor]:
        """The flavors in which it may take no GPUs because a budget is used up, by id."""
        found = self._found.barred_flavors(job.workspace_id, preemptible=job.preemptible)
        return {item.flavor: item for item in found}

    def find_limit(
        self, job: Job, roles: Sequence[em.Role], pools: Sequence[Sequence[str]]
    ) -> Unwanted | None:
        """The limit that keeps a job back; where there is none it counts from now on.

        `pools`: by role the flavors it may be admitted to. It counts at its full size and highest charge,
        whatever of it is admitted in the end.
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
    """Return the refusal of a used-up budget; `flavor` by its name."""
    numbers: dict[str, int | str] = {
        "flavor": flavor,
        "budget_of": budget.tenant,
        "used_hours": budget.used_hours,
        "budget_hours": budget.budget_hours,
    }
    return Unwanted(
        Reason.POLICY_DENIED, numbers | ({"preemptible_in": flavor} if budget.preemptible_only else {})
    )
