"""The series of one workspace: what its slices were granted and what they used."""

from __future__ import annotations

import uuid
from datetime import datetime

from foundation.core.actor import Actor
from telemetry.models import Channel, Scope, Tick
from telemetry.series.buckets import bucket_means
from telemetry.series.cluster import MEASURES, sum_measures, total_lines
from telemetry.series.gaps import gaps_in
from telemetry.series.sight import MeasuredThing, require_sight
from telemetry.series.types import SeriesSet
from telemetry.series.window import POINTS, window_of
from telemetry.store.times import TICKS_KEPT_FOR


def workspace_series(
    viewer: Actor,
    workspace_id: uuid.UUID,
    start: datetime,
    end: datetime,
    step: int | None = None,
    *,
    points: int = POINTS,
) -> SeriesSet:
    """Lines of a workspace as of a cluster, in which each slice counts as one card; over all clusters.

    Raises: NotFound where the viewer may not see its jobs; Invalid for a bad range.
    """
    require_sight(viewer, MeasuredThing("workspace", workspace_id))
    window = window_of(start, end, step, kept=TICKS_KEPT_FOR, points=points)
    channels = Channel.unscoped.filter(scope=Scope.WORKSPACE, workspace_id=workspace_id)
    clusters = sorted(channels.values_list("cluster_id", flat=True))
    means = bucket_means(window, channels, Tick, MEASURES)
    whole = {
        bucket: sum_measures([found[bucket] for found in means.values() if bucket in found])
        for bucket, _ in window.bucket_times()
    }
    lines, gaps = total_lines(window, whole), gaps_in(window, clusters)
    return SeriesSet(window.start, window.end, window.step_ms // 1000, lines, gaps)
