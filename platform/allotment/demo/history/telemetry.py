"""Writes the measurements of the simulated week: roll-ups, ticks and readings of the last hour, measured use,
and the gap.

Sums of the cluster, its nodes and workspaces come first, since every page shows them, then GPUs and jobs.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
from django.db import connection, transaction
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
from clusters.models import Cluster
from telemetry.models import (
    Channel,
    GapCause,
    MeasuredProgress,
    MeasuredUse,
    Reading,
    Rolled,
    RolledMinute,
    RolledTenMinutes,
    RolledTwoHours,
    Scope,
    TelemetryGap,
    Tick,
)
from telemetry.store.times import MINUTE_MS, TEN_MINUTES_MS, TWO_HOURS_MS, from_ms, to_ms
from telemetry.usage.accounting import DAY_MS, QUARTER_MS, QUARTERS

FINE: Final = timedelta(hours=6)
"""The period before now for which minutes are written; before it, ten minutes."""
_LAST: Final = timedelta(hours=1)
_TICK_MS: Final = 20_000
_READING_MS: Final = 10_000
_GPUS_AT_ONCE, _SLICES_AT_ONCE = 16, 500
"""The GPUs and slices of one transaction: with SQLite, other writers wait for it."""
_GRAINS: Final[tuple[tuple[int, type[Rolled]], ...]] = (
    (MINUTE_MS, RolledMinute),
    (TEN_MINUTES_MS, RolledTenMinutes),
    (TWO_HOURS_MS, RolledTwoHours),
)
_SUMS: Final = (
    "cards", "cards_sampled", "cards_allocated", "cores_used", "cores_allocated", "memory_capacity_mib",
    "memory_used_mib", "memory_allocated_mib", "temperature_c", "temperature_max_c", "power_w",
)  # fmt: skip
_OF_GPU: Final = (
    "cores_used", "cores_allocated", "memory_used_mib", "memory_allocated_mib", "temperature_c", "power_w",
)  # fmt: skip
Packed = list[bytes | None] | None
_OF_SLICE: Final = _OF_GPU[:4]


@dataclass(frozen=True, slots=True)
class WeekMeasured:
    """The week's allocations and GPUs, read once."""

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

    def build_grid(self, step_ms: int) -> Grid:
        """Return the intervals of a grain for which rows are written."""
        start = {MINUTE_MS: self.now - FINE, _TICK_MS: self.now - _LAST}.get(step_ms, self.start)
        return Grid.cover_period(max(start, self.start), self.now, step_ms)


@transaction.atomic
def write_sums(week: WeekMeasured) -> int:
    """Write the series of the cluster, its nodes and workspaces, measured use and the gap; return the row
    count.

    Existing rows stay, here and in `write_gpus`: an interrupted run is started again.
    """
    nodes = sorted({device.node_id for device in week.devices})
    workspaces = sorted({hold.workspace_id for hold in week.slices})
    cluster, written = week.cluster, 0
    channels = _channels([Channel(scope=Scope.CLUSTER, cluster_id=cluster.pk)])
    channels += _channels([Channel(scope=Scope.NODE, cluster_id=cluster.pk, node_id=pk) for pk in nodes])
    channels += _channels(
        [Channel(scope=Scope.WORKSPACE, cluster_id=cluster.pk, workspace_id=pk) for pk in workspaces]
    )
    tables: tuple[tuple[int, type[Model]], ...] = (*_GRAINS, (_TICK_MS, Tick))
    for step_ms, model in tables:
        grid = week.build_grid(step_ms)
        series = list(slice_series(week.slices, grid))
        matrix = GpuMatrix.sum_holds(week.devices, grid, series)
        groups = [np.arange(len(week.devices))]
        groups += [np.array([d.node_id == pk for d in week.devices]).nonzero()[0] for pk in nodes]
        packed: list[Packed] = [
            None if model is Tick else pack_group(matrix, rows.tolist()) for rows in groups
        ]
        sums = [_sum_gpus(matrix, rows) for rows in groups]
        sums += [
            _sum_slices([one for one in series if one.hold.workspace_id == pk], grid) for pk in workspaces
        ]
        packed += [None] * len(workspaces)
        for channel, columns, values in zip(channels, sums, packed, strict=True):
            written += _write(model, channel.pk, grid, week.outage_ms, _SUMS, columns, packed=values)
    TelemetryGap.unscoped.get_or_create(
        cluster=cluster, started_at=from_ms(week.outage_ms[0]), ended_at=from_ms(week.outage_ms[1]),
        defaults={"cause": GapCause.UNREACHABLE, "message": "connection timed out"},
    )  # fmt: skip
    return written + _write_measured_use(week)


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
    tables: tuple[tuple[int, type[Model]], ...] = ((_TICK_MS, Reading), *_GRAINS)
    for step_ms, model in tables:
        grid = week.build_grid(step_ms)
        series = list(slice_series(week.slices, grid))
        matrix = GpuMatrix.sum_holds(week.devices, grid, series)
        heat, power = matrix.temperature_c(), matrix.power_w()
        by_column = (
            matrix.cores_used, matrix.cores_allocated, matrix.memory_used, matrix.memory_allocated,
            heat, power,
        )  # fmt: skip
        for first in range(0, len(of_gpus), _GPUS_AT_ONCE):
            with transaction.atomic():
                yield sum(
                    _write(
                        model,
                        of_gpus[row].pk,
                        grid,
                        week.outage_ms,
                        _OF_GPU,
                        [c[row] for c in by_column],
                        packed=pack_gpu(matrix, row, heat, power, rolled=model is not Reading),
                    )
                    for row in range(first, min(first + _GPUS_AT_ONCE, len(of_gpus)))
                )
        for first in range(0, len(series), _SLICES_AT_ONCE):
            with transaction.atomic():
                yield sum(
                    _write_slice(
                        model,
                        of_slices[one.hold.allocation_id, one.hold.device_id],
                        grid,
                        week.outage_ms,
                        one,
                    )
                    for one in series[first : first + _SLICES_AT_ONCE]
                )


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
    return _write(model, channel, part, outage, _OF_SLICE, columns, one.held)


