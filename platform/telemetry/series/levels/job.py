"""The series of one job: a line per task and card, and the lines of the whole job."""

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
from telemetry.series.windows.buckets import (
    Buckets,
    ColumnMeasure,
    Sums,
    TimeSum,
    Values,
    bucket_sums,
    means_of,
)
from telemetry.series.windows.gaps import gaps_in
from telemetry.series.windows.history import fill_from_history
from telemetry.series.windows.types import Series, SeriesSet
from telemetry.series.windows.window import POINTS, Window, window_of
from telemetry.store.times import READING_RETENTION
from tenants.access import permissions
from tenants.access.permissions import Permission

# More lines cannot be distinguished in a chart; the averages always cover all of them.
MAX_LINES: Final = 64

_MEASURES: Final = (
    ColumnMeasure("cores_used"),
    ColumnMeasure("cores_allocated"),
    ColumnMeasure("memory_used_mib"),
    ColumnMeasure("memory_allocated_mib"),
)
_GPU_NAME: Final = "{} · GPU {}"
_SAMPLING_MS: Final = 45_000
Times = dict[int, dict[int, int]]
"""The measured milliseconds by channel id and bucket number."""
Shares = dict[int, dict[int, float]]
"""A share of the job's time by channel id and bucket number."""
_SLICE_LINES: Final = (
    ("utilisation", "percent"),
    ("utilisation_of_grant", "percent"),
    ("cores_granted", "percent"),
    ("memory_used", "MiB"),
    ("memory_granted", "MiB"),
    ("memory_of_grant", "percent"),
)
_SUM_LINES: Final = (
    ("utilisation", "average", "Compute used, average per card", "percent"),
    ("utilisation_of_grant", "average", "Compute used of what was granted", "percent"),
    ("memory_of_grant", "average", "GPU memory used of what was granted", "percent"),
    ("memory_used", "total", "GPU memory used", "MiB"),
    ("memory_granted", "total", "GPU memory granted", "MiB"),
)
LINE_NAMES: Final = tuple(measure for measure, _unit in _SLICE_LINES)


@dataclass(frozen=True, slots=True)
class _Line:
    """One task on one card; an attempt that returns to the same card continues the line."""

    task_id: uuid.UUID
    device_id: uuid.UUID
    label: str
    channels: tuple[int, ...]

    @property
    def subject(self) -> str:
        return f"{self.task_id}/{self.device_id}"


