"""Metrics of jobs."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

from django.db.models.functions import Coalesce

from alerts.metrics.base import Observation
from foundation.core.actor import SYSTEM
from scheduling.models import PENDING_STATES, IdleStretch, Job, JobState
from telemetry.series.readings.idle import idle_allocated
from telemetry.series.readings.now import UseNow, jobs_now
from telemetry.series.readings.over_use import slice_lines

_IDLE_S: Final = 300


def read_pending_times(now: datetime) -> list[Observation]:
    """Compute the seconds for which each job has waited: since its submission, its last run or its resume."""
    jobs = Job.unscoped.filter(state__in=PENDING_STATES).order_by()
    since = dict(jobs.values_list("pk", Coalesce("queued_at", "submitted_at")))
    return list(_observe({pk: max(0.0, (now - at).total_seconds()) for pk, at in since.items()}))


def read_idle_gpus(now: datetime) -> list[Observation]:
    """Count the GPUs of each running job that were not used in the last five minutes.

    The value is None for a job without a recent sample: whether it is idle is unknown.
    """
    running = set(Job.unscoped.filter(state=JobState.RUNNING).values_list("pk", flat=True))
    idle = Counter(part.job_id for part in idle_allocated(SYSTEM, _IDLE_S).slices)
    measured = jobs_now(SYSTEM, running)
    return list(_observe({pk: float(idle[pk]) if pk in measured else None for pk in running}))


def read_idle_warnings(now: datetime) -> list[Observation]:
    """Return 1 for each running job whose owner was warned that the idle policy is about to act."""
    warned = IdleStretch.unscoped.filter(
        job__state=JobState.RUNNING, warned_at__isnull=False, acted_at__isnull=True
    )
    return list(_observe({row.job_id: 1.0 if row.is_fresh(now) else None for row in warned}))


def read_memory_shares(now: datetime) -> list[Observation]:
    """Compute the GPU memory that each running job uses, in percent of its allocated GPU memory."""
    running = Job.unscoped.filter(state=JobState.RUNNING).values_list("pk", flat=True)
    found: dict[uuid.UUID, float | None] = dict.fromkeys(running)
    for pk, use in jobs_now(SYSTEM, list(found)).items():
        if use.memory_allocated_mib:
            found[pk] = 100 * use.memory_used_mib / use.memory_allocated_mib
    return list(_observe(found))


def read_utilization(now: datetime) -> list[Observation]:
    """Compute which share of its allocated compute each running job uses, in percent."""
    return _read_use(lambda use: use.utilisation_of_grant_percent)


def read_memory_used(now: datetime) -> list[Observation]:
    """Add up the GPU memory that each running job uses, in MiB."""
    return _read_use(lambda use: float(use.memory_used_mib))


def _read_use(read: Callable[[UseNow], float]) -> list[Observation]:
    running = Job.unscoped.filter(state=JobState.RUNNING).values_list("pk", flat=True)
    found: dict[uuid.UUID, float | None] = dict.fromkeys(running)
    found |= {pk: read(use) for pk, use in jobs_now(SYSTEM, list(found)).items()}
    return list(_observe(found))


def read_over_use(now: datetime) -> list[Observation]:
    """Count the slices of each job that use more than they were allocated, or whose memory limit was changed.

    The value is None if no slice of the job was measured lately. Jobs of whole GPUs have no observation.
    """
    found: dict[uuid.UUID, float | None] = {}
    for line in slice_lines(SYSTEM):
        job = line.slice.allocation.attempt.job_id
        if line.is_measured:
            found[job] = (found.get(job) or 0.0) + bool(line.over)
        else:
            found.setdefault(job, None)
    return list(_observe(found))


def _observe(values: Mapping[uuid.UUID, float | None]) -> Iterator[Observation]:
    jobs = Job.unscoped.filter(pk__in=values).values_list(
        "pk", "name", "workspace_id", "workspace__path", "workspace__slug"
    )
    for pk, name, workspace_id, path, slug in jobs:
        yield Observation(
            subject=str(pk),
            label=f"{slug}/{name}",
            value=values[pk],
            tenant_id=workspace_id,
            tenant_path=path,
            path=f"/w/{slug}/jobs/{pk}",
        )