def _write(
    model: type[Model],
    channel: int,
    grid: Grid,
    outage: tuple[int, int],
    names: Sequence[str],
    columns: Sequence[Floats],
    covered: Floats | None = None,
    *,
    packed: Packed = None,
) -> int:
    """Write one row per interval, none within the outage; NaN values are unknown."""
    measured = grid.is_measured(outage)
    if not measured.any():
        return 0
    times = np.arange(grid.first, grid.last)[measured] * grid.step_ms
    share = np.ones(len(grid)) if covered is None else covered
    span = np.maximum(1, np.rint(share[measured] * grid.step_ms)).astype(int)
    fields = ["channel_id", "at_ms"]
    values: list[list[Any]] = [np.full(times.size, channel).tolist(), times.tolist()]
    for name, column in zip(names, columns, strict=True):
        fields.append(name)
        values.append([None if value != value else round(value, 2) for value in column[measured].tolist()])
    if packed is not None:
        fields.append("values")
        values.append([row for row, is_known in zip(packed, measured.tolist(), strict=True) if is_known])
    if not issubclass(model, Rolled):
        fields.append("interval_ms")
        values.append([grid.step_ms] * times.size)
    else:
        fields += ["covered_ms", "count"]
        values += [span.tolist(), np.maximum(1, span // _READING_MS).tolist()]
    _insert(model, fields, values)
    return int(times.size)


def _insert(model: type[Model], fields: Sequence[str], columns: Sequence[list[Any]]) -> None:
    """Write rows, given by columns, as plain values, because so many models take seconds to create.

    PostgreSQL receives each column as an array, because a statement for each row takes several times as long.
    """
    quote = connection.ops.quote_name
    known = {field.attname: field for field in model._meta.concrete_fields}
    names = ", ".join(quote(str(known[name].column)) for name in fields)
    # Names and types of the model's columns only; every value is a parameter.
    into = f"INSERT INTO {quote(model._meta.db_table)} ({names})"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            arrays = ", ".join(f"%s::{known[name].db_type(connection)}[]" for name in fields)
            sql = f"{into} SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING"  # noqa: S608
            cursor.execute(sql, columns)
        else:
            marks = ", ".join(["%s"] * len(fields))
            sql = f"{into} VALUES ({marks}) ON CONFLICT DO NOTHING"
            cursor.executemany(sql, list(zip(*columns, strict=True)))


def _write_measured_use(week: WeekMeasured) -> int:
    """Write measured time and use by job and day, in quarters of an hour."""
    grid = Grid.cover_period(week.start, week.now, QUARTER_MS)
    measured = grid.is_measured(week.outage_ms)
    sums: defaultdict[tuple[uuid.UUID, uuid.UUID, uuid.UUID], list[Floats]] = defaultdict(
        lambda: [np.zeros(len(grid)), np.zeros(len(grid))]
    )
    for one in slice_series(week.slices, grid):
        held, used = sums[one.hold.workspace_id, one.hold.job_id, one.hold.flavor_id]
        held[one.columns] += one.hold.cores * one.held * QUARTER_MS * measured[one.columns]
        used[one.columns] += one.cores_used * one.held * QUARTER_MS * measured[one.columns]
    rows, per_day = [], DAY_MS // QUARTER_MS
    for (workspace, job, flavor), (held, used) in sums.items():
        for day in range(grid.first // per_day, -(-grid.last // per_day)):
            whole = [np.zeros(QUARTERS), np.zeros(QUARTERS)]
            begin, end = max(grid.first, day * per_day), min(grid.last, (day + 1) * per_day)
            for column, into in zip((held, used), whole, strict=True):
                into[begin - day * per_day : end - day * per_day] = column[
                    begin - grid.first : end - grid.first
                ]
            if whole[0].any():
                packed = [np.floor(column).astype("<i8").tobytes() for column in whole]
                rows.append(
                    MeasuredUse(
                        workspace_id=workspace, job_id=job, flavor_id=flavor, day=day, measured=packed[0],
                        used=packed[1],
                    )
                )  # fmt: skip
    MeasuredUse.unscoped.bulk_create(rows, batch_size=500, ignore_conflicts=True)
    until = grid.last * QUARTER_MS
    MeasuredProgress.unscoped.update_or_create(
        pk=1, defaults={"final_until_ms": until, "measured_until_ms": until}
    )
    return len(rows)
