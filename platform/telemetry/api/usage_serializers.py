"""Shapes of usage reports and prices."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from telemetry.usage.figures import PRICE_DIGITS
from telemetry.usage.grouping import GroupBy
from telemetry.usage.prices import PRICE_MAX
from tenants.api.requests.bodies import StrictSerializer
from tenants.api.requests.query import PAGE, PAGE_MAX, QuerySerializer

_BOTH = "of the reserved GPU-hours while metrics arrived; null: no metrics"


class ReportQuery(QuerySerializer):
    """The month, zone and conditions of a report."""

    month = serializers.CharField(
        required=False, default="", max_length=7, help_text="YYYY-MM; default: the current month."
    )
    time_zone = serializers.CharField(
        required=False,
        default="",
        max_length=60,
        help_text="IANA name; the month and its days follow its clocks. Default: ALLOTMENT_REPORT_TIME_ZONE.",
    )
    group_by = serializers.ChoiceField(choices=[item.value for item in GroupBy], required=False)
    user = serializers.UUIDField(required=False, help_text="Only this user.")
    queue = serializers.UUIDField(required=False, help_text="Only this queue.")
    pool = serializers.UUIDField(required=False, help_text="Only this pool.")
    job = serializers.UUIDField(required=False, help_text="Only this job.")


class ReportPageQuery(ReportQuery):
    """A report with one page of its rows."""

    limit = serializers.IntegerField(default=PAGE, min_value=1, max_value=PAGE_MAX)
    offset = serializers.IntegerField(default=0, min_value=0, max_value=2**31 - 1)


class ExportQuery(ReportQuery):
    """A report as a file with all rows."""

    type = serializers.ChoiceField(choices=["csv", "xlsx"], default="csv")


class PlatformReportPageQuery(ReportPageQuery):
    """The query of a page of a report on all tenants or on one."""

    tenant = serializers.CharField(
        required=False, max_length=63, help_text="Only this tenant and its children."
    )
    workspace = serializers.UUIDField(required=False, help_text="Only the workspace of this id.")


class PlatformExportQuery(ExportQuery):
    """The query of a file with a report on all tenants or on one."""

    tenant = serializers.CharField(
        required=False, max_length=63, help_text="Only this tenant and its children."
    )
    workspace = serializers.UUIDField(required=False, help_text="Only the workspace of this id.")


class FiguresSerializer(serializers.Serializer[Any]):
    """GPU-hours and cost. `reserved` = `used` + `idle` + `unmeasured`."""

    reserved_gpu_hours = serializers.FloatField(help_text="Allocated; slices by their compute.")
    used_gpu_hours = serializers.FloatField(allow_null=True, help_text=f"Measured use {_BOTH}.")
    idle_gpu_hours = serializers.FloatField(allow_null=True, help_text=f"Not used {_BOTH}.")
    unmeasured_gpu_hours = serializers.FloatField(help_text="Reserved while no metrics arrived.")
    borrowed_gpu_hours = serializers.FloatField(help_text="Beyond the nominal quota at admission.")
    lost_gpu_hours = serializers.FloatField(help_text="Work since the last checkpoint of preempted jobs.")
    billed_gpu_hours = serializers.FloatField(
        help_text="As reserved; slices by the larger one of compute and GPU memory."
    )
    unpriced_gpu_hours = serializers.FloatField(help_text="Billed GPU-hours of pools without a price.")
    cost_per_gpu_hour = serializers.CharField(
        allow_null=True,
        help_text="Decimal in `currency`: amount by billed GPU-hour with a price; null: under 0.1 of them.",
    )
    amount = serializers.CharField(
        allow_null=True, help_text="Decimal in `currency`, rounded per job and pool; null: no price."
    )
    cpu_core_hours = serializers.FloatField(help_text="CPU allocated to tasks, with GPUs or without.")
    memory_gib_hours = serializers.FloatField(help_text="Memory allocated to tasks, with GPUs or without.")


class ReportRowSerializer(FiguresSerializer):
    id = serializers.UUIDField(help_text="Id of the tenant, user, queue, pool or job.")
    name = serializers.CharField()
    belongs_to = serializers.CharField(
        allow_blank=True, help_text="Parent of a tenant, workspace of a queue or job, cluster of a pool."
    )


class ReportDayHoursSerializer(serializers.Serializer[Any]):
    """GPU-hours of a day."""

    day = serializers.DateField()
    reserved_gpu_hours = serializers.FloatField()
    used_gpu_hours = serializers.FloatField(allow_null=True)
    idle_gpu_hours = serializers.FloatField(allow_null=True)
    unmeasured_gpu_hours = serializers.FloatField()
    borrowed_gpu_hours = serializers.FloatField()
    lost_gpu_hours = serializers.FloatField()


class UsageReportSerializer(serializers.Serializer[Any]):
    month = serializers.CharField(help_text="YYYY-MM")
    time_zone = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(help_text="Exclusive; running jobs count until read_at.")
    read_at = serializers.DateTimeField()
    measured_until = serializers.DateTimeField(
        allow_null=True, help_text="Measured use is known until here; null: nothing was measured yet."
    )
    currency = serializers.CharField()
    group_by = serializers.ChoiceField(choices=[item.value for item in GroupBy])
    total = FiguresSerializer()
    days = ReportDayHoursSerializer(many=True)
    rows = ReportRowSerializer(many=True)
    row_count = serializers.IntegerField(help_text="Rows on all pages.")
    next = serializers.IntegerField(allow_null=True, help_text="Pass as `offset` to get the next page.")


class PriceSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    flavor = serializers.CharField(source="flavor.name")
    cluster = serializers.CharField(source="flavor.cluster.name")
    effective_at = serializers.DateTimeField()
    gpu_hour = serializers.DecimalField(max_digits=16, decimal_places=6, help_text="A whole GPU for an hour.")
    slice_hour = serializers.DecimalField(
        max_digits=16,
        decimal_places=6,
        allow_null=True,
        help_text="100 % of slices or MIG instances for an hour; null: as gpu_hour.",
    )


class PriceCreateSerializer(StrictSerializer):
    flavor = serializers.CharField(max_length=63)
    cluster = serializers.CharField(
        default="", allow_blank=True, max_length=63, help_text="Required if several clusters have the flavor."
    )
    effective_at = serializers.DateTimeField(
        help_text="In the future, or in the past for a pool without a price until now."
    )
    gpu_hour = serializers.DecimalField(
        max_digits=16, decimal_places=PRICE_DIGITS, min_value=0, max_value=int(PRICE_MAX)
    )
    slice_hour = serializers.DecimalField(
        max_digits=16,
        decimal_places=PRICE_DIGITS,
        min_value=0,
        max_value=int(PRICE_MAX),
        required=False,
        allow_null=True,
        default=None,
    )
