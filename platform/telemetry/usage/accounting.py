"""Adds intervals up to the lines of a report: exact in time, across days and changes of price.

A line is one job on one pool in the month. Its amount is rounded once; every other amount of a report is the
sum of such lines, so that each table has the same total.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Final

import numpy as np

from scheduling.metering.usage_rows import UsageRow
from telemetry.usage.figures import Figures, round_amount
from telemetry.usage.periods import Period

QUARTER_MS: Final = 900_000
QUARTERS: Final = 96
DAY_MS: Final = QUARTER_MS * QUARTERS
LineKey = tuple[uuid.UUID, uuid.UUID]
"""A job and a flavor."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The price of a pool per GPU-hour from `since_ms` on."""

    since_ms: int
    whole: Decimal
    slice: Decimal


Rates = Mapping[uuid.UUID, Sequence[Rate]]
"""By flavor, in order of time."""


@dataclass(frozen=True, slots=True)
class MeasuredDay:
    """Measured use of one job on one flavor in one day of UTC; see `telemetry.models.MeasuredUse`."""

    job_id: uuid.UUID
    flavor_id: uuid.UUID
    day: int
    measured: bytes
    used: bytes


@dataclass(slots=True)
class Line:
    """One job on one pool in the month."""

    workspace_id: uuid.UUID
    queue_id: uuid.UUID
    user_id: uuid.UUID
    job_id: uuid.UUID
    job_name: str
    flavor_id: uuid.UUID
    figures: Figures = field(default_factory=Figures)


@dataclass(slots=True)
class Account:
    """The lines of a month and its days."""

    period: Period
    lines: dict[LineKey, Line]
    days: list[Figures]


def account_month(
    period: Period, rows: Iterable[UsageRow], measured: Iterable[MeasuredDay], rates: Rates, *, digits: int
) -> Account:
    """Add up a month. `digits` are the decimals of an amount."""
    found = Account(period, {}, [Figures() for _ in period.days])
    costs: defaultdict[LineKey, Decimal] = defaultdict(Decimal)
    with localcontext() as context:
        context.prec = 50
        for row in rows:
            _add_row(found, costs, row, rates.get(row.flavor_id, ()))
    for key, cost in costs.items():
        found.lines[key].figures.amount = round_amount(cost, digits)
    _add_measured(found, list(measured))
    return found


def _add_row(
    found: Account, costs: defaultdict[LineKey, Decimal], row: UsageRow, rates: Sequence[Rate]
) -> None:
    period = found.period
    begin, end = max(row.begin_ms, period.start_ms), min(row.end_ms, period.end_ms)
    if begin >= end:
        return
    key = (row.job_id, row.flavor_id)
    line = found.lines.get(key)
    if line is None:
        line = found.lines[key] = Line(
            row.workspace_id, row.queue_id, row.user_id, row.job_id, row.job_name, row.flavor_id
        )
    _hold(line.figures, row, end - begin)
    for day, length in split_time(period.bounds_ms, begin, end):
        _hold(found.days[day], row, length)
    for at, length in split_time([rate.since_ms for rate in rates], begin, end):
        if at < 0:
            line.figures.unpriced += row.billed * length
        else:
            price = rates[at].slice if row.sliced else rates[at].whole
            costs[key] += row.billed * length * price


def _hold(figures: Figures, row: UsageRow, length_ms: int) -> None:
    figures.reserved += row.cores * length_ms
    figures.billed += row.billed * length_ms
    if row.borrowed:
        figures.borrowed += row.borrowed * length_ms
    if row.lost:
        figures.lost += row.lost * length_ms


def split_time(bounds: Sequence[int], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a time at bounds: the number of the bound before each part, -1 for none, and its length."""
    at = bisect_right(bounds, begin) - 1
    while at + 1 < len(bounds) and bounds[at + 1] < end:
        yield at, bounds[at + 1] - begin
        at += 1
        begin = bounds[at]
    yield at, end - begin


def _add_measured(found: Account, measured: Sequence[MeasuredDay]) -> None:
    by_day: defaultdict[int, list[MeasuredDay]] = defaultdict(list)
    for one in measured:
        if (one.job_id, one.flavor_id) in found.lines:
            by_day[one.day].append(one)
    for day, parts in by_day.items():
        held = _matrix([one.measured for one in parts])
        used = _matrix([one.used for one in parts])
        begin, end = (_quarter_of(day, bound) for bound in (found.period.start_ms, found.period.end_ms))
        sums = zip(
            held[:, begin:end].sum(axis=1).tolist(), used[:, begin:end].sum(axis=1).tolist(), strict=True
        )
        for one, (held_sum, used_sum) in zip(parts, sums, strict=True):
            figures = found.lines[one.job_id, one.flavor_id].figures
            figures.measured += held_sum
            figures.used += used_sum
        by_quarter = held.sum(axis=0), used.sum(axis=0)
        for number, bounds in enumerate(
            zip(found.period.bounds_ms, found.period.bounds_ms[1:], strict=False)
        ):
            begin, end = (_quarter_of(day, bound) for bound in bounds)
            if begin < end:
                found.days[number].measured += int(by_quarter[0][begin:end].sum())
                found.days[number].used += int(by_quarter[1][begin:end].sum())


def _matrix(rows: Sequence[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.frombuffer(b"".join(rows), dtype="<i8").reshape(-1, QUARTERS)


def _quarter_of(day: int, at_ms: int) -> int:
    """Return the first quarter of a day of UTC that begins at or after an instant, within the day."""
    return min(QUARTERS, max(0, -((day * DAY_MS - at_ms) // QUARTER_MS)))
