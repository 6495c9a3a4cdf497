"""Gaps: spans of time without measurements, and their causes."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from clusters.models import Cluster
from foundation.models import BaseModel


class GapCause(models.TextChoices):
    UNREACHABLE = "unreachable", "The cluster did not answer"
    EMPTY = "empty", "The cluster answered without any reading"
    PLATFORM = "platform", "The platform did not run"


class TelemetryGap(BaseModel):
    """A time in which a cluster delivered no reading; open while `ended_at` is null.

    `message` is that of the failure that began it.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="telemetry_gaps")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    cause = models.CharField(max_length=20, choices=GapCause.choices)
    message = models.CharField(max_length=300, blank=True, default="")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster"], condition=Q(ended_at__isnull=True), name="gap_one_open_per_cluster"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["cluster", "started_at"], name="gap_cluster_start")]

    def __str__(self) -> str:
        return f"{self.cause} from {self.started_at:%H:%M:%S}"
