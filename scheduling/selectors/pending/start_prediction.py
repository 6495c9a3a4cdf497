"""The expected start of a pending job, and how often earlier predictions of its queue were right."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final

from foundation.core.actor import Actor
from foundation.core.reasons import Reason
from quotas.models import Queue
from scheduling.models import (
    PENDING_STATES,
    CellForecast,
    ForecastResult,
    Job,
    StartPrediction,
)
from scheduling.selectors.pending.open_predictions import find_open_predictions
from scheduling.snapshots.delegated import delegated_queues, delegating_clusters
from tenants.access import permissions
from tenants.access.permissions import Permission

COUNTED: Final = timedelta(days=28)
"""The period of the outcomes that are shown with an expected start."""
FEWEST_JUDGED: Final = 10
"""The number of outcomes from which on their share is shown: of one job, it is always 0 or 100 %."""
WEEKS: Final = 12
_MOST: Final = 20_000


class NoForecast(StrEnum):
    """The reason why a job has no expected start."""

    NOT_QUEUED = "not_queued"
    OTHER_SCHEDULER = "other_scheduler"
    NOT_YET = "not_yet"
    NO_HISTORY = "no_history"
    OUT_OF_TIME = "out_of_time"
    FAILED = "failed"
    CLAIM_NOT_BOUND = "claim_not_bound"


_RESULTS: Final = {
    ForecastResult.NO_HISTORY.value: NoForecast.NO_HISTORY,
    ForecastResult.OUT_OF_TIME.value: NoForecast.OUT_OF_TIME,
    ForecastResult.FAILED.value: NoForecast.FAILED,
}


@dataclass(frozen=True, slots=True)
class HeldRanges:
    """The numbers of predicted jobs that have started: all, and those within their 90 % and 50 % range."""

    jobs: int
    held: int
    likely_held: int

    @property
    def are_enough(self) -> bool:
        """Return whether there are enough jobs for a meaningful share."""
        return self.jobs >= FEWEST_JUDGED

    @property
    def held_percent(self) -> int | None:
        return round(100 * self.held / self.jobs) if self.jobs else None

    @property
    def likely_percent(self) -> int | None:
        return round(100 * self.likely_held / self.jobs) if self.jobs else None


@dataclass(frozen=True, slots=True)
class CalibrationWeek:
    """The outcomes of the jobs that started in the week from this day (Monday, UTC)."""

    begin: date
    ranges: HeldRanges


@dataclass(frozen=True, slots=True)
class QueueCalibration:
    """The outcomes of a queue by week, oldest first, without empty weeks, and of all weeks together."""

    weeks: Sequence[CalibrationWeek]
    total: HeldRanges


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """The prediction for the current wait, with the times of its bounds; None is beyond `horizon_at`.

    Without a prediction, `why` has the reason. `ranges` are outcomes of the job's queue within `COUNTED`.
    """

    prediction: StartPrediction | None
    why: NoForecast | None
    ranges: HeldRanges

    @property
    def bounds(self) -> Sequence[datetime | None]:
        """The five bounds, the earliest first."""
        found = self.prediction
        return [found.find_moment(seconds) for seconds in found.bounds] if found else [None] * 5

    @property
    def horizon_at(self) -> datetime | None:
        return self.prediction.find_moment(self.prediction.horizon_s) if self.prediction else None


def job_expected_start(*, viewer: Actor, job: Job, now: datetime) -> ExpectedStart:
    """Return when a job is expected to start.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    ranges = _count(_started(job.queue_id, since=now - COUNTED))
    if job.state not in PENDING_STATES:
        return ExpectedStart(None, NoForecast.NOT_QUEUED, ranges)
    if job.reason == Reason.VOLUME_CLAIM_NOT_BOUND:
        # A forecast can't know when the claim or its volume will be created.
        return ExpectedStart(None, NoForecast.CLAIM_NOT_BOUND, ranges)
    found = find_open_predictions([job.pk]).get(job.pk)
    return ExpectedStart(found, None if found else queue_forecast(job.queue), ranges)


def queue_calibration(*, viewer: Actor, queue: Queue, now: datetime) -> QueueCalibration:
    """Return how many starts of a queue's jobs were within their ranges in the last `WEEKS` weeks.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, queue.workspace)
    monday = (now - timedelta(days=now.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = _started(queue.pk, since=monday - timedelta(weeks=WEEKS - 1))
    weeks: dict[date, list[StartPrediction]] = {}
    for row in rows:
        if row.started_at is not None:
            begin = row.started_at.date() - timedelta(days=row.started_at.weekday())
            weeks.setdefault(begin, []).append(row)
    found = [CalibrationWeek(begin, _count(weeks[begin])) for begin in sorted(weeks)]
    return QueueCalibration(found, _count(rows))


def _started(queue_id: uuid.UUID, *, since: datetime) -> list[StartPrediction]:
    """Return the first predictions of waits that ended in a start since then, the latest `_MOST`."""
    rows = StartPrediction.unscoped.filter(
        queue_id=queue_id, first=True, started_at__isnull=False, closed_at__gte=since
    )
    return list(rows.defer("simulated").order_by("-closed_at")[:_MOST])


def _count(rows: Sequence[StartPrediction]) -> HeldRanges:
    counts: Counter[str] = Counter()
    for row in rows:
        counts["held"] += bool(row.held)
        counts["likely"] += bool(row.likely_held)
    return HeldRanges(len(rows), counts["held"], counts["likely"])


def queue_forecast(queue: Queue) -> NoForecast:
    """Return why a job of a queue has no expected start; `NOT_YET` if the next forecast may have it."""
    if queue.pk in delegated_queues(delegating_clusters(queue.cell_id)):
        return NoForecast.OTHER_SCHEDULER
    result = CellForecast.unscoped.filter(cell=queue.cell_id).values_list("result", flat=True).first()
    return _RESULTS.get(result or "", NoForecast.NOT_YET)
