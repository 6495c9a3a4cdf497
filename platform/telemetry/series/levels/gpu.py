"""The series of one GPU: its allocation and its measures."""

from __future__ import annotations

from datetime import datetime

from clusters.models import Device
from foundation.core.actor import Actor
from telemetry.models import Channel, Reading, Scope
from telemetry.series.levels.node import CARD_LINES, CARD_MEASURES
from telemetry.series.windows.buckets import Buckets, Values, bucket_means
from telemetry.series.windows.gaps import gaps_in
from telemetry.series.windows.history import fill_from_history
from telemetry.series.windows.types import Series, SeriesSet
from telemetry.series.windows.window import POINTS, Window, window_of
from telemetry.store.times import READING_RETENTION
from tenants.access import permissions
from tenants.access.permissions import Permission


def gpu_series(
    viewer: Actor,
    device: Device,
    start: datetime,
    end: datetime,
    step: int | None = None,
    *,
    points: int = POINTS,
) -> SeriesSet:
    """Return the lines `card_*` of one GPU, as for its node, on any node where it was; without a subject.

    `step` in seconds; None picks one that gives about `points`.
    Raises: PermissionDenied without `cluster.view`; Invalid for a bad range.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    window = window_of(start, end, step, retention=READING_RETENTION, points=points)
    rows = Channel.unscoped.filter(scope=Scope.CARD, device_id=device.pk)
    channels = list(rows.order_by("id"))
    means = bucket_means(window, rows, Reading, CARD_MEASURES)
    fill_from_history(window, channels, means)
    lines = _lines(window, means, channels)
    gaps = gaps_in(window, {channel.cluster_id for channel in channels} or {device.node.cluster_id})
    return SeriesSet(window.start, window.end, window.step_ms // 1000, lines, gaps)


def _lines(window: Window, means: Buckets, channels: list[Channel]) -> tuple[Series, ...]:
    """Combine the channels of a GPU, one per node that it was in; in a shared bucket the later one counts."""
    found: dict[int, Values] = {}
    for channel in channels:
        found |= means.get(channel.pk, {})
    return tuple(
        Series(
            measure,
            label,
            unit,
            tuple((at, found.get(bucket, {}).get(column)) for bucket, at in window.bucket_times()),
        )
        for measure, column, unit, label in CARD_LINES
    )
