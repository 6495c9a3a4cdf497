"""Writes the measurements of the simulated week: the roll-ups, ticks and readings that the platform would
have kept of it, measured use, and the gap.

Sums of the cluster, its nodes and workspaces come first, since every page shows them, then GPUs and jobs.
They end where the measurements of the running platform begin.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import numpy as np
from django.db import transaction
from django.db.models import Model

from allotment.demo.history.gpu_values import pack_gpu, pack_group
from allotment.demo.history.measured import (
    OUTAGE,
    Floats,
    GpuMatrix,
    Grid,
    SliceSeries,
    WeekDevice,
    WeekSlice,
    read_devices,
    read_slices,
    slice_series,
)
from allotment.demo.history.measured_rows import Packed, write_measured_use, write_rows
from clusters.models import Cluster
from telemetry.models import (
    Channel,
    GapCause,
    Reading,
    RolledMinute,
    RolledTenMinutes,
    RolledTwoHours,
    Scope,
    TelemetryGap,
    Tick,
)
from telemetry.store.pending import mark_pending
from telemetry.store.times import (
    GRAINS_MS,
    MINUTE_MS,
    MINUTE_RETENTION,
    READING_RETENTION,
    TEN_MINUTE_RETENTION,
    TEN_MINUTES_MS,
    TICK_MS,
    TICK_RETENTION,
    TWO_HOUR_RETENTION,
    TWO_HOURS_MS,
    floor_ms,
    from_ms,
    to_ms,
)
from telemetry.usage.accounting import QUARTER_MS

_ROWS_AT_ONCE: Final = 15_000
"""About as many rows are written in one transaction: with SQLite, other writers wait for it."""
STORED: Final[Mapping[type[Model], tuple[int, timedelta]]] = {
    Reading: (TICK_MS, READING_RETENTION),
    Tick: (TICK_MS, TICK_RETENTION),
    RolledMinute: (MINUTE_MS, MINUTE_RETENTION),
    RolledTenMinutes: (TEN_MINUTES_MS, TEN_MINUTE_RETENTION),
    RolledTwoHours: (TWO_HOURS_MS, TWO_HOUR_RETENTION),
}
"""The length of a row's time in each table, and how long rows are kept."""
_OF_SUMS: Final = (Tick, RolledMinute, RolledTenMinutes, RolledTwoHours)
_OF_PARTS: Final = (Reading, RolledTenMinutes, RolledTwoHours, RolledMinute)
_SUMS: Final = (
    "cards", "cards_sampled", "cards_allocated", "cores_used", "cores_allocated", "memory_capacity_mib",
    "memory_used_mib", "memory_allocated_mib", "temperature_c", "temperature_max_c", "power_w",
)  # fmt: skip
_OF_GPU: Final = (
    "cores_used", "cores_allocated", "memory_used_mib", "memory_allocated_mib", "temperature_c", "power_w",
)  # fmt: skip
_OF_SLICE: Final = _OF_GPU[:4]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class WeekMeasured:
    """The week's allocations and GPUs, read once; its measurements end at `now`."""

    cluster: Cluster
    start: datetime
    now: datetime
    devices: Sequence[WeekDevice]
    slices: Sequence[WeekSlice]

    @classmethod
    def read_week(cls, *, start: datetime, now: datetime) -> WeekMeasured:
        """Return the week in the database."""
        return cls(Cluster.unscoped.get(name="demo"), start, now, read_devices(), read_slices(start, now))

    @property
    def outage_ms(self) -> tuple[int, int]:
        """The time without measurements, in ms."""
        return to_ms(self.start + OUTAGE[0]), to_ms(self.start + OUTAGE[1])

    def build_grid(self, model: type[Model]) -> Grid:
        """Return the times of the rows of a table: those that the platform would have kept."""
        step_ms, retention = STORED[model]
        return Grid.cover_period(max(self.now - retention, self.start), self.now, step_ms)


