"""Adds intervals up to the lines of a report: exact in time, across days and price changes.

A line is one job on one pool in the month. Its amount is rounded once; every other amount of a report is the
sum of such lines, so that all tables have the same total.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from scheduling.metering.usage_rows import UsageRow
from telemetry.usage.figures import PRICE_DIGITS, Figures, round_units
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
"""Rates by flavor, in order of time."""


class MeasuredDay(NamedTuple):
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


class Account:
    """The lines of a month and its days.

    A month of a large installation has tens of thousands of lines, so their figures are stored in columns,
    which are summed up by the groups of a report.
    """

    def __init__(self, period: Period, owners: Sequence[UsageRow], digits: int) -> None:
        self.period, self._owners, self.digits = period, owners, digits
        self.days = [Figures() for _ in period.days]
        self.columns = {name: np.zeros(len(owners), np.int64) for name in _COLUMNS}
        # In the smallest unit of the currency; None if no price is known for any of it.
        self.amounts: list[int | None] = [None] * len(owners)

    @cached_property
    def lines(self) -> dict[LineKey, Line]:
        """Every line by its key."""
        groups = list(range(len(self._owners)))
        figures = self._sum_groups(groups, len(groups))
        return {
            (owner.job_id, owner.flavor_id): _line_of(owner, of)
            for owner, of in zip(self._owners, figures, strict=True)
        }

    def first_line(self) -> Line | None:
        """Return any one line without its figures, None without lines."""
        return _line_of(self._owners[0], Figures()) if self._owners else None

    def sum_total(self) -> Figures:
        """Sum up all lines."""
        return self._sum_groups([0] * len(self._owners), 1)[0]

    def sum_by(self, name: str) -> dict[uuid.UUID, Line]:
        """Sum up the lines by one of their ids: the first line of each id, with the figures of all."""
        first: dict[int, int] = {}
        owners: list[UsageRow] = []
        groups = []
        for owner, key in zip(self._owners, map(attrgetter(f"{name}.int"), self._owners), strict=True):
            group = first.setdefault(key, len(owners))
            if group == len(owners):
                owners.append(owner)
            groups.append(group)
        figures = self._sum_groups(groups, len(owners))
        keys = map(attrgetter(name), owners)
        return {key: _line_of(owner, of) for key, owner, of in zip(keys, owners, figures, strict=True)}

    def _sum_groups(self, groups: Sequence[int], count: int) -> list[Figures]:
        places = np.array(groups, np.int64)
        sums = {name: _sum_at(places, column, count).tolist() for name, column in self.columns.items()}
        amounts: list[int | None] = [None] * count
        for group, amount in zip(groups, self.amounts, strict=True):
            if amount is not None:
                amounts[group] = amount + (amounts[group] or 0)
        return [
            Figures(
                **{name: column[group] for name, column in sums.items()},
                amount=None if amount is None else Decimal(amount).scaleb(-self.digits),
            )
            for group, amount in enumerate(amounts)
        ]


_COLUMNS: Final = ("reserved", "measured", "used", "borrowed", "lost", "billed", "unpriced")
_Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


def _line_of(owner: UsageRow, figures: Figures) -> Line:
    ids = (owner.workspace_id, owner.queue_id, owner.user_id, owner.job_id)
    return Line(*ids, owner.job_name, owner.flavor_id, figures)


def _sum_at(places: _Numbers, amounts: _Numbers, count: int) -> _Numbers:
    """Return the sums of the amounts at each place, exactly in whole numbers."""
    found = np.zeros(count, np.int64)
    np.add.at(found, places, amounts)
    return found


def account_month(
    period: Period, rows: Iterable[UsageRow], measured: Iterable[MeasuredDay], rates: Rates, *, digits: int
) -> Account:
    """Add up a month. `digits` are the decimals of an amount."""
    start, end = period.start_ms, period.end_ms
    within = [row for row in rows if row.begin_ms < end and row.end_ms > start]
    numbers: dict[tuple[int, int], int] = {}
    owners: list[UsageRow] = []
    places = []
    for row in within:
        # Ids are mapped to numbers first, because a UUID computes its hash at each look-up.
        place = numbers.setdefault((row.job_id.int, row.flavor_id.int), len(owners))
        if place == len(owners):
            owners.append(row)
        places.append(place)
    found = Account(period, owners, digits)
    holds = _Holds(within, places, period)
    for name in ("reserved", "billed", "borrowed", "lost"):
        found.columns[name] = _sum_at(holds.places, holds.columns[name] * holds.length, len(owners))
        for day, bounds in zip(found.days, pairwise(period.bounds_ms), strict=True):
            setattr(day, name, int(holds.columns[name] @ holds.clip(*bounds)))
    _add_costs(found, holds, within, rates)
    _add_measured(found, numbers, measured)
    return found


class _Holds:
    """The intervals of a month as columns; `places` are the numbers of their lines."""

    def __init__(self, rows: Sequence[UsageRow], places: Sequence[int], period: Period) -> None:
        table = np.array([row[7:] for row in rows], np.int64).reshape(-1, 6).T
        self.begin = np.maximum(table[0], period.start_ms)
        self.end = np.minimum(table[1], period.end_ms)
        self.columns = dict(zip(("reserved", "billed", "borrowed", "lost"), table[2:], strict=True))
        self.places = np.array(places, np.int64)

    @property
    def length(self) -> _Numbers:
        """The milliseconds of each interval within the month."""
        length: _Numbers = self.end - self.begin
        return length

    def clip(self, begin: int, end: int) -> _Numbers:
        """Return the milliseconds of each interval between two instants."""
        found: _Numbers = np.maximum(np.minimum(self.end, end) - np.maximum(self.begin, begin), 0)
        return found


def _add_costs(found: Account, holds: _Holds, rows: Sequence[UsageRow], rates: Rates) -> None:
    """Add the amounts of the lines, each rounded once, and the time without a price."""
    costs, count = [0] * len(found.amounts), len(found.amounts)
    priced = np.zeros(count, np.bool_)
    pools: dict[int, int] = {}
    pool_of = np.array([pools.setdefault(row.flavor_id.int, len(pools)) for row in rows], np.int64)
    sliced = np.array([bool(row.sliced) for row in rows], np.bool_)
    for flavor, number in pools.items():
        here = pool_of == number
        known = rates.get(uuid.UUID(int=flavor), ())
        bounds = [found.period.start_ms, *(rate.since_ms for rate in known), found.period.end_ms]
        for rate, (begin, end) in zip((None, *known), pairwise(bounds), strict=True):
            length = np.where(here, holds.clip(begin, end), 0)
            if not length.any():
                continue
            billed = holds.columns["billed"] * length
            if rate is None:
                found.columns["unpriced"] += _sum_at(holds.places, billed, count)
                continue
            priced[holds.places[length > 0]] = True
            for price, of in ((rate.whole, ~sliced), (rate.slice, sliced)):
                parts = _sum_at(holds.places, np.where(of, billed, 0), count).tolist()
                whole = int(price.scaleb(PRICE_DIGITS))
                costs = [cost + part * whole for cost, part in zip(costs, parts, strict=True)]
    for place in np.flatnonzero(priced).tolist():
        found.amounts[place] = round_units(costs[place], found.digits)


def split_time(bounds: Sequence[int], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Split a time at bounds: yield the index of the bound before each part, -1 for none, and its length."""
    at = bisect_right(bounds, begin) - 1
    while at + 1 < len(bounds) and bounds[at + 1] < end:
        yield at, bounds[at + 1] - begin
        at += 1
        begin = bounds[at]
    yield at, end - begin


