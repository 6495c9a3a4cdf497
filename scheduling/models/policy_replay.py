"""Replays of a recorded period under another configuration, with their results."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db import models

from clusters.models import Cell
from foundation.models import BaseModel


class ReplayState(models.TextChoices):
    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELED = "canceled", "Canceled"


ENDED_REPLAYS: Final = (ReplayState.DONE, ReplayState.FAILED, ReplayState.CANCELED)


class PolicyReplay(BaseModel):
    """A simulation of the jobs of a period with the cell's recorded configuration, and with `change`.

    `services.policy_replay.change` writes `change`. `progress` is in thousandths; `seen_at` is the last
    report of the process that computes it, and `runs` counts its starts. `result` has the figures of
    `replay_tally` for `measured`, `recorded` and `changed`; `error` says why some are missing. Only platform
    roles may see it, because it names workspaces of all tenants.
    """

    cell = models.ForeignKey(Cell, on_delete=models.CASCADE, related_name="policy_replays")
    name = models.CharField(max_length=100)
    actor_id = models.UUIDField(null=True)
    actor_name = models.CharField(max_length=150)
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField()
    change = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=ReplayState.choices, default=ReplayState.PENDING)
    progress = models.PositiveSmallIntegerField(default=0)
    runs = models.PositiveSmallIntegerField(default=0)
    seen_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    seconds = models.FloatField(default=0.0)
    error = models.CharField(max_length=20, blank=True, default="")
    result = models.JSONField(default=dict, blank=True)

    class Meta(BaseModel.Meta):
        ordering: ClassVar = ["-created_at", "-id"]
        indexes: ClassVar = [
            models.Index(
                fields=["created_at"],
                condition=models.Q(state__in=(ReplayState.PENDING, ReplayState.RUNNING)),
                name="policy_replay_open",
            ),
            models.Index(fields=["-created_at", "-id"], name="policy_replay_by_time"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def part_done(self) -> float:
        """The computed part, 0 to 1."""
        return self.progress / 1_000

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED_REPLAYS

    @property
    def has_figures(self) -> bool:
        """Return whether there is a simulation to show: both, or that of the recorded configuration where the
        other failed."""
        return self.state in (ReplayState.DONE, ReplayState.FAILED) and "recorded" in self.result