def write_sums(week: WeekMeasured) -> int:
    """Write the series of the cluster, its nodes and workspaces, measured use and the gap; return the row
    count.

    Existing rows stay, here and in `write_gpus`: an interrupted run is started again.
    """
    cluster = week.cluster
    nodes = sorted({device.node_id for device in week.devices})
    workspaces = sorted({hold.workspace_id for hold in week.slices})
    channels = _channels([Channel(scope=Scope.CLUSTER, cluster_id=cluster.pk)])
    channels += _channels([Channel(scope=Scope.NODE, cluster_id=cluster.pk, node_id=pk) for pk in nodes])
    channels += _channels(
        [Channel(scope=Scope.WORKSPACE, cluster_id=cluster.pk, workspace_id=pk) for pk in workspaces]
    )
    groups = [np.arange(len(week.devices))]
    groups += [np.array([d.node_id == pk for d in week.devices]).nonzero()[0] for pk in nodes]
    written = 0
    for model in _OF_SUMS:
        grid = week.build_grid(model)
        series = list(slice_series(week.slices, grid))
        matrix = GpuMatrix.sum_holds(week.devices, grid, series)
        packed: list[Packed] = [
            None if model is Tick else pack_group(matrix, rows.tolist()) for rows in groups
        ]
        sums = [_sum_gpus(matrix, rows) for rows in groups]
        sums += [
            _sum_slices([one for one in series if one.hold.workspace_id == pk], grid) for pk in workspaces
        ]
        packed += [None] * len(workspaces)
        of_channel = list(zip(channels, sums, packed, strict=True))
        for part in _parts_of(of_channel, len(grid)):
            with transaction.atomic():
                for channel, columns, values in part:
                    written += write_rows(
                        model, channel.pk, grid, week.outage_ms, _SUMS, columns, packed=values
                    )
    TelemetryGap.unscoped.get_or_create(
        cluster=cluster, started_at=from_ms(week.outage_ms[0]), ended_at=from_ms(week.outage_ms[1]),
        defaults={"cause": GapCause.UNREACHABLE, "message": "connection timed out"},
    )  # fmt: skip
    return written + write_measured_use(
        week.slices, Grid.cover_period(week.start, week.now, QUARTER_MS), week.outage_ms
    )


