"""The GPU-hours that jobs have held so far, and their cost by the prices of the pools."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext

from django.conf import settings

from foundation.core.actor import Actor
from scheduling.metering.usage_rows import usage_of_attempts
from scheduling.models import Attempt
from telemetry.usage.accounting import split_time
from telemetry.usage.figures import round_amount
from telemetry.usage.prices import read_rates
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class JobCost:
    """The use of a job and its cost: `core_ms` in percent points of a GPU x milliseconds; `amount` is None if
    no price is known for a part of it.
    """

    core_ms: int
    amount: Decimal | None


def job_costs(
    viewer: Actor, workspaces: Collection[Tenant], jobs: Collection[uuid.UUID], *, now: datetime
) -> dict[uuid.UUID, JobCost]:
    """Return the use and the cost of jobs of workspaces; jobs that held no GPU are absent.

    Raises: NotFound, PermissionDenied.
    """
    for workspace in workspaces:
        permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    rates = read_rates()
    core_ms: defaultdict[uuid.UUID, int] = defaultdict(int)
    costs: defaultdict[uuid.UUID, Decimal] = defaultdict(Decimal)
    unpriced: set[uuid.UUID] = set()
    attempts = Attempt.unscoped.filter(job__in=jobs, job__workspace__in=workspaces)
    with localcontext() as context:
        context.prec = 50
        for row in usage_of_attempts(attempts, now=now):
            core_ms[row.job_id] += row.cores * (row.end_ms - row.begin_ms)
            known = rates.get(row.flavor_id, ())
            for at, length in split_time([rate.since_ms for rate in known], row.begin_ms, row.end_ms):
                if at < 0:
                    unpriced.add(row.job_id)
                else:
                    price = known[at].slice if row.sliced else known[at].whole
                    costs[row.job_id] += row.billed * length * price
    digits: int = settings.ALLOTMENT_CURRENCY_DIGITS
    return {
        job: JobCost(held, None if job in unpriced else round_amount(costs[job], digits))
        for job, held in core_ms.items()
    }