def _measures(parts: Sequence[tuple[Values, float]]) -> dict[str, float | None]:
    """Combine slices, each with its share of the time.

    Utilisation is the mean over cards; all other measures are sums or ratios of sums.
    """
    if not parts:
        return {}
    used = [(part["cores_used"], share) for part, share in parts if "cores_used" in part]
    memory = [part["memory_used_mib"] * share for part, share in parts if "memory_used_mib" in part]
    allocated = sum(part["cores_allocated"] * share for part, share in parts)
    busy = sum(value * share for value, share in used)
    memory_allocated = sum(part["memory_allocated_mib"] * share for part, share in parts)
    # Otherwise the allocation would not be that of the same slices.
    complete, memory_complete = len(used) == len(parts), len(memory) == len(parts)
    return {
        "utilisation": busy / sum(share for _, share in used) if used else None,
        "utilisation_of_grant": 100 * busy / allocated if allocated and complete else None,
        "cores_granted": allocated / sum(share for _, share in parts),
        "memory_used": sum(memory) if memory else None,
        "memory_granted": memory_allocated,
        "memory_of_grant": 100 * sum(memory) / memory_allocated
        if memory_allocated and memory_complete
        else None,
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
        place = _GPU_NAME.format(*cards[device_id]) if device_id in cards else "?"
        lines.append(_Line(task_id, device_id, f"{task} · {place}", tuple(grouped[task_id, device_id])))
    return lines


def _measured_times(window: Window, means: Buckets, sums: Sums) -> Times:
    """Return how long each slice was measured in each bucket; values of another store count in full."""
    full = {"cores_allocated": TimeSum(0.0, window.step_ms)}
    return {
        channel: {
            bucket: sums.get(channel, {}).get(bucket, full)["cores_allocated"].measured_ms for bucket in found
        }
        for channel, found in means.items()
    }


def _shares(channels: Sequence[Channel], times: Times) -> Shares:
    """Return the share of the job's time in a bucket that each slice has.

    Attempts of a task follow one another: their sum would show more cards than the job ever had at once. The
    time of the job is that of the task that was measured longest. Tasks and cards that began or ended within
    the bucket count for their part; a difference of a few readings is due to sampling alone.
    """
    attempts: dict[tuple[int, uuid.UUID | None], dict[uuid.UUID | None, int]] = {}
    for channel in channels:
        for bucket, length in times.get(channel.pk, {}).items():
            of_task = attempts.setdefault((bucket, channel.task_id), {})
            of_task[channel.allocation_id] = max(length, of_task.get(channel.allocation_id, 0))
    of_tasks = {key: sum(lengths.values()) for key, lengths in attempts.items()}
    of_job: dict[int, int] = {}
    for (bucket, _task), length in of_tasks.items():
        of_job[bucket] = max(length, of_job.get(bucket, 0))
    found: Shares = {}
    for channel in channels:
        for bucket, length in times.get(channel.pk, {}).items():
            task, attempt = of_tasks[bucket, channel.task_id], attempts[bucket, channel.task_id]
            own = attempt[channel.allocation_id]
            share = _part(task, of_job[bucket]) * own / task * _part(length, own)
            found.setdefault(channel.pk, {})[bucket] = share
    return found


def _part(length_ms: int, of_ms: int) -> float:
    return 1.0 if of_ms - length_ms <= _SAMPLING_MS else length_ms / of_ms


def _slice_series(window: Window, means: Buckets, line: _Line, times: Times) -> list[Series]:
    found: dict[int, dict[str, float | None]] = {}
    for bucket, _at in window.bucket_times():
        own = [channel for channel in line.channels if bucket in means.get(channel, {})]
        whole = sum(times[channel][bucket] for channel in own)
        found[bucket] = _measures([(means[c][bucket], times[c][bucket] / whole) for c in own])
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


def _sum_series(window: Window, means: Buckets, shares: Shares) -> list[Series]:
    by_bucket: dict[int, list[tuple[Values, float]]] = {}
    for channel, found in means.items():
        for bucket, values in found.items():
            by_bucket.setdefault(bucket, []).append((values, shares[channel][bucket]))
    sums = {bucket: _measures(parts) for bucket, parts in by_bucket.items()}
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


def job_gpus(viewer: Actor, job: Job) -> list[tuple[uuid.UUID, str]]:
    """Return the GPUs on which a job was measured, with their names, in the order of nodes.

    Raises: NotFound if the viewer may not see the job.
    """
    _require_sight(viewer, job)
    measured = Channel.unscoped.filter(job_id=job.pk).values("device_id")
    rows = Device.unscoped.filter(pk__in=measured).order_by("node__name", "index")
    return [
        (pk, _GPU_NAME.format(node, index))
        for pk, node, index in rows.values_list("pk", "node__name", "index")
    ]


def _require_sight(viewer: Actor, job: Job) -> None:
    if not permissions.has_permission(viewer, Permission.JOB_VIEW, job.workspace):
        raise NotFound(_("Job not found."))


def job_series(
    viewer: Actor,
    job: Job,
    start: datetime,
    end: datetime,
    step: int | None = None,
    *,
    gpu: uuid.UUID | None = None,
    points: int = POINTS,
) -> SeriesSet:
    """Return the allocation of the job's tasks and their use of it.

    Subjects: `<task id>/<device id>` for a task's card, `average` and `total` over the whole job.
    `utilisation` is in percent of the card, `utilisation_of_grant` in percent of the allocated cores. `step`
    in seconds; None picks one that gives about `points`. At most 64 cards get their own lines; with `gpu`
    only that one does. Raises: NotFound if the viewer may not see the job; Invalid for a bad range.
    """
    _require_sight(viewer, job)
    window = window_of(start, end, step, retention=READING_RETENTION, points=points)
    rows = Channel.unscoped.filter(job_id=job.pk)
    channels = list(rows.order_by("id"))
    sums = bucket_sums(window, rows, Reading, _MEASURES)
    means = means_of(sums, _MEASURES)
    fill_from_history(window, channels, means)
    times = _measured_times(window, means, sums)
    # A line without a reading in the window belongs to an attempt of another time.
    lines = [line for line in _lines(job, channels) if any(c in means for c in line.channels)]
    lines = [line for line in lines if gpu in (None, line.device_id)]
    series = _sum_series(window, means, _shares(channels, times))
    for line in lines[:MAX_LINES]:
        series += _slice_series(window, means, line, times)
    return SeriesSet(
        window.start,
        window.end,
        window.step_ms // 1000,
        tuple(series),
        gaps_in(window, {channel.cluster_id for channel in channels}),
        max(0, len(lines) - MAX_LINES),
    )
