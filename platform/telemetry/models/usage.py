"""The price of GPU time, its measured use by the quarter of an hour, and stored reports."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models

from clusters.models import Flavor
from foundation.models import BaseModel


class Price(BaseModel):
    """The price of a pool from `effective_at` until the next one of the same pool. A price never changes.

    `gpu_hour` is for a whole GPU and an hour, `slice_hour` for a hundred percent of slices or MIG instances
    and an hour; without it slices cost their share of `gpu_hour`.
    """

    flavor = models.ForeignKey(Flavor, on_delete=models.CASCADE, related_name="prices")
    effective_at = models.DateTimeField()
    gpu_hour = models.DecimalField(max_digits=16, decimal_places=6)
    slice_hour = models.DecimalField(max_digits=16, decimal_places=6, null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["flavor", "effective_at"], name="price_once_at_a_time"),
        ]

    def __str__(self) -> str:
        return f"{self.flavor} {self.gpu_hour} from {self.effective_at:%Y-%m-%d %H:%M}"


class MeasuredUse(models.Model):
    """Measured use of one job on one flavor in one day of UTC, by 96 quarters of an hour.

    Both columns hold 96 little-endian integers of 64 bits, in percent points of a GPU times milliseconds:
    `measured` is what was held while readings arrived, `used` the used part of it. Rows are written before
    the readings expire, and kept.
    """

    id = models.BigAutoField(primary_key=True)
    workspace_id = models.UUIDField()
    job_id = models.UUIDField()
    flavor_id = models.UUIDField()
    day = models.IntegerField(help_text="Days since 1970-01-01 in UTC.")
    measured = models.BinaryField()
    used = models.BinaryField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job_id", "flavor_id", "day"], name="measured_use_once_per_day"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["day"], name="measured_use_day"),
            models.Index(fields=["workspace_id", "day"], name="measured_use_workspace"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} on day {self.day}"


class MeasuredProgress(models.Model):
    """The end of the time that `MeasuredUse` covers: one row. Quarters before `final_until_ms` are not
    written again.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    final_until_ms = models.BigIntegerField()
    measured_until_ms = models.BigIntegerField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"

    def __str__(self) -> str:
        return f"measured until {self.measured_until_ms}"


class StoredReport(models.Model):
    """The usage report of a month as of `read_at`, as a worker added it up: of one large workspace, or of the
    whole platform if `workspace_id` is null.

    `rows` maps the ids of its grouping to their figures, `days` has the figures of each day; both as in
    `telemetry.usage.stored_reports`. `node_times` maps the ids to CPU and memory as in
    `scheduling.metering.node_time`; null if a process of the previous version added it up. `digits` are the
    decimals of its amounts. All are replaced together; of several rows, created by concurrent workers, the
    last one counts.
    """

    id = models.BigAutoField(primary_key=True)
    workspace_id = models.UUIDField(null=True)
    month = models.DateField()
    time_zone = models.CharField(max_length=64)
    group_by = models.CharField(max_length=16)
    digits = models.PositiveSmallIntegerField()
    read_at = models.DateTimeField()
    measured_until = models.DateTimeField(null=True)
    rows = models.JSONField()
    days = models.JSONField()
    node_times = models.JSONField(null=True)

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        indexes: ClassVar = [
            models.Index(fields=["workspace_id", "month", "group_by", "read_at"], name="stored_report_of"),
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m} by {self.group_by} as of {self.read_at:%Y-%m-%d %H:%M:%S}"
