"""Predicts the start of one job after a possible change of the job or its cell; nothing is stored."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from foundation.core.clock import start_work_stopwatch
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.preview_time import MOST_WALL_PER_WORK
from scheduling.models import Job
from scheduling.prediction.calibration import Scores, widen_range
from scheduling.prediction.forecast import FEWEST_FUTURES, ForecastOptions, History, forecast_starts
from scheduling.services.start_prediction.history import read_history
from scheduling.services.start_prediction.outcomes import read_scores
from scheduling.services.start_prediction.predict import forecast_config
from scheduling.snapshots import CellSnapshot

Bounds = tuple[datetime, datetime | None]
BUDGET_S: Final = 8.0
"""The CPU time of one estimate, in seconds."""
OPTIONS: Final = ForecastOptions(futures=12)
"""Fewer futures than for stored predictions, because a user waits for the answer."""


class ChangedStarts:
    """Predicts starts of one job after changes of the job or its cell, from the history of the cell."""

    def __init__(self, job: Job, cell_id: uuid.UUID, now: datetime) -> None:
        self._job, self._cell_id, self._now = job, cell_id, now
        self._history: History | None = None

    @cached_property
    def _scores(self) -> Sequence[Scores]:
        return read_scores([self._job.queue_id], now=self._now)[self._job.queue_id]

    def predict_start(
        self, taken: CellSnapshot, changed: em.Job, *, within_s: float
    ) -> tuple[datetime, Bounds] | None:
        """Return the median and the 50 % range of the start of a job of the snapshot, which is not changed.

        The end of the range is None beyond the horizon. The result is None if the median lies beyond it, or
        if the history is too short. Raises: DeadlineExceededError if `within_s` seconds of CPU time are too
        few for all futures up to the horizon.
        """
        if self._history is None:
            self._history = read_history(self._cell_id, taken.jobs, now=self._now)
        history, known = self._history, str(self._job.pk)
        if history is None or known not in history.traits:
            return None
        before = _count_gpus(taken.snapshot.jobs[known])
        size = history.traits[known].size * _count_gpus(changed) // before if before else 0
        traits = replace(history.traits[known], size=size)
        forecast = forecast_starts(
            taken.snapshot,
            forecast_config(taken.sharing),
            replace(history, traits={**history.traits, changed.id: traits}),
            now=self._now.timestamp(),
            seed=int(self._now.timestamp()),
            jobs=[changed.id],
            options=replace(OPTIONS, budget_s=min(BUDGET_S, within_s)),
            stopwatch=start_work_stopwatch(most_wall_per_work=MOST_WALL_PER_WORK),
        )
        if forecast.futures < FEWEST_FUTURES:
            raise engine.DeadlineExceededError
        found = forecast.ranges.get(changed.id)
        seconds = (None,) * 5 if found is None else widen_range(found, self._scores).seconds
        _low, first, middle, last, _high = seconds
        if first is None or middle is None:
            if forecast.horizon_s < OPTIONS.horizon_s:
                raise engine.DeadlineExceededError
            return None
        end = None if last is None else self._now + timedelta(seconds=last)
        return self._now + timedelta(seconds=middle), (self._now + timedelta(seconds=first), end)


def _count_gpus(job: em.Job) -> int:
    return sum(role.replicas * role.request.gpu.cards for role in job.roles if role.request.gpu)
