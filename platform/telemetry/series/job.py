"""The series of one job: a line per task and card, and what they come to together."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _

from clusters.models import Device
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from scheduling.models import Job, Task
from telemetry.models import Channel, Reading
from telemetry.series.buckets import Buckets, ColumnMeasure, Values, bucket_means
from telemetry.series.gaps import gaps_in
from telemetry.series.history import fill_from_history
from telemetry.series.types import Series, SeriesSet
from telemetry.series.window import POINTS, Window, window_of
from telemetry.store.times import READINGS_KEPT_FOR
from tenants.access import permissions
from tenants.access.permissions import Permission

# More lines than this cannot be told apart; the averages always cover all of them.
MAX_LINES: Final = 64

_MEASURES: Final = (
    ColumnMeasure("cores_used"),
    ColumnMeasure("cores_allocated"),
    ColumnMeasure("memory_used_mib"),
    ColumnMeasure("memory_allocated_mib"),
)
_SLICE_LINES: Final = (
    ("utilisation", "percent"),
    ("utilisation_of_grant", "percent"),
    ("cores_granted", "percent"),
    ("memory_used", "MiB"),
    ("memory_granted", "MiB"),
)
_SUM_LINES: Final = (
    ("utilisation", "average", "Compute used, average per card", "percent"),
    ("utilisation_of_grant", "average", "Compute used of what was granted", "percent"),
    ("memory_used", "total", "GPU memory used", "MiB"),
    ("memory_granted", "total", "GPU memory granted", "MiB"),
)


@dataclass(frozen=True, slots=True)
class _Line:
    """One task on one card; an attempt that came back to the same card continues its line."""

    task_id: uuid.UUID
    device_id: uuid.UUID
    label: str
    channels: tuple[int, ...]

    @property
    def subject(self) -> str:
        return f"{self.task_id}/{self.device_id}"


def _measures(parts: Sequence[Values], cards: int) -> dict[str, float | None]:
    """Put slices together; utilisation is the mean over `cards`, all else is a sum or a ratio of sums."""
    if not parts:
        return {}
    used = [part["cores_used"] for part in parts if "cores_used" in part]
    memory = [part["memory_used_mib"] for part in parts if "memory_used_mib" in part]
    granted = sum(part["cores_allocated"] for part in parts)
    complete = len(used) == len(parts)  # else what was granted is not of the same slices
    return {
        "utilisation": sum(used) / (cards if complete else len(used)) if used else None,
        "utilisation_of_grant": 100 * sum(used) / granted if granted and complete else None,
        "cores_granted": granted / cards,
        "memory_used": sum(memory) if memory else None,
        "memory_granted": sum(part["memory_allocated_mib"] for part in parts),
    }


def _lines(job: Job, channels: Sequence[Channel]) -> list[_Line]:
    tasks = {
        task.pk: (task.role.position, task.index, f"{task.role.name}-{task.index}")
        for task in Task.unscoped.filter(job=job).select_related("role")
    }
    cards = {
        pk: (node, index)
        for pk, node, index in Device.unscoped.filter(id__in={c.device_id for c in channels}).values_list(
            "id", "node__name", "index"
        )
    }
    grouped: dict[tuple[uuid.UUID, uuid.UUID], list[int]] = {}
    for channel in channels:
        if channel.task_id is not None and channel.device_id is not None:
            grouped.setdefault((channel.task_id, channel.device_id), []).append(channel.pk)
    ordered = sorted(
        grouped, key=lambda k: (tasks.get(k[0], (9_999, 0, "")), cards.get(k[1], ("", 0)), str(k))
    )
    lines: list[_Line] = []
    for task_id, device_id in ordered:
        task = tasks[task_id][2] if task_id in tasks else "?"
        place = "{} · GPU {}".format(*cards[device_id]) if device_id in cards else "?"
        lines.append(_Line(task_id, device_id, f"{task} · {place}", tuple(grouped[task_id, device_id])))
    return lines


def _latest_attempts(means: Buckets, channels: Sequence[Channel]) -> Buckets:
    """Keep the last attempt of each task in a bucket: it follows the one before, and adding the two up
    would show more cards than the task ever had at once."""
    last: dict[tuple[uuid.UUID | None, int], uuid.UUID | None] = {}
    for channel in channels:  # in order of their keys, hence of the attempts
        for bucket in means.get(channel.pk, ()):
            last[channel.task_id, bucket] = channel.allocation_id
    return {
        channel.pk: {
            bucket: values
            for bucket, values in means[channel.pk].items()
            if last[channel.task_id, bucket] == channel.allocation_id
        }
        for channel in channels
        if channel.pk in means
    }


def _slice_series(window: Window, means: Buckets, line: _Line) -> list[Series]:
    found: dict[int, dict[str, float | None]] = {}
    for bucket, _at in window.bucket_times():
        parts = [means[c][bucket] for c in line.channels if c in means and bucket in means[c]]
        found[bucket] = _measures(parts, 1)
    return [
        Series(
            measure,
            line.label,
            unit,
            tuple((at, found[bucket].get(measure)) for bucket, at in window.bucket_times()),
            line.subject,
        )
        for measure, unit in _SLICE_LINES
    ]


def _sum_series(window: Window, means: Buckets) -> list[Series]:
    by_bucket: dict[int, list[Values]] = {}
    for found in means.values():
        for bucket, values in found.items():
            by_bucket.setdefault(bucket, []).append(values)
    sums = {bucket: _measures(parts, len(parts)) for bucket, parts in by_bucket.items()}
    return [
        Series(
            measure,
            label,
            unit,
            tuple((at, sums.get(bucket, {}).get(measure)) for bucket, at in window.bucket_times()),
            subject,
        )
        for measure, subject, label, unit in _SUM_LINES
    ]


def job_series(
    viewer: Actor,
    job: Job,
    start: datetime,
    end: datetime,
    step: int | None = None,
    *,
    points: int = POINTS,
) -> SeriesSet:
    """What the job's tasks were granted and what they used of it.

    Subjects: `<task id>/<device id>` for a task's card, `average` and `total` over the whole job.
    `utilisation` is in percent of the card, `utilisation_of_grant` in percent of the granted cores.
    `step` in seconds; None picks one that gives about `points`. At most 64 cards get lines of their own.
    Raises: NotFound when the viewer may not see the job; Invalid for a bad range.
    """
    if not permissions.has_permission(viewer, Permission.JOB_VIEW, job.workspace):
        raise NotFound(_("Job not found."))
    window = window_of(start, end, step, kept=READINGS_KEPT_FOR, points=points)
    rows = Channel.unscoped.filter(job_id=job.pk)
    channels = list(rows.order_by("id"))
    means = bucket_means(window, rows, Reading, _MEASURES)
    fill_from_history(window, channels, means)
    means = _latest_attempts(means, channels)
    # A line without a single reading in the window belongs to an attempt of another time.
    lines = [line for line in _lines(job, channels) if any(c in means for c in line.channels)]
    series = _sum_series(window, means)
    for line in lines[:MAX_LINES]:
        series += _slice_series(window, means, line)
    return SeriesSet(
        window.start,
        window.end,
        window.step_ms // 1000,
        tuple(series),
        gaps_in(window, {channel.cluster_id for channel in channels}),
        max(0, len(lines) - MAX_LINES),
    )
