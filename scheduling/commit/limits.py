"""Limits of users and budgets, checked again under the cell's lock for the jobs of one commit."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from foundation.core.flavor_resource import FlavorResource
from foundation.core.quantities import Resource
from scheduling.engine_input.allowances import AllowanceReader
from scheduling.models import Job


class AdmissionLimits:
    """The limits for one transaction that admits jobs. It locks the user limits of their workspaces."""

    def __init__(self, jobs: Iterable[Job], now: datetime) -> None:
        places = {job.workspace_id: job.workspace for job in jobs}
        self._allowances = AllowanceReader((places[pk] for pk in sorted(places)), now=now, locked=True)
        self._given: Counter[tuple[uuid.UUID, uuid.UUID, str]] = Counter()

    def allow_job(self, job: Job, amounts: Mapping[FlavorResource, int]) -> bool:
        """Return whether a job may be charged `amounts`; if so, they count for the jobs checked next."""
        asked: Counter[str] = Counter()
        for (_, resource), amount in amounts.items():
            asked[resource] += amount
        place, user = job.workspace_id, job.submitted_by_id
        for cap in self._allowances.of_user(place, user):
            more = asked[cap.resource]
            if more and cap.held + self._given[place, user, cap.resource] + more > cap.limit:
                return False
        barred = {item.flavor for item in self._allowances.barred_flavors(place, preemptible=job.preemptible)}
        if any(amount and key == Resource.GPU_CORES and f in barred for (f, key), amount in amounts.items()):
            return False
        for resource, amount in asked.items():
            self._given[place, user, resource] += amount
        return True
