"""Forecasts a cell: reads state and history, simulates futures, stores a prediction for each pending job."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from django.db.models import Q

from foundation.core import clock
from foundation.core.garbage_collection import gc_paused
from foundation.sql import row_scope
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.config import engine_config
from scheduling.models import CellForecast, ForecastResult, Job, JobState, StartPrediction
from scheduling.prediction.calibration import Scores, widen_range
from scheduling.prediction.forecast import (
    FEWEST_FUTURES,
    Forecast,
    ForecastOptions,
    History,
    StartRange,
    basis_of,
    forecast_starts,
)
from scheduling.prediction.run_times import RunBasis
from scheduling.selectors.pending.open_predictions import find_open_predictions
from scheduling.services.start_prediction.history import read_history
from scheduling.services.start_prediction.outcomes import close_predictions, read_scores
from scheduling.snapshots import CellSnapshot, cell_snapshot
from scheduling.snapshots.delegated import read_delegated

log = structlog.get_logger(__name__)

EVERY: Final = timedelta(minutes=5)
"""The interval of forecasts."""
MOST_PREDICTED: Final = 500
"""The maximum number of jobs with stored predictions: those of the highest priority, the oldest first."""
OPTIONS: Final = ForecastOptions(budget_s=30.0)
"""The budget is CPU time: 10 % of one processor."""
MOST_WALL_PER_WORK: Final = 7.0
"""On a busy machine, a forecast may take this multiple of its budget in wall time."""
TASK_LIMIT_S: Final = 280
"""The time after which the task is ended, in seconds: above what a forecast may take, below `EVERY`."""
_DUE_AFTER: Final = EVERY - timedelta(seconds=5)
"""A forecast may begin 5 s early, because the timer is not exact."""
_LIMIT: Final = timedelta(seconds=TASK_LIMIT_S)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MadeForecast:
    """A forecast with its inputs; if there is no forecast, `result` says why."""

    result: ForecastResult
    taken: CellSnapshot
    history: History | None = None
    forecast: Forecast | None = None


@row_scope.whole()
def find_cell_to_predict(*, now: datetime) -> uuid.UUID | None:
    """Return the cell with pending jobs or open predictions whose forecast is the most overdue; None if none
    is due or a forecast of any cell is running.

    Forecasts of several cells at once could take all worker processes, which also create and observe pods.
    One whose process was ended is considered as running until `TASK_LIMIT_S` after its begin.
    """
    forecasts = list(CellForecast.unscoped.only("cell_id", "begun_at", "made_at"))
    if any(_is_running(forecast, now) for forecast in forecasts):
        return None
    waiting = Job.unscoped.filter(state=JobState.QUEUED).order_by().values_list("queue__cell_id")
    predicted = StartPrediction.unscoped.filter(closed_at__isnull=True).values_list("queue__cell_id")
    cells = {cell for (cell,) in (*waiting.distinct(), *predicted.order_by().distinct())}
    begun = {forecast.cell_id: forecast.begun_at for forecast in forecasts}
    due = [cell for cell in cells if not _is_within(_DUE_AFTER, begun.get(cell), now)]
    return min(due, key=lambda cell: (begun.get(cell) or _NEVER, cell), default=None)


def _is_running(forecast: CellForecast, now: datetime) -> bool:
    begun, made = forecast.begun_at, forecast.made_at
    return begun is not None and _is_within(_LIMIT, begun, now) and (made is None or made < begun)


def _is_within(period: timedelta, moment: datetime | None, now: datetime) -> bool:
    """Return whether a moment is less than the period ago, or ahead, as after the clock was set back."""
    return moment is not None and abs(now - moment) < period


def predict_starts(*, cell_id: uuid.UUID, now: datetime) -> int:
    """Close the predictions of a cell whose outcome is known, and make new ones; return how many are stored.

    Nothing is done if another process has begun a forecast within `EVERY`.
    """
    if not _begin(cell_id, now):
        return 0
    begun = time.monotonic()
    close_predictions(cell_id=cell_id, now=now)
    try:
        with gc_paused():
            stopwatch = clock.start_work_stopwatch(most_wall_per_work=MOST_WALL_PER_WORK)
            found = forecast_cell(cell_id, now=now, stopwatch=stopwatch)
    except Exception:
        CellForecast.unscoped.filter(cell=cell_id).update(result=ForecastResult.FAILED, made_at=now)
        raise
    rows = _predictions_of(found, now) if found.forecast else []
    StartPrediction.unscoped.bulk_create(rows, batch_size=500, ignore_conflicts=True)
    seconds = time.monotonic() - begun
    CellForecast.unscoped.filter(cell=cell_id).update(
        made_at=now,
        result=found.result,
        futures=found.forecast.futures if found.forecast else 0,
        runs=found.forecast.runs if found.forecast else 0,
        waiting=len(rows),
        seconds=round(seconds, 3),
    )
    log.info("starts predicted", cell=str(cell_id), jobs=len(rows), result=found.result, seconds=seconds)
    return len(rows)


def forecast_cell(
    cell_id: uuid.UUID,
    *,
    now: datetime,
    stopwatch: Callable[[], float],
) -> MadeForecast:
    """Return the forecast of the current cell. Nothing is written."""
    taken = cell_snapshot(cell_id, but=read_delegated(cell_id))
    waiting = find_waiting_jobs(taken)
    history = read_history(cell_id, taken.jobs, now=now)
    if history is None:
        return MadeForecast(ForecastResult.NO_HISTORY, taken)
    forecast = forecast_starts(
        taken.snapshot,
        forecast_config(taken.sharing),
        history,
        now=now.timestamp(),
        seed=int(now.timestamp()),
        jobs=waiting,
        options=OPTIONS,
        returning=find_returning(taken),
        stopwatch=stopwatch,
    )
    enough = forecast.futures >= FEWEST_FUTURES
    result = ForecastResult.DONE if enough else ForecastResult.OUT_OF_TIME
    return MadeForecast(result, taken, history, forecast)


def forecast_config(sharing: str) -> engine.EngineConfig:
    """Return the configuration of simulated cycles: that of a cell, without recommendations and without
    actions that depend on measurements."""
    return replace(
        engine_config(sharing),
        actions=("admit", "consolidate"),
        explain=engine.ExplainScope.CONSIDERED,
        advise_for="",
    )


def _begin(cell_id: uuid.UUID, now: datetime) -> bool:
    """Return whether this process makes the forecast: it does if it is the first to update `begun_at`."""
    row, _made = CellForecast.unscoped.get_or_create(cell_id=cell_id)
    due = Q(begun_at__isnull=True) | Q(begun_at__lte=now - _DUE_AFTER) | Q(begun_at__gte=now + _DUE_AFTER)
    return bool(CellForecast.unscoped.filter(due, pk=row.pk).update(begun_at=now))


def find_waiting_jobs(taken: CellSnapshot) -> Sequence[str]:
    """Return the pending jobs that are predicted, `MOST_PREDICTED` at most."""
    waiting = [job for job in taken.snapshot.jobs.values() if job.state is em.JobState.QUEUED]
    waiting.sort(key=lambda job: (-job.priority, job.submitted_at, job.id))
    return [job.id for job in waiting[:MOST_PREDICTED]]


def find_returning(taken: CellSnapshot) -> frozenset[str]:
    """Return the jobs that are being evicted and are pending again afterwards."""
    return frozenset(
        key
        for key, job in taken.jobs.items()
        if job.state == JobState.EVICTING and job.after_eviction == JobState.QUEUED
    )


def _predictions_of(found: MadeForecast, now: datetime) -> list[StartPrediction]:
    if found.forecast is None or found.history is None:
        return []
    jobs = {key: found.taken.jobs[key] for key in found.forecast.ranges}
    scores = read_scores(sorted({job.queue_id for job in jobs.values()}), now=now)
    predicted = find_open_predictions([job.pk for job in jobs.values()])
    rows = []
    for key, simulated in found.forecast.ranges.items():
        job, basis = jobs[key], basis_of(found.history, found.taken.snapshot.jobs[key])
        if job.pk in predicted and _says_more(predicted[job.pk], simulated, now):
            continue
        row = build_prediction(
            simulated, basis, scores[job.queue_id], futures=found.forecast.futures, now=now
        )
        row.job, row.queue_id, row.first = job, job.queue_id, job.pk not in predicted
        rows.append(row)
    return rows


def build_prediction(
    simulated: StartRange, basis: RunBasis, scores: Sequence[Scores], *, futures: int, now: datetime
) -> StartPrediction:
    """Return the prediction of a simulated range, widened by the scores of its queue, without its job."""
    low, likely_low, median, likely_high, high = _whole(widen_range(simulated, scores))
    return StartPrediction(
        made_at=now,
        low_s=low,
        likely_low_s=likely_low,
        median_s=median,
        likely_high_s=likely_high,
        high_s=high,
        simulated=_whole(simulated),
        horizon_s=int(simulated.horizon_s),
        futures=futures,
        runs=basis.runs,
        run_group=basis.level.value,
        outcomes=len(scores),
    )


def _says_more(known: StartPrediction, simulated: StartRange, now: datetime) -> bool:
    """Return whether the latest prediction of a job is kept in place of a range that was cut short.

    It is if the range has no end within its shorter horizon and the prediction, whose own range has not
    passed, covers a later time.
    """
    if simulated.seconds[-1] is not None:
        return False
    end, covered = known.find_moment(known.high_s), known.find_moment(known.horizon_s)
    has_passed = end is not None and end < now
    return not has_passed and covered is not None and covered > now + timedelta(seconds=simulated.horizon_s)


def _whole(found: StartRange) -> list[int | None]:
    return [None if seconds is None else round(seconds) for seconds in found.seconds]
