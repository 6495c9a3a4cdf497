"""Simulations that a worker computes in the background, one at a time in the whole installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.db import models

from foundation.models import BaseModel


class SimulationState(models.TextChoices):
    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELED = "canceled", "Canceled"


OPEN_SIMULATIONS: Final = (SimulationState.PENDING, SimulationState.RUNNING)


class BackgroundSimulation(BaseModel):
    """A requested simulation with its progress, in thousandths, and its result.

    `seen_at` is the last report of the process that computes it, and `runs` counts its starts. `error` says
    why there is no result. `at_end` are fields that are written when it ends, in whichever way.
    """

    at_end: ClassVar[Mapping[str, Any]] = {}

    state = models.CharField(max_length=10, choices=SimulationState.choices, default=SimulationState.PENDING)
    progress = models.PositiveSmallIntegerField(default=0)
    runs = models.PositiveSmallIntegerField(default=0)
    seen_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    seconds = models.FloatField(default=0.0)
    error = models.CharField(max_length=20, blank=True, default="")
    result = models.JSONField(default=dict, blank=True)

    class Meta(BaseModel.Meta):
        abstract = True

    @property
    def part_done(self) -> float:
        """The computed part, 0 to 1."""
        return self.progress / 1_000

    @property
    def has_ended(self) -> bool:
        return self.state not in OPEN_SIMULATIONS
