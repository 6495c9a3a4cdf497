"""The shares of GPUs in four steps of utilization over time, of a cluster or of all."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _

from clusters.models import Cluster
from foundation.core.actor import Actor
from foundation.core.errors import Invalid
from telemetry.models import Channel, Reading, Scope
from telemetry.series.windows.buckets import ColumnMeasure, bucket_means
from telemetry.series.windows.gaps import gaps_in, silent_buckets
from telemetry.series.windows.types import Series, SeriesSet
from telemetry.series.windows.window import POINTS, window_of
from telemetry.store.times import READING_RETENTION
from tenants.access import permissions
from tenants.access.permissions import Permission

SHARE_LINES: Final = (
    ("gpus_below_25", "GPUs below 25 %"),
    ("gpus_25_to_50", "GPUs from 25 to 50 %"),
    ("gpus_50_to_75", "GPUs from 50 to 75 %"),
    ("gpus_from_75", "GPUs from 75 %"),
)
_USE: Final = (ColumnMeasure("cores_used"),)
_WIDTH: Final = 25
_MOST_VALUES: Final = 400_000
"""The most values (GPUs times buckets) read at once; above 16,666 GPUs 24 buckets are read nevertheless."""
_LEAST_POINTS: Final = 12


def share_series(
    viewer: Actor,
    cluster: Cluster | None,
    start: datetime,
    end: datetime,
    step: int | None = None,
    *,
    points: int = POINTS,
) -> SeriesSet:
    """Return the percentage of GPUs in each step of utilization, by their mean over a bucket.

    GPUs without a reading are not counted. While a cluster with readings elsewhere in the window is in a gap,
    the shares are unknown. Without `step`, there are fewer points for many GPUs.
    Raises: PermissionDenied without `cluster.view`; Invalid for a bad range, or too many values.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    channels = Channel.unscoped.filter(scope=Scope.CARD)
    named: list[uuid.UUID] | None = None
    if cluster is not None:
        channels, named = channels.filter(cluster_id=cluster.pk), [cluster.pk]
    clusters = dict(channels.values_list("id", "cluster_id"))
    most = _MOST_VALUES // max(1, len(clusters))
    fewer = points if step is not None else min(points, max(_LEAST_POINTS, most))
    window = window_of(start, end, step, retention=READING_RETENTION, points=fewer)
    if window.last - window.first > max(most, 2 * _LEAST_POINTS):
        raise Invalid(_("Too much data. Select a shorter range or fewer GPUs."))
    gaps = gaps_in(window, named)
    counts: defaultdict[int, Counter[int]] = defaultdict(Counter)
    speaking = set()
    for channel, by_bucket in bucket_means(window, channels, Reading, _USE).items():
        if channel not in clusters:
            continue  # a GPU that was added in between
        speaking.add(clusters[channel])
        for bucket, values in by_bucket.items():
            counts[bucket][min(len(SHARE_LINES) - 1, int(values["cores_used"]) // _WIDTH)] += 1
    for pk, buckets in silent_buckets(window, gaps).items():
        for bucket in buckets if pk in speaking else ():
            counts.pop(bucket, None)
    lines = tuple(
        Series(
            measure,
            label,
            "percent",
            tuple(
                (at, 100 * counts[bucket][place] / counts[bucket].total() if bucket in counts else None)
                for bucket, at in window.bucket_times()
            ),
        )
        for place, (measure, label) in enumerate(SHARE_LINES)
    )
    return SeriesSet(window.start, window.end, window.step_ms // 1000, lines, gaps)
