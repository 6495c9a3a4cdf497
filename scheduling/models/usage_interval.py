"""The usage of ended runs over time, written once and never changed."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models


class UsageInterval(models.Model):
    """A constant amount of one flavor held by one run of a job, as `scheduling.metering.intervals.Interval`.

    The ids are plain columns without foreign keys, so that old reports do not change when rows are deleted,
    and do not prevent their deletion.
    """

    id = models.BigAutoField(primary_key=True)
    workspace_id = models.UUIDField()
    queue_id = models.UUIDField()
    user_id = models.UUIDField()
    job_id = models.UUIDField()
    job_name = models.CharField(max_length=63)
    attempt_id = models.UUIDField()
    flavor_id = models.UUIDField()
    sliced = models.BooleanField()
    begin_ms = models.BigIntegerField()
    end_ms = models.BigIntegerField()
    cores = models.BigIntegerField()
    billed = models.BigIntegerField()
    borrowed = models.BigIntegerField()
    lost = models.BigIntegerField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["attempt_id", "flavor_id", "sliced", "begin_ms"], name="usage_interval_once"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["end_ms", "begin_ms"], name="usage_interval_time"),
            models.Index(fields=["workspace_id", "end_ms"], name="usage_interval_workspace"),
        ]

    def __str__(self) -> str:
        return f"{self.cores} % for {self.end_ms - self.begin_ms} ms by {self.job_name}"
