"""Suspends running preemptible jobs whose budget is used up, if the budget's action is to stop them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import structlog
from django.db import transaction

from foundation.core.months import CORE_MS_PER_GPU_HOUR
from quotas.models import Budget, BudgetAction
from quotas.selectors.tenants.budget import BudgetUse, budget_uses
from scheduling.engine.model import EvictRule
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.lifecycle.transitions import StaleJob
from scheduling.models import Allocation, Job, JobState

log = structlog.get_logger(__name__)
_RUNS = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)


def stop_over_budget(*, now: datetime) -> int:
    """Evict preemptible jobs with GPUs of a used-up budget; return how many were marked for eviction.

    They terminate as in any eviction, and are suspended: users can resume them once there is budget again.
    Jobs that are not preemptible continue.
    """
    stopping = Budget.unscoped.filter(action=BudgetAction.STOP_PREEMPTIBLE).select_related("tenant")
    spent = [use for use in budget_uses(stopping.order_by("tenant__path", "pk"), now=now) if use.exhausted]
    return sum(_stop(job, use, now) for use in spent for job in _concerned(use))


def _concerned(use: BudgetUse) -> Iterator[Job]:
    held = Allocation.unscoped.filter(released_at__isnull=True, slices__isnull=False)
    if use.budget.flavor_id is not None:
        held = held.filter(flavor=use.budget.flavor_id)
    jobs = Job.unscoped.filter(
        preemptible=True,
        state__in=_RUNS,
        workspace__path__startswith=use.budget.tenant.path,
        pk__in=held.values("attempt__job_id"),
    )
    return iter(jobs.select_related("queue").order_by("pk"))


def _stop(job: Job, use: BudgetUse, now: datetime) -> bool:
    numbers = {
        "tenant": use.budget.tenant.name,
        "used_hours": use.core_ms // CORE_MS_PER_GPU_HOUR,
        "budget_hours": use.budget.gpu_hours,
    }
    try:
        with transaction.atomic():
            begin_eviction(
                job=job, rule=EvictRule.BUDGET.value, then=JobState.SUSPENDED, now=now, numbers=numbers
            )
    except StaleJob:
        log.info("job moved on before its budget was looked at", job=str(job.pk))
        return False
    return True
