"""The series of one node: its sums, and a line per card."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Final

from clusters.models import Device, Node
from foundation.core.actor import Actor
from telemetry.models import Channel, Reading, Scope, Tick
from telemetry.series.levels.cluster import MEASURES, sum_measures, total_lines
from telemetry.series.windows.buckets import Buckets, ColumnMeasure, bucket_means
from telemetry.series.windows.gaps import gaps_in
from telemetry.series.windows.history import fill_from_history
from telemetry.series.windows.types import Series, SeriesSet
from telemetry.series.windows.window import POINTS, Window, window_of
from telemetry.store.times import READING_RETENTION
from tenants.access import permissions
from tenants.access.permissions import Permission

CARD_MEASURES: Final = (
    ColumnMeasure("cores_used"),
    ColumnMeasure("cores_allocated"),
    ColumnMeasure("memory_used_mib"),
    ColumnMeasure("memory_allocated_mib"),
    ColumnMeasure("temperature_c"),
    ColumnMeasure("power_w"),
)
# Measure, column, unit, label. Percent points of one card are percent of the card.
CARD_LINES: Final = (
    ("card_utilisation", "cores_used", "percent", "GPU utilization"),
    ("card_cores_allocated", "cores_allocated", "percent", "Compute allocated"),
    ("card_memory_used", "memory_used_mib", "MiB", "GPU memory used"),
    ("card_memory_allocated", "memory_allocated_mib", "MiB", "GPU memory allocated"),
    ("card_temperature", "temperature_c", "°C", "Temperature"),
    ("card_power", "power_w", "W", "Power"),
)


def node_series(
    viewer: Actor,
    node: Node,
    start: datetime,
    end: datetime,
    step: int | None = None,
    *,
    points: int = POINTS,
) -> SeriesSet:
    """Return the lines of a node, as for a cluster, and `card_*` lines whose subject is the device id.

    `step` in seconds; None picks one that gives about `points`.
    Raises: PermissionDenied without `cluster.view`; Invalid for a bad range.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    window = window_of(start, end, step, retention=READING_RETENTION, points=points)
    channels = Channel.unscoped.filter(node_id=node.pk, allocation_id__isnull=True)
    of_node = channels.filter(scope=Scope.NODE, device_id__isnull=True)
    of_cards = channels.filter(scope=Scope.CARD)
    sums = bucket_means(window, of_node, Tick, MEASURES)
    whole = {bucket: sum_measures([parts]) for found in sums.values() for bucket, parts in found.items()}
    cards = bucket_means(window, of_cards, Reading, CARD_MEASURES)
    listed = list(of_cards)
    fill_from_history(window, listed, cards)
    devices = {channel.pk: channel.device_id for channel in listed if channel.device_id}
    return SeriesSet(
        window.start,
        window.end,
        window.step_ms // 1000,
        total_lines(window, whole) + _card_lines(window, cards, devices),
        gaps_in(window, [node.cluster_id]),
    )


def _card_lines(window: Window, means: Buckets, devices: dict[int, uuid.UUID]) -> tuple[Series, ...]:
    indices = dict(Device.unscoped.filter(id__in=set(devices.values())).values_list("id", "index"))
    order = sorted(devices, key=lambda channel: (indices.get(devices[channel], 1_000), str(devices[channel])))
    lines: list[Series] = []
    for measure, column, unit, _label in CARD_LINES:
        for channel in order:
            found = means.get(channel, {})
            label = f"GPU {indices.get(devices[channel], '?')}"
            points = tuple((at, found.get(bucket, {}).get(column)) for bucket, at in window.bucket_times())
            lines.append(Series(measure, label, unit, points, str(devices[channel])))
    return tuple(lines)