def _add_measured(
    found: Account, numbers: Mapping[tuple[int, int], int], measured: Iterable[MeasuredDay]
) -> None:
    by_day: defaultdict[int, list[tuple[int, MeasuredDay]]] = defaultdict(list)
    for one in measured:
        place = numbers.get((one.job_id.int, one.flavor_id.int))
        if place is not None:
            by_day[one.day].append((place, one))
    for day, parts in by_day.items():
        places = np.array([place for place, _one in parts], np.int64)
        held = _matrix([one.measured for _place, one in parts])
        used = _matrix([one.used for _place, one in parts])
        begin, end = (_quarter_of(day, bound) for bound in (found.period.start_ms, found.period.end_ms))
        np.add.at(found.columns["measured"], places, held[:, begin:end].sum(axis=1))
        np.add.at(found.columns["used"], places, used[:, begin:end].sum(axis=1))
        by_quarter = held.sum(axis=0), used.sum(axis=0)
        for number, bounds in enumerate(pairwise(found.period.bounds_ms)):
            begin, end = (_quarter_of(day, bound) for bound in bounds)
            if begin < end:
                found.days[number].measured += int(by_quarter[0][begin:end].sum())
                found.days[number].used += int(by_quarter[1][begin:end].sum())


def _matrix(rows: Sequence[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.frombuffer(b"".join(rows), dtype="<i8").reshape(-1, QUARTERS)


def _quarter_of(day: int, at_ms: int) -> int:
    """Return the first quarter of a day of UTC that begins at or after an instant, within the day."""
    return min(QUARTERS, max(0, -((day * DAY_MS - at_ms) // QUARTER_MS)))
