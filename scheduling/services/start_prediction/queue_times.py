"""Returns the running jobs of a queue with their expected ends, and the pending ones with expected starts.

Remaining run times are estimated from the queue's own latest runs, by the same model as expected starts
(`scheduling.prediction.run_times`). Nothing is written.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from django.db.models import F

from foundation.core.actor import Actor
from foundation.core.reasons import Reason
from quotas.models import Queue
from scheduling.models import RUNNING_STATES, Attempt, Job, JobRole, StartPrediction
from scheduling.prediction.run_times import PastRun, RunBasis, RunTimeEstimate, RunTimes
from scheduling.selectors.jobs.queue_jobs import queue_pending_jobs
from scheduling.selectors.pending.open_predictions import find_open_predictions
from scheduling.services.start_prediction.history import CUT_SHORT, LEAST_RUNS, WINDOW, traits_of
from tenants.access import permissions
from tenants.access.permissions import Permission

MOST_RUNS: Final = 2000
_SHARES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
_DRAWS: Final = 24
"""The number of evenly spaced draws for one job on each axis: groups of runs, and shares of a group."""

_TRAITS: Final = ("workspace_id", "submitted_by_id", "kind")
_ROLE_TRAITS: Final = ("image", "replicas", "gpu_cards", "gpu_cores")
"""The columns that `traits_of` needs: loading complete rows of 2,000 jobs would take half a second."""
_LEARNED_FOR_S: Final = 60

Bounds = Sequence[datetime | None]


@dataclass(frozen=True, slots=True)
class RunningTimes:
    """A job that holds resources. `began_at` is None until its tasks run.

    `ends` are the five bounds of its expected end, 5 % to 95 %, counted from now if it has not begun; empty
    without an estimate. `basis` is the group of earlier runs with the most weight.
    """

    job: Job
    began_at: datetime | None
    ends: Bounds
    basis: RunBasis | None


@dataclass(frozen=True, slots=True)
class PendingTimes:
    """A pending job. `starts` are the five bounds of its expected start, None beyond `horizon_at`; empty
    without an estimate.
    """

    job: Job
    starts: Bounds
    horizon_at: datetime | None


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """The first running and pending jobs of a queue at one moment, and how many of each there are."""

    now: datetime
    running: Sequence[RunningTimes]
    pending: Sequence[PendingTimes]
    running_count: int
    pending_count: int


def queue_times(*, viewer: Actor, queue: Queue, now: datetime, limit: int = 20) -> QueueTimes:
    """Return the running jobs of a queue, longest first, and the pending ones, in the order of the queue.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, queue.workspace)
    jobs = Job.unscoped.filter(queue=queue).prefetch_related("roles").select_related("workspace")
    runs = jobs.filter(state__in=RUNNING_STATES, admitted_at__isnull=False)
    shown = list(runs.order_by(F("started_at").asc(nulls_last=True), "admitted_at", "pk")[:limit])
    waits = queue_pending_jobs(viewer=viewer, queue=queue)
    learned = learned_run_times(queue.pk, now) if shown else None
    return QueueTimes(
        now=now,
        running=[_running(job, learned, now) for job in shown],
        pending=list_pending_times(list(waits[:limit])),
        running_count=runs.count(),
        pending_count=waits.count(),
    )


def list_pending_times(jobs: Sequence[Job]) -> list[PendingTimes]:
    """Return the expected starts of pending jobs; the caller has checked permissions."""
    predictions = find_open_predictions([job.pk for job in jobs])
    return [_pending(job, predictions.get(job.pk)) for job in jobs]


def running_times(*, viewer: Actor, job: Job, now: datetime) -> RunningTimes:
    """Return when a job that holds resources is expected to end.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    return _running(job, learned_run_times(job.queue_id, now), now)


def learned_run_times(queue_id: uuid.UUID, now: datetime) -> RunTimes | None:
    """Return the run times of a queue, learned at most a minute ago; None while too few runs have ended."""
    return learn_run_times(queue_id, now.timestamp() // _LEARNED_FOR_S)


def _running(job: Job, learned: RunTimes | None, now: datetime) -> RunningTimes:
    began = job.started_at or now
    if learned is None:
        return RunningTimes(job, job.started_at, (), None)
    estimate = learned.estimate_run_time(
        traits_of(job, list(job.roles.all())),
        elapsed_s=max(0.0, (now - began).total_seconds()),
        limit_s=job.max_run_s,
    )
    ends = [began + timedelta(seconds=seconds) for seconds in find_quantiles(estimate)]
    return RunningTimes(job, job.started_at, ends, estimate.basis)


def find_quantiles(estimate: RunTimeEstimate) -> list[float]:
    """Return the run times that 5, 25, 50, 75 and 95 % of such jobs do not exceed, in seconds."""
    steps = [(step + 0.5) / _DRAWS for step in range(_DRAWS)]
    drawn = sorted(estimate.draw_run_time(group, share) for group in steps for share in steps)
    return [drawn[min(len(drawn) - 1, int(share * len(drawn)))] for share in _SHARES]


@lru_cache(maxsize=64)
def learn_run_times(queue_id: uuid.UUID, minute: float) -> RunTimes | None:
    """Learn run times from the latest runs of the queue; None while too few have ended. The result is cached
    for a minute, because an open page requests it every ten seconds."""
    now = datetime.fromtimestamp((minute + 1) * _LEARNED_FOR_S, tz=UTC)
    rows = list(
        Attempt.unscoped.filter(job__queue=queue_id, admitted_at__gt=now - WINDOW, started_at__isnull=False)
        .select_related("job")
        .only("started_at", "ended_at", "end_reason", *(f"job__{name}" for name in _TRAITS))
        .order_by("-admitted_at")[:MOST_RUNS]
    )
    roles: defaultdict[uuid.UUID, list[JobRole]] = defaultdict(list)
    wanted = JobRole.unscoped.filter(job__in={row.job_id for row in rows}).only("job_id", *_ROLE_TRAITS)
    for role in wanted.order_by("job_id", "position"):
        roles[role.job_id].append(role)
    runs = [
        PastRun(
            traits_of(row.job, roles[row.job_id]),
            max(1.0, ((row.ended_at or now) - row.started_at).total_seconds()),
            row.ended_at is not None and row.end_reason not in CUT_SHORT,
        )
        for row in rows
        if row.started_at is not None and roles[row.job_id]
    ]
    return RunTimes(runs) if sum(run.ended for run in runs) >= LEAST_RUNS else None


def _pending(job: Job, found: StartPrediction | None) -> PendingTimes:
    if found is None or job.reason == Reason.VOLUME_CLAIM_NOT_BOUND:
        return PendingTimes(job, (), None)
    starts = [found.find_moment(seconds) for seconds in found.bounds]
    return PendingTimes(job, starts, found.find_moment(found.horizon_s))