def write_gpus(week: WeekMeasured) -> Iterator[int]:
    """Write the series of GPUs and of the jobs' slices, a part at each step; yield the row counts."""
    cluster = week.cluster.pk
    of_gpus = _channels(
        [
            Channel(scope=Scope.CARD, cluster_id=cluster, node_id=device.node_id, device_id=device.id)
            for device in week.devices
        ]
    )
    of_slices = {
        (channel.allocation_id, channel.device_id): channel.pk
        for channel in _channels([_slice_channel(cluster, hold) for hold in week.slices])
    }
    for model in _OF_PARTS:
        grid = week.build_grid(model)
        series = list(slice_series(week.slices, grid))
        matrix = GpuMatrix.sum_holds(week.devices, grid, series)
        heat, power = matrix.temperature_c(), matrix.power_w()
        by_column = (
            matrix.cores_used, matrix.cores_allocated, matrix.memory_used, matrix.memory_allocated,
            heat, power,
        )  # fmt: skip
        for rows in _parts_of(range(len(of_gpus)), len(grid)):
            with transaction.atomic():
                yield sum(
                    write_rows(
                        model,
                        of_gpus[row].pk,
                        grid,
                        week.outage_ms,
                        _OF_GPU,
                        [c[row] for c in by_column],
                        packed=pack_gpu(matrix, row, heat, power, rolled=model is not Reading),
                    )
                    for row in rows
                )
        lengths = sum(one.held.size for one in series)
        for part in _parts_of(series, -(-lengths // max(1, len(series)))):
            with transaction.atomic():
                yield sum(
                    _write_slice(
                        model,
                        of_slices[one.hold.allocation_id, one.hold.device_id],
                        grid,
                        week.outage_ms,
                        one,
                    )
                    for one in part
                )


def join_present(week: WeekMeasured) -> None:
    """Let the platform roll up again the intervals in which its own measurements begin."""
    for step_ms in GRAINS_MS:
        mark_pending(week.cluster.pk, step_ms, [floor_ms(to_ms(week.now), step_ms)])


def find_first_tick(cluster: Cluster, since: datetime) -> datetime | None:
    """Return the time of the first measurement of a cluster from a moment on; None before there is one."""
    ticks = Tick.unscoped.filter(channel__cluster_id=cluster.pk, channel__scope=Scope.CLUSTER)
    found = ticks.filter(at_ms__gte=floor_ms(to_ms(since), TICK_MS)).order_by("at_ms").first()
    return None if found is None else from_ms(found.at_ms)


def _parts_of(many: Sequence[_Item], rows_each: int) -> Iterator[Sequence[_Item]]:
    """Yield the items in parts of about `_ROWS_AT_ONCE` rows, at `rows_each` rows an item."""
    length = max(1, _ROWS_AT_ONCE // max(1, rows_each))
    for first in range(0, len(many), length):
        yield many[first : first + length]


def _slice_channel(cluster: uuid.UUID, hold: WeekSlice) -> Channel:
    return Channel(
        scope=Scope.SLICE, cluster_id=cluster, node_id=hold.node_id, device_id=hold.device_id,
        allocation_id=hold.allocation_id, task_id=hold.task_id, job_id=hold.job_id,
        workspace_id=hold.workspace_id, user_id=hold.user_id,
    )  # fmt: skip


def _channels(wanted: Sequence[Channel]) -> list[Channel]:
    """Return the stored channels of one scope that equal those wanted, in their order."""
    Channel.unscoped.bulk_create(wanted, batch_size=1000, ignore_conflicts=True)
    scope = wanted[0].scope
    stored = {
        (row.node_id, row.device_id, row.allocation_id, row.workspace_id): row
        for row in Channel.unscoped.filter(scope=scope, cluster_id=wanted[0].cluster_id)
    }
    return [stored[c.node_id, c.device_id, c.allocation_id, c.workspace_id] for c in wanted]


def _sum_gpus(matrix: GpuMatrix, rows: Any) -> list[Floats]:
    """Return the columns of `_SUMS` over some GPUs."""
    count = np.full(len(matrix.grid), float(len(rows)))
    heat = matrix.temperature_c()[rows]
    capacity = float(sum(matrix.devices[row].memory_mib for row in rows))
    return [
        count, count, matrix.held[rows].sum(0), matrix.cores_used[rows].sum(0),
        matrix.cores_allocated[rows].sum(0), np.full(len(matrix.grid), capacity),
        matrix.memory_used[rows].sum(0), matrix.memory_allocated[rows].sum(0), heat.mean(0), heat.max(0),
        matrix.power_w()[rows].sum(0),
    ]  # fmt: skip


def _sum_slices(series: Iterable[SliceSeries], grid: Grid) -> list[Floats]:
    """Return the columns of `_SUMS` over slices, each of which counts as a GPU."""
    held, used, cores, read, memory = (np.zeros(len(grid)) for _ in range(5))
    for one in series:
        held[one.columns] += one.held
        used[one.columns] += one.cores_used * one.held
        cores[one.columns] += one.hold.cores * one.held
        read[one.columns] += one.memory_used * one.held
        memory[one.columns] += one.hold.memory_mib * one.held
    unknown = np.full(len(grid), np.nan)
    return [held, held, held, used, cores, memory, read, memory, unknown, unknown, unknown]


def _write_slice(
    model: type[Model], channel: int, grid: Grid, outage: tuple[int, int], one: SliceSeries
) -> int:
    part = Grid(grid.step_ms, grid.first + one.columns.start, grid.first + one.columns.stop)
    full = np.ones(len(part))
    columns = [one.cores_used, full * one.hold.cores, one.memory_used, full * one.hold.memory_mib]
    return write_rows(model, channel, part, outage, _OF_SLICE, columns, one.held)
