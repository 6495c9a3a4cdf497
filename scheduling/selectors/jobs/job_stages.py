"""Computes the stages of a job since its last entry into the queue from recorded transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from foundation.core.actor import Actor
from foundation.core.reason_row import Gate
from foundation.core.reasons import Reason
from scheduling.models import Decision, DecisionKind, Job, JobState
from tenants.access import permissions
from tenants.access.permissions import Permission

_MOST: Final = 2000
"""The number of latest changes of the reason that are read; the time before them counts as queued."""


class JobStage(StrEnum):
    """A stage between the entry into the queue and the end."""

    QUEUED = "queued"
    QUOTA = "quota"
    NODES = "nodes"
    STARTING = "starting"
    RUNNING = "running"


_STAGES: Final[Mapping[Gate, JobStage]] = {
    Gate.QUOTA: JobStage.QUOTA,
    Gate.COHORT: JobStage.QUOTA,
    Gate.FIT: JobStage.NODES,
    Gate.ROOM: JobStage.NODES,
    Gate.PREEMPTION: JobStage.NODES,
}
"""The stage of a pending job by the gate that it has not passed; all other gates are `QUEUED`."""


@dataclass(frozen=True, slots=True)
class StageTime:
    """The total time that a job spent in a stage."""

    stage: JobStage
    time: timedelta


def job_stages(*, viewer: Actor, job: Job, now: datetime) -> Sequence[StageTime]:
    """Return the stages of the job's last or current attempt in their order, without stages of no time.

    They add up to the time from its last entry into the queue to its end, or to now. A suspended job has
    none. Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    if job.state == JobState.SUSPENDED:
        return ()
    begin, end = job.queued_since, job.finished_at or now
    left_queue = job.admitted_at or end
    changes = Decision.unscoped.filter(
        job=job, kind=DecisionKind.PARK, created_at__gte=begin, created_at__lt=left_queue
    )
    times = dict.fromkeys(JobStage, timedelta(0))
    stage, since = JobStage.QUEUED, begin
    for code, at in reversed(
        changes.order_by("-created_at", "-pk").values_list("code", "created_at")[:_MOST]
    ):
        times[stage] += at - since
        stage, since = _stage_of(code), at
    times[stage] += left_queue - since
    if job.admitted_at is not None:
        started = job.started_at or end
        times[JobStage.STARTING] = started - job.admitted_at
        times[JobStage.RUNNING] = end - started
    return [StageTime(stage, time) for stage, time in times.items() if time > timedelta(0)]


def _stage_of(code: str) -> JobStage:
    known = Reason.__members__.get(code)
    return _STAGES.get(known.row.gate, JobStage.QUEUED) if known else JobStage.QUEUED
