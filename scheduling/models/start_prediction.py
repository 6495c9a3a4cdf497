"""Predictions of the starts of pending jobs, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q

from clusters.models import Cell
from foundation.models import BaseModel
from quotas.models import Queue
from scheduling.models.job import Job


class ForecastResult(models.TextChoices):
    """The result of a cell's latest forecast; results other than `done` say why there are no predictions."""

    DONE = "done", "Done"
    NO_HISTORY = "no_history", "Too few finished runs"
    OUT_OF_TIME = "out_of_time", "Took too long"
    FAILED = "failed", "Failed"


class CellForecast(BaseModel):
    """The latest forecast of one cell: `futures` simulated futures, from `runs` finished runs.

    `begun_at` ensures that one process at a time computes it. `made_at` is the time of the simulated state.
    """

    cell = models.OneToOneField(Cell, on_delete=models.CASCADE, related_name="cell_forecast")
    begun_at = models.DateTimeField(null=True, blank=True)
    made_at = models.DateTimeField(null=True, blank=True)
    result = models.CharField(max_length=12, choices=ForecastResult.choices, blank=True, default="")
    futures = models.PositiveIntegerField(default=0)
    runs = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    seconds = models.FloatField(default=0.0)

    def __str__(self) -> str:
        return f"forecast of {self.cell}: {self.result}"


class StartPrediction(BaseModel):
    """The predicted start of one job, made once, with its outcome.

    The bounds are seconds after `made_at`: 90 % of such jobs start between `low_s` and `high_s`, half of them
    between `likely_low_s` and `likely_high_s`; null is beyond `horizon_s`. `simulated` has the same five
    bounds as simulated, before earlier outcomes widened them. `first` marks the first prediction of a wait:
    only these are counted, so that each wait counts once. `started_at` is when the job was admitted;
    `closed_at` without it means that the job stopped waiting without a start.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="start_predictions", db_index=False)
    queue = models.ForeignKey(
        Queue, on_delete=models.CASCADE, related_name="start_predictions", db_index=False
    )
    made_at = models.DateTimeField()
    first = models.BooleanField()
    low_s = models.PositiveIntegerField(null=True, blank=True)
    likely_low_s = models.PositiveIntegerField(null=True, blank=True)
    median_s = models.PositiveIntegerField(null=True, blank=True)
    likely_high_s = models.PositiveIntegerField(null=True, blank=True)
    high_s = models.PositiveIntegerField(null=True, blank=True)
    simulated = models.JSONField(default=list)
    horizon_s = models.PositiveIntegerField()
    futures = models.PositiveIntegerField()
    # The number of runs from which the job's run time was estimated, and their common traits.
    runs = models.PositiveIntegerField()
    run_group = models.CharField(max_length=20)
    outcomes = models.PositiveIntegerField()
    started_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "made_at"], name="start_prediction_once"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["queue", "-closed_at"], condition=Q(first=True), name="start_prediction_first"
            ),
            models.Index(fields=["job"], condition=Q(closed_at__isnull=True), name="start_prediction_open"),
            models.Index(fields=["closed_at"], name="start_prediction_closed"),
        ]

    def __str__(self) -> str:
        return f"{self.job} within {self.low_s} to {self.high_s} s"

    @property
    def bounds(self) -> Sequence[int | None]:
        """The five bounds, the earliest first."""
        return self.low_s, self.likely_low_s, self.median_s, self.likely_high_s, self.high_s

    def find_moment(self, seconds: int | None) -> datetime | None:
        """Return the time of a bound; None beyond the horizon."""
        return None if seconds is None else self.made_at + timedelta(seconds=seconds)

    @property
    def held(self) -> bool | None:
        """True if the job started within its 90 % range; None without a start."""
        return self._is_within(self.low_s, self.high_s)

    @property
    def likely_held(self) -> bool | None:
        """True if the job started within its 50 % range; None without a start."""
        return self._is_within(self.likely_low_s, self.likely_high_s)

    def _is_within(self, low: int | None, high: int | None) -> bool | None:
        if self.started_at is None:
            return None
        waited = (self.started_at - self.made_at).total_seconds()
        earliest = self.horizon_s if low is None else low
        # Bounds are whole seconds.
        return earliest - 1 <= waited and (high is None or waited <= high + 1)
