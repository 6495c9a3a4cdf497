"""Decisions and events of jobs, stored for readers."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from clusters.models import Cell
from foundation.models import BaseModel
from scheduling.models.job import Job


class DecisionKind(models.TextChoices):
    ADMIT = "admit", "Admit"
    EVICT = "evict", "Evict"
    SHRINK = "shrink", "Shrink"
    GROW = "grow", "Grow"
    MIGRATE = "migrate", "Migrate"
    PARK = "park", "Park"


class Decision(BaseModel):
    """The decision of one engine cycle for one job. A park is written only when the reason changes.

    `beneficiary` is the job for which this one is preempted. It may belong to another tenant, so only
    platform admins may see it.
    """

    cell = models.ForeignKey(Cell, on_delete=models.CASCADE, related_name="decisions")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="decisions")
    cycle = models.PositiveBigIntegerField()
    epoch = models.PositiveBigIntegerField()
    beneficiary = models.ForeignKey(
        Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="made_way_by"
    )
    kind = models.CharField(max_length=10, choices=DecisionKind.choices)
    code = models.CharField(max_length=30, blank=True, default="")
    numbers = models.JSONField(default=dict, blank=True)

    class Meta(BaseModel.Meta):
        indexes: ClassVar = [models.Index(fields=["job", "-created_at"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.job} in cycle {self.cycle}"


class JobEvent(models.Model):
    """An event of a job. The key is monotonic, so that a reader can continue after the last event."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    code = models.CharField(max_length=40)
    actor = models.CharField(max_length=150, blank=True, default="")
    numbers = models.JSONField(default=dict, blank=True)

    unscoped: ClassVar[models.Manager[JobEvent]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        indexes: ClassVar = [models.Index(fields=["job", "id"])]

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.code}"
