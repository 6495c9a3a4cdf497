"""The series of one cluster, or of all clusters together."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from clusters.models import Cluster, Flavor, Node
from foundation.core.actor import Actor
from telemetry.models import Channel, Scope, Tick
from telemetry.series.windows.buckets import Buckets, ColumnMeasure, Values, bucket_means
from telemetry.series.windows.gaps import gaps_in, silent_buckets
from telemetry.series.windows.types import Series, SeriesSet
from telemetry.series.windows.window import POINTS, Window, window_of
from telemetry.store.times import TICK_RETENTION
from tenants.access import permissions
from tenants.access.permissions import Permission

MEASURES: Final = (
    ColumnMeasure("cards"),
    ColumnMeasure("cards_sampled"),
    ColumnMeasure("cards_allocated"),
    ColumnMeasure("cores_used"),
    ColumnMeasure("cores_allocated"),
    ColumnMeasure("memory_capacity_mib"),
    ColumnMeasure("memory_used_mib"),
    ColumnMeasure("memory_allocated_mib"),
    ColumnMeasure("power_w"),
    ColumnMeasure("temperature_c"),
    ColumnMeasure("temperature_max_c", peak=True),
)
_COMPLETE: Final = 0.95  # of the cards, in a mean over time
TOTAL_LINES: Final = (
    ("cards_total", "GPUs", "cards"),
    ("cards_allocated", "GPUs allocated", "cards"),
    ("cores_allocated", "Compute allocated", "percent"),
    ("compute_allocated", "Compute allocated, in GPUs", "cards"),
    ("compute_used", "Compute used, in GPUs", "cards"),
    ("utilisation", "Compute used", "percent"),
    ("memory_total", "GPU memory", "MiB"),
    ("memory_allocated", "GPU memory allocated", "MiB"),
    ("memory_used", "GPU memory used", "MiB"),
    ("power", "Power", "W"),
    ("temperature", "Temperature, mean", "°C"),
    ("temperature_max", "Temperature, hottest", "°C"),
)


def _total(parts: list[Values], column: str) -> float | None:
    found = [part[column] for part in parts if column in part]
    return sum(found) if found else None


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _is_complete(parts: list[Values]) -> bool:
    """Return whether the use of nearly all cards was measured; a sum over some would look too low."""
    cards, sampled = _total(parts, "cards"), _total(parts, "cards_sampled")
    return cards is not None and sampled is not None and sampled >= cards * _COMPLETE


def sum_measures(parts: list[Values]) -> dict[str, float | None]:
    """Combine the measures of several clusters (or one node) in one bucket; without parts they are gaps.

    `cores_allocated` is the percentage of the compute of all cards, `utilisation` that of the cards with a
    reading; `compute_used` is known if 95 % have one. The temperature's mean is weighted by cards.
    """
    heat = [part for part in parts if "temperature_c" in part]
    weighted = [part["temperature_c"] * part["cards_sampled"] for part in heat]
    return {
        "cards_total": _total(parts, "cards"),
        "cards_allocated": _total(parts, "cards_allocated"),
        "cores_allocated": _ratio(_total(parts, "cores_allocated"), _total(parts, "cards")),
        "compute_allocated": _ratio(_total(parts, "cores_allocated"), 100),
        "compute_used": _ratio(_total(parts, "cores_used"), 100) if _is_complete(parts) else None,
        "utilisation": _ratio(_total(parts, "cores_used"), _total(parts, "cards_sampled")),
        "memory_total": _total(parts, "memory_capacity_mib"),
        "memory_allocated": _total(parts, "memory_allocated_mib"),
        "memory_used": _total(parts, "memory_used_mib"),
        "power": _total(parts, "power_w"),
        "temperature": _ratio(sum(weighted), _total(heat, "cards_sampled")),
        "temperature_max": max((part["temperature_max_c"] for part in heat), default=None),
    }


def total_lines(window: Window, by_bucket: dict[int, dict[str, float | None]]) -> tuple[Series, ...]:
    """Build the lines of `sum_measures`; a missing bucket is a gap in each."""
    return tuple(
        Series(
            measure,
            label,
            unit,
            tuple((at, by_bucket.get(bucket, {}).get(measure)) for bucket, at in window.bucket_times()),
        )
        for measure, label, unit in TOTAL_LINES
    )


def _together(
    window: Window, means: Buckets, clusters: dict[int, uuid.UUID], silent: dict[uuid.UUID, set[int]]
) -> dict[int, dict[str, float | None]]:
    """Sum over clusters. While a cluster with readings elsewhere in the window is in a gap, the sum is
    unknown: without it, its cards would seem to be gone."""
    speaking = [channel for channel in clusters if channel in means]
    found: dict[int, dict[str, float | None]] = {}
    for bucket, _ in window.bucket_times():
        parts = [means[channel][bucket] for channel in speaking if bucket in means[channel]]
        missing = (clusters[channel] for channel in speaking if bucket not in means[channel])
        if not any(bucket in silent.get(cluster, ()) for cluster in missing):
            found[bucket] = sum_measures(parts)
    return found


def cluster_series(
    viewer: Actor,
    cluster: Cluster | None,
    start: datetime,
    end: datetime,
    step: int | None = None,
    *,
    points: int = POINTS,
) -> SeriesSet:
    """Return cards, allocation, use, memory, power and temperature of a cluster, or of all for None.

    `step` in seconds; None picks one that gives about `points`. Each measure is one line without a
    subject. Raises: PermissionDenied without `cluster.view`; Invalid for a bad range.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    window = window_of(start, end, step, retention=TICK_RETENTION, points=points)
    channels = Channel.unscoped.filter(scope=Scope.CLUSTER, allocation_id__isnull=True, node_id__isnull=True)
    named: Iterable[uuid.UUID] | None = None
    if cluster is not None:
        channels, named = channels.filter(cluster_id=cluster.pk), [cluster.pk]
    clusters = dict(channels.values_list("id", "cluster_id"))
    gaps = gaps_in(window, named)
    means = bucket_means(window, channels, Tick, MEASURES)
    lines = total_lines(window, _together(window, means, clusters, silent_buckets(window, gaps)))
    return SeriesSet(window.start, window.end, window.step_ms // 1000, lines, gaps)


def pool_series(
    viewer: Actor, flavor: Flavor, start: datetime, end: datetime, step: int | None = None
) -> SeriesSet:
    """Return the measures of `cluster_series` over the present nodes of a pool.

    A node without data is left out of a bucket: rates are those of the others. Raises as `cluster_series`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    window = window_of(start, end, step, retention=TICK_RETENTION)
    nodes = Node.unscoped.filter(flavor=flavor).values("pk")
    channels = Channel.unscoped.filter(scope=Scope.NODE, device_id__isnull=True, node_id__in=nodes)
    means = bucket_means(window, channels, Tick, MEASURES)
    found = {
        bucket: sum_measures([one[bucket] for one in means.values() if bucket in one])
        for bucket, _ in window.bucket_times()
    }
    gaps = gaps_in(window, [flavor.cluster_id])
    return SeriesSet(window.start, window.end, window.step_ms // 1000, total_lines(window, found), gaps)
