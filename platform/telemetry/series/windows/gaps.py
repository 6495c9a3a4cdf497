"""Gaps of clusters inside a window."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db.models import Q

from telemetry.models import TelemetryGap
from telemetry.series.windows.types import SeriesGap
from telemetry.series.windows.window import Window
from telemetry.store.times import to_ms


def gaps_in(window: Window, cluster_ids: Iterable[uuid.UUID] | None) -> tuple[SeriesGap, ...]:
    """Return the gaps that overlap the window, oldest first; of all clusters if none is named."""
    rows = TelemetryGap.unscoped.filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=window.start), started_at__lt=window.end
    )
    if cluster_ids is not None:
        rows = rows.filter(cluster_id__in=list(cluster_ids))
    return tuple(
        SeriesGap(row.cluster_id, row.cluster.name, row.started_at, row.ended_at, row.cause, row.message)
        for row in rows.select_related("cluster").order_by("started_at", "id")
    )


def silent_buckets(window: Window, gaps: Iterable[SeriesGap]) -> dict[uuid.UUID, set[int]]:
    """Return the buckets wholly or partly inside a gap, by cluster."""
    silent: dict[uuid.UUID, set[int]] = {}
    for gap in gaps:
        start = max(to_ms(gap.start), window.from_ms)
        end = window.until_ms if gap.end is None else min(to_ms(gap.end), window.until_ms)
        touched = range(start // window.step_ms, -(-end // window.step_ms))
        silent.setdefault(gap.cluster_id, set()).update(touched)
    return silent
