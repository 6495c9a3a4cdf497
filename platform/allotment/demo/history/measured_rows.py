"""Writes rows of measurements in bulk, given by columns."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import Model

from allotment.demo.history.measured import Floats, Grid, WeekSlice, slice_series
from telemetry.models import MeasuredProgress, MeasuredUse, Rolled
from telemetry.store.times import TICK_MS
from telemetry.usage.accounting import DAY_MS, QUARTER_MS, QUARTERS

Packed = list[bytes | None] | None


def write_rows(
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
        values += [span.tolist(), np.maximum(1, span // TICK_MS).tolist()]
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


def write_measured_use(slices: Sequence[WeekSlice], grid: Grid, outage_ms: tuple[int, int]) -> int:
    """Write measured time and use by job and day, in quarters of an hour, which are the grid's intervals."""
    measured = grid.is_measured(outage_ms)
    sums: defaultdict[tuple[uuid.UUID, uuid.UUID, uuid.UUID], list[Floats]] = defaultdict(
        lambda: [np.zeros(len(grid)), np.zeros(len(grid))]
    )
    for one in slice_series(slices, grid):
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
