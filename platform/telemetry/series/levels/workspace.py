"""The series of one workspace: the allocation of its slices and their use."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Final

from foundation.core.actor import Actor
from telemetry.models import Channel, Scope, Tick
from telemetry.series.levels.cluster import MEASURES, sum_measures, total_lines
from telemetry.series.readings.sight import MeasuredThing, require_sight
from telemetry.series.windows.buckets import ColumnMeasure, Sums, TimeSum, Values, bucket_sums
from telemetry.series.windows.gaps import gaps_in
from telemetry.series.windows.types import SeriesSet
from telemetry.series.windows.window import POINTS, window_of
from telemetry.store.times import TICK_RETENTION

_OF_CLUSTER: Final = (ColumnMeasure("cards"),)
_GRANTS: Final = ("cards", "cards_sampled", "cards_allocated", "cores_allocated", "memory_capacity_mib",
                  "memory_allocated_mib")  # fmt: skip


def workspace_series(
    viewer: Actor,
    workspace_id: uuid.UUID,
    start: datetime,
    end: datetime,
    step: int | None = None,
    *,
    points: int = POINTS,
) -> SeriesSet:
    """Return the lines of a workspace, as for a cluster; each slice counts as one card; over all clusters.

    Amounts are means over the time in which the cluster was measured: while the workspace holds nothing there
    they are 0, and unknown while the cluster itself is in a gap.
    Raises: NotFound if the viewer may not see its jobs; Invalid for a bad range.
    """
    require_sight(viewer, MeasuredThing("workspace", workspace_id))
    window = window_of(start, end, step, retention=TICK_RETENTION, points=points)
    channels = Channel.unscoped.filter(scope=Scope.WORKSPACE, workspace_id=workspace_id)
    clusters = dict(channels.values_list("cluster_id", "id"))
    whole = Channel.unscoped.filter(
        scope=Scope.CLUSTER, cluster_id__in=clusters, node_id__isnull=True, workspace_id__isnull=True
    )
    of_workspace = bucket_sums(window, channels, Tick, MEASURES)
    of_clusters = bucket_sums(window, whole, Tick, _OF_CLUSTER)
    pairs = [(clusters[cluster], pk) for pk, cluster in whole.values_list("id", "cluster_id")]
    by_bucket: dict[int, list[Values]] = {}
    for channel, of_cluster in pairs:
        for bucket, part in _amounts(of_workspace, channel, of_clusters, of_cluster).items():
            by_bucket.setdefault(bucket, []).append(part)
    totals = {bucket: sum_measures(parts) for bucket, parts in by_bucket.items()}
    lines, gaps = total_lines(window, totals), gaps_in(window, sorted(clusters))
    return SeriesSet(window.start, window.end, window.step_ms // 1000, lines, gaps)


def _amounts(of_workspace: Sums, channel: int, of_clusters: Sums, of_cluster: int) -> dict[int, Values]:
    """Return the means of a workspace on one cluster by bucket, over the measured time of the cluster."""
    own, measured = of_workspace.get(channel, {}), of_clusters.get(of_cluster, {})
    found: dict[int, Values] = {}
    for bucket in {*own, *measured}:
        columns = own.get(bucket, {})
        held = columns.get("cards", TimeSum(0.0, 0))
        length = max(held.measured_ms, measured.get(bucket, {}).get("cards", held).measured_ms)
        part = dict.fromkeys(_GRANTS, 0.0) | {name: one.total / length for name, one in columns.items()}
        memory = columns.get("memory_used_mib")
        if memory is not None:
            # Its use while none of its slices had a reading is unknown, and not 0.
            part["memory_used_mib"] = memory.total / (length - held.measured_ms + memory.measured_ms)
        elif not held.measured_ms:
            part["memory_used_mib"] = 0.0
        found[bucket] = part
    return found
