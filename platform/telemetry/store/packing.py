"""Packs values and their statistics into bytes, and combines statistics over time and over subjects.

A measure is numbered by its index in `clusters.gpu.measures.MEASURES`, to which new ones are only appended.
Gauges are stored with 32 bits, counters and states with 64: a counter of joules passes 2**24 within a day.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from clusters.gpu.measures import BY_NAME, MEASURES, MeasureKind

_NUMBER: Final = {measure.name: number for number, measure in enumerate(MEASURES)}
_NAMES: Final = tuple(measure.name for measure in MEASURES)
_KINDS: Final = tuple(measure.kind for measure in MEASURES)


class Stat(NamedTuple):
    """A measure over an interval with `seconds` of measured time; those of several subjects add up.

    For a gauge `mean` is weighted by the seconds; for a counter `low` is its first value and `mean` the
    increase; for a state `high` are the bits that were set.
    """

    seconds: int
    mean: float
    low: float
    high: float
    last: float


Stats = dict[str, Stat]


def kind_of(name: str) -> MeasureKind:
    """Return the kind of a measure of the catalogue."""
    return BY_NAME[name].kind


@cache
def _layout(bits: int) -> tuple[tuple[str, ...], struct.Struct]:
    numbers = [number for number in range(len(MEASURES)) if bits >> number & 1]
    form = "".join("f" if _KINDS[number] is MeasureKind.GAUGE else "d" for number in numbers)
    return tuple(_NAMES[number] for number in numbers), struct.Struct("<" + form)


def pack_values(values: Mapping[str, float]) -> bytes | None:
    """Pack one value of each measure; None for no values."""
    bits = 0
    for name in values:
        bits |= 1 << _NUMBER[name]
    if not bits:
        return None
    names, form = _layout(bits)
    return bits.to_bytes(8, "little") + form.pack(*[values[name] for name in names])


def unpack_values(packed: bytes | memoryview | None) -> dict[str, float]:
    """Return the values that `pack_values` packed."""
    if packed is None:
        return {}
    names, form = _layout(int.from_bytes(packed[:8], "little"))
    return dict(zip(names, form.unpack_from(packed, 8), strict=True))


def first_stat(name: str, value: float, interval_ms: int) -> Stat:
    """Return the statistics of a single value that covers `interval_ms`, counted in whole seconds."""
    kind = kind_of(name)
    mean, low = 0.0 if kind is MeasureKind.COUNTER else value, 0.0 if kind is MeasureKind.STATE else value
    return Stat(max(1, round(interval_ms / 1000)), mean, low, value, value)


def merge_following(name: str, before: Stat, after: Stat) -> Stat:
    """Combine two intervals of one series, the earlier one first.

    A counter that is less than before has restarted at 0.
    """
    count, kind = before.seconds + after.seconds, kind_of(name)
    if kind is MeasureKind.COUNTER:
        step = after.low - before.last if after.low >= before.last else after.low
        return Stat(count, before.mean + step + after.mean, before.low, after.last, after.last)
    if kind is MeasureKind.STATE:
        return Stat(count, after.last, 0.0, float(int(before.high) | int(after.high)), after.last)
    mean = (before.mean * before.seconds + after.mean * after.seconds) / count
    return Stat(count, mean, min(before.low, after.low), max(before.high, after.high), after.last)


def merge_parallel(name: str, one: Stat, other: Stat) -> Stat:
    """Combine two subjects in the same interval: for gauges their distribution, for counters the sum.

    `last` is the mean of the last values of gauges.
    """
    count, kind = one.seconds + other.seconds, kind_of(name)
    if kind is MeasureKind.COUNTER:
        return Stat(count, one.mean + other.mean, one.low + other.low, one.high + other.high,
                    one.last + other.last)  # fmt: skip
    if kind is MeasureKind.STATE:
        bits = float(int(one.high) | int(other.high))
        return Stat(count, bits, 0.0, bits, bits)
    mean = (one.mean * one.seconds + other.mean * other.seconds) / count
    last = (one.last * one.seconds + other.last * other.seconds) / count
    return Stat(count, mean, min(one.low, other.low), max(one.high, other.high), last)


def add_following(into: Stats, more: Mapping[str, Stat]) -> None:
    """Append an interval to those before it."""
    for name, stat in more.items():
        known = into.get(name)
        into[name] = stat if known is None else merge_following(name, known, stat)


def add_beside(into: Stats, more: Mapping[str, Stat]) -> None:
    """Add another subject's statistics of the same interval."""
    for name, stat in more.items():
        known = into.get(name)
        into[name] = stat if known is None else merge_parallel(name, known, stat)


def stats_of(readings: Iterable[Mapping[str, float]], interval_ms: int = 15_000) -> Stats:
    """Return the statistics of readings of one series, in order of time, each of the same interval."""
    found: Stats = {}
    for values in readings:
        add_following(found, {name: first_stat(name, value, interval_ms) for name, value in values.items()})
    return found


_HEADER: Final = struct.Struct("<QQQI")


@cache
def _stat_layout(bits: int, same: int, uneven: int) -> tuple[tuple[int, ...], struct.Struct]:
    numbers = tuple(number for number in range(len(MEASURES)) if bits >> number & 1)
    form = ""
    for number in numbers:
        size = "f" if _KINDS[number] is MeasureKind.GAUGE else "d"
        form += "I" * (uneven >> number & 1) + size * (1 if same >> number & 1 else 4)
    return numbers, struct.Struct("<" + form)


def _unchanged(kind: MeasureKind, stat: Stat) -> bool:
    if kind is MeasureKind.COUNTER:
        return stat.mean == 0 and stat.low == stat.high == stat.last
    return stat.mean == stat.high == stat.last and (stat.low == stat.last or kind is MeasureKind.STATE)


def pack_stats(stats: Mapping[str, Stat]) -> bytes | None:
    """Pack statistics; one value for a measure that did not change. None without statistics."""
    if not stats:
        return None
    common = max(stat.seconds for stat in stats.values())
    bits = same = uneven = 0
    fields: list[float] = []
    for name in sorted(stats, key=_NUMBER.__getitem__):
        number, stat = _NUMBER[name], stats[name]
        bits |= 1 << number
        if stat.seconds != common:
            uneven |= 1 << number
            fields.append(stat.seconds)
        if _unchanged(_KINDS[number], stat):
            same |= 1 << number
            fields.append(stat.last)
        else:
            fields += stat[1:]
    return _HEADER.pack(bits, same, uneven, common) + _stat_layout(bits, same, uneven)[1].pack(*fields)


def unpack_stats(packed: bytes | memoryview | None) -> Stats:
    """Return the statistics that `pack_stats` packed."""
    if packed is None:
        return {}
    bits, same, uneven, common = _HEADER.unpack_from(packed, 0)
    numbers, form = _stat_layout(bits, same, uneven)
    fields = iter(form.unpack_from(packed, _HEADER.size))
    found: Stats = {}
    for number in numbers:
        count = int(next(fields)) if uneven >> number & 1 else common
        if same >> number & 1:
            found[_NAMES[number]] = first_stat(_NAMES[number], next(fields), 1000 * count)
        else:
            found[_NAMES[number]] = Stat(count, next(fields), next(fields), next(fields), next(fields))
    return found
