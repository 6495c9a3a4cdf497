"""Jobs whose cards were measured doing nothing for longer than their workspace's policy allows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime

import structlog
from django.db import transaction

from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.lifecycle.transitions import StaleJob
from scheduling.models import DeviceSlice, Job, JobState
from scheduling.policy import combine_policies
from scheduling.selectors.workspace_policy import path_policies
from tenants.models import Tenant

log = structlog.get_logger(__name__)


def idle_limits() -> dict[int, set[uuid.UUID]]:
    """Workspaces with running jobs and an idle time-out, by that time in seconds."""
    running = Job.unscoped.filter(state=JobState.RUNNING).values("workspace_id")
    limits: dict[int, set[uuid.UUID]] = {}
    for workspace in Tenant.unscoped.filter(pk__in=running).order_by("pk"):
        limit = combine_policies(path_policies(workspace)).idle_timeout_s
        if limit is not None:
            limits.setdefault(limit.amount, set()).add(workspace.pk)
    return limits


def suspend_idle(idle_cards: Mapping[uuid.UUID, int], *, limit_s: int, now: datetime) -> int:
    """Suspend the running jobs of which every card was idle; returns how many.

    `idle_cards` counts the idle cards or slices of each job. Its user resumes it when it is of use again.
    """
    suspended = 0
    jobs = Job.unscoped.filter(pk__in=idle_cards, state=JobState.RUNNING).select_related("queue")
    for job in jobs.order_by("pk"):
        held = DeviceSlice.unscoped.filter(allocation__attempt__job=job, released=False).count()
        if idle_cards[job.pk] < held:
            continue
        numbers = {"cards": held, "limit_s": limit_s}
        try:
            with transaction.atomic():
                begin_eviction(job=job, rule="IDLE", then=JobState.SUSPENDED, now=now, numbers=numbers)
        except StaleJob:
            log.info("job moved on before it was found idle", job=str(job.pk))
            continue
        suspended += 1
    return suspended
