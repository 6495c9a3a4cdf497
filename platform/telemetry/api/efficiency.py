"""Causes of lost GPUs, and when quota will be full: the figures of the page *Efficiency* as JSON."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.models import Device
from clusters.selectors.flavor import cluster_get
from clusters.selectors.shapes import PoolRoom, pool_rooms
from foundation.core import clock
from scheduling.models import DeviceSlice
from telemetry.series import utilisation_now
from telemetry.series.readings.agents import StrayProcess, has_fresh_agent, stray_processes
from telemetry.series.readings.idle import IdleHold, idle_holds
from telemetry.series.readings.over_use import OverUse, SliceLine, slice_lines
from telemetry.store.times import from_ms
from telemetry.usage.forecast import QuotaForecast, QuotaTrend, quota_forecasts, workspace_forecasts
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.query import NoQuery, QuerySerializer, read_query
from tenants.api.responses.schema import problem_responses

MOST: Final = 1000
"""The most entries of a list; the longest idle, most over-used or last seen come first."""


class EfficiencyQuery(QuerySerializer):
    cluster = serializers.CharField(required=False, max_length=63, help_text="Only this cluster.")


class _GpuSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    node = serializers.CharField()
    gpu = serializers.CharField(help_text="UUID of the GPU.")
    index = serializers.IntegerField()


class _HoldSerializer(_GpuSerializer):
    workspace = serializers.CharField()
    job = serializers.CharField()
    job_id = serializers.UUIDField()
    submitted_by = serializers.CharField()
    compute_percent = serializers.IntegerField(help_text="Allocated, of one GPU.")
    memory_mib = serializers.IntegerField(help_text="Allocated GPU memory.")


class IdleHoldSerializer(_HoldSerializer):
    idle_since = serializers.DateTimeField()
    never_used = serializers.BooleanField()


class SliceUseSerializer(_HoldSerializer):
    compute_used_percent = serializers.FloatField(allow_null=True, help_text="null: not measured in 30 s.")
    memory_used_mib = serializers.IntegerField(allow_null=True, help_text="null: not measured in 30 s.")
    above = serializers.ListField(
        child=serializers.ChoiceField(choices=[kind.value for kind in OverUse]),
        help_text="What exceeds the allocation.",
    )


class StrayProcessSerializer(_GpuSerializer):
    pid = serializers.IntegerField()
    name = serializers.CharField()
    pod_uid = serializers.CharField(help_text="Empty: not in a pod.")
    utilization_percent = serializers.FloatField(allow_null=True)
    memory_used_mib = serializers.IntegerField(allow_null=True)
    first_seen = serializers.DateTimeField()
    last_seen = serializers.DateTimeField()


class ShapeSerializer(serializers.Serializer[Any]):
    size = serializers.IntegerField(help_text="GPUs of one node; percent of a GPU in slice pools.")
    tasks = serializers.IntegerField(help_text="Tasks that fit at once.")
    one_rack = serializers.IntegerField(help_text="Of these within one rack.")


class PoolCapacitySerializer(serializers.Serializer[Any]):
    pool = serializers.CharField()
    cluster = serializers.CharField()
    sliced = serializers.BooleanField()
    free_gpus = serializers.FloatField(help_text="Unallocated and usable.")
    fragmented_percent = serializers.FloatField(
        allow_null=True, help_text="Of free_gpus, what the largest shape can't use; null: nothing is free."
    )
    shapes = ShapeSerializer(many=True)
    stranded_gpus = serializers.DictField(
        child=serializers.FloatField(), help_text="Unallocated but unusable GPUs by cause."
    )


class QuotaForecastSerializer(serializers.Serializer[Any]):
    """An estimate from the growth of the last 14 days."""

    workspace = serializers.CharField()
    pool = serializers.CharField()
    cluster = serializers.CharField()
    nominal_gpus = serializers.FloatField(allow_null=True, help_text="null: unlimited.")
    reserved_gpus = serializers.FloatField()
    trend = serializers.ChoiceField(choices=[trend.value for trend in QuotaTrend])
    growth_gpus_per_day = serializers.FloatField(allow_null=True, help_text="null: no clear growth.")
    full_at = serializers.DateTimeField(allow_null=True, help_text="Set if trend is `fills`.")


class EfficiencySerializer(serializers.Serializer[Any]):
    read_at = serializers.DateTimeField()
    idle_measured = serializers.BooleanField(help_text="false: no GPU was measured in 30 s.")
    idle = IdleHoldSerializer(many=True)
    agents_report = serializers.BooleanField(help_text="false: no node agent reported in 2 minutes.")
    stray_processes = StrayProcessSerializer(many=True)
    slices = SliceUseSerializer(many=True)
    pools = PoolCapacitySerializer(many=True)
    forecasts = QuotaForecastSerializer(many=True)
    omitted = serializers.IntegerField(help_text=f"Entries beyond the first {MOST} of each list.")


class ForecastsSerializer(serializers.Serializer[Any]):
    items = QuotaForecastSerializer(many=True)


class EfficiencyView(PlatformView):
    """The causes of lost GPUs now."""

    points: ClassVar = {"GET": Permission.CLUSTER_VIEW}

    @extend_schema(
        operation_id="admin_efficiency",
        summary="Idle GPUs, processes without an allocation, slices, fragmentation and quota forecasts",
        parameters=[EfficiencyQuery],
        responses={200: EfficiencySerializer, **problem_responses(400, 404)},
        tags=["metrics"],
    )
    def get(self, request: Request) -> Response:
        """Return the figures of all clusters, or of one."""
        viewer, now = self.viewer, clock.now()
        query = read_query(request, EfficiencyQuery)
        cluster = cluster_get(viewer=viewer, name=query["cluster"]) if "cluster" in query else None
        cluster_id = cluster.pk if cluster else None
        lists = {
            "idle": [_idle_body(hold) for hold in idle_holds(viewer, cluster_id=cluster_id)],
            "stray_processes": [_stray_body(one) for one in stray_processes(viewer, cluster_id=cluster_id)],
            "slices": [_slice_body(line) for line in slice_lines(viewer, cluster_id=cluster_id)],
            "pools": [_pool_body(room) for room in pool_rooms(viewer=viewer, cluster_id=cluster_id)],
            "forecasts": [
                _forecast_body(one) for one in quota_forecasts(viewer, now=now, cluster_id=cluster_id)
            ],
        }
        body = {
            "read_at": now,
            "idle_measured": bool(utilisation_now(viewer, cluster_id=cluster_id)),
            "agents_report": has_fresh_agent(viewer, cluster_id=cluster_id),
            **{name: items[:MOST] for name, items in lists.items()},
            "omitted": sum(max(0, len(items) - MOST) for items in lists.values()),
        }
        return Response(EfficiencySerializer(body).data)


class WorkspaceForecastView(WorkspaceView):
    """The time at which the quota of a workspace will be full."""

    points: ClassVar = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="quota_forecast",
        summary="When the quota of a workspace will be full, by pool",
        description="An estimate from the growth of reserved GPUs in the last 14 days.",
        parameters=[],
        responses={200: ForecastsSerializer, **problem_responses(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one forecast per pool, the first to fill first."""
        read_query(request, NoQuery)
        found = workspace_forecasts(self.viewer, self.workspace, now=clock.now())
        return Response(ForecastsSerializer({"items": [_forecast_body(one) for one in found]}).data)


