"""Replays of a recorded period under another configuration, with their results."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from clusters.models import Cell
from scheduling.models.background_simulation import OPEN_SIMULATIONS, BackgroundSimulation, SimulationState


class PolicyReplay(BackgroundSimulation):
    """A simulation of the jobs of a period with the cell's recorded configuration, and with `change`.

    `services.policy_replay.change` writes `change`. `result` has the figures of `replay_tally` for
    `measured`, `recorded` and `changed`. Only platform roles may see it, because it names workspaces of all
    tenants.
    """

    cell = models.ForeignKey(Cell, on_delete=models.CASCADE, related_name="policy_replays")
    name = models.CharField(max_length=100)
    actor_id = models.UUIDField(null=True)
    actor_name = models.CharField(max_length=150)
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField()
    change = models.JSONField(default=dict)

    class Meta(BackgroundSimulation.Meta):
        ordering: ClassVar = ["-created_at", "-id"]
        indexes: ClassVar = [
            models.Index(
                fields=["created_at"],
                condition=models.Q(state__in=OPEN_SIMULATIONS),
                name="policy_replay_open",
            ),
            models.Index(fields=["-created_at", "-id"], name="policy_replay_by_time"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def has_figures(self) -> bool:
        """Return whether there is a simulation to show: both, or that of the recorded configuration where the
        other failed."""
        return self.state in (SimulationState.DONE, SimulationState.FAILED) and "recorded" in self.result