def _gpu_body(device: Device) -> dict[str, Any]:
    node = device.node
    return {"cluster": node.cluster.name, "node": node.name, "gpu": device.uuid, "index": device.index}


def _hold_body(held: DeviceSlice) -> dict[str, Any]:
    job = held.allocation.attempt.job
    return {
        **_gpu_body(held.device),
        "workspace": job.workspace.slug,
        "job": job.name,
        "job_id": job.pk,
        "submitted_by": job.submitted_by.username,
        "compute_percent": held.cores,
        "memory_mib": held.memory_mib,
    }


def _idle_body(hold: IdleHold) -> dict[str, Any]:
    return {**_hold_body(hold.slice), "idle_since": hold.since, "never_used": hold.used_at is None}


def _slice_body(line: SliceLine) -> dict[str, Any]:
    return {
        **_hold_body(line.slice),
        "compute_used_percent": line.cores_used,
        "memory_used_mib": line.memory_used_mib,
        "above": [kind.value for kind in line.over],
    }


def _stray_body(stray: StrayProcess) -> dict[str, Any]:
    row = stray.process
    return {
        **_gpu_body(stray.device),
        "pid": row.pid,
        "name": row.name,
        "pod_uid": row.pod_uid,
        "utilization_percent": stray.utilization_percent,
        "memory_used_mib": stray.memory_used_mib,
        "first_seen": from_ms(row.first_seen_ms),
        "last_seen": from_ms(row.last_seen_ms),
    }


def _pool_body(room: PoolRoom) -> dict[str, Any]:
    return {
        "pool": room.flavor.name,
        "cluster": room.flavor.cluster.name,
        "sliced": room.sliced,
        "free_gpus": room.free / 100,
        "fragmented_percent": room.fragmented_percent,
        "shapes": room.shapes,
        "stranded_gpus": {cause: points / 100 for cause, points in room.stranded.items()},
    }


def _forecast_body(forecast: QuotaForecast) -> dict[str, Any]:
    growth = forecast.growth_per_day
    return {
        "workspace": forecast.tenant.slug,
        "pool": forecast.flavor.name,
        "cluster": forecast.flavor.cluster.name,
        "nominal_gpus": None if forecast.nominal is None else forecast.nominal / 100,
        "reserved_gpus": forecast.reserved / 100,
        "trend": forecast.trend.value,
        "growth_gpus_per_day": None if growth is None else growth / 100,
        "full_at": forecast.fills_at,
    }
