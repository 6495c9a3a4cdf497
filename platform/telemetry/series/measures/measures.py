"""Series of any measure of the catalogue, at every level, in groups.

For a subject with several GPUs or slices the statistics are over all of them: the mean utilization of a pool
is that of its GPUs, its maximum that of the busiest. For a job, measures of GPUs without slices are those of
the GPUs that it holds as a whole. Totals and allocation are lines of `cluster_series` and the like; here
every line is one measure.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Q
from django.utils.translation import gettext as _

from clusters.gpu.measures import BY_NAME, MeasureKind
from foundation.core.actor import Actor
from foundation.core.errors import FieldError, Invalid
from telemetry.models import Channel, Reading, Rolled, Scope
from telemetry.series.measures.channel_groups import ChannelGroup, group_channels
from telemetry.series.measures.whole_gpus import HeldSpan, find_whole_gpus, is_of_whole_gpus, is_within
from telemetry.series.readings.sight import MeasuredThing, require_sight
from telemetry.series.windows.gaps import gaps_in
from telemetry.series.windows.history import read_measures
from telemetry.series.windows.sources import GRAIN_OF, sources_of
from telemetry.series.windows.types import Series, SeriesSet
from telemetry.series.windows.window import MAX_POINTS, POINTS, Window, window_of
from telemetry.store.packing import (
    Stat,
    Stats,
    add_beside,
    add_following,
    first_stat,
    merge_following,
    unpack_stats,
    unpack_values,
)
from telemetry.store.times import GRAINS_MS, MINUTE_MS, READING_RETENTION

STATISTICS: Final = ("mean", "min", "max", "last", "increase", "seen")
GROUPS: Final = ("node", "pool", "workspace", "gpu", "job")
ALLOWED_GROUPS: Final = {
    "cluster": ("node", "pool", "workspace", "gpu"),
    "node": ("gpu",),
    "gpu": (),
    "workspace": ("gpu", "job"),
    "job": ("gpu",),
}
_OF_KIND: Final = {
    MeasureKind.GAUGE: ("mean", "min", "max", "last"),
    MeasureKind.COUNTER: ("increase", "last"),
    MeasureKind.STATE: ("last", "seen"),
}
_ENERGY: Final = ("energy_j", "increase")
_POWER: Final = "power_w"
"""The measure from which energy is estimated if a source has no counter of energy."""
MAX_LINES: Final = 64
_MOST_ROWS: Final = 60_000
_LEVEL_SCOPE: Final = {"cluster": Scope.CLUSTER, "node": Scope.NODE, "workspace": Scope.WORKSPACE}
_COLUMNS: Final = (
    "channel_id",
    "at_ms",
    "cores_used",
    "memory_used_mib",
    "temperature_c",
    "power_w",
    "values",
    "interval_ms",
)
Buckets = dict[int, Stats]


@dataclass(slots=True)
class _Part:
    """Measures that are read from the same channels, each with its statistic.

    `held`: the spans of time in which rows of each channel count; None for all of it. `cards`: the channels
    of GPUs for which a Prometheus server may have missing values.
    """

    chosen: dict[str, str]
    groups: list[ChannelGroup]
    omitted: int
    clusters: list[uuid.UUID] | None
    held: dict[int, Sequence[HeldSpan]] | None = None
    cards: Sequence[Channel] = ()


def measure_series(
    viewer: Actor,
    thing: MeasuredThing,
    measures: Sequence[str],
    start: datetime,
    end: datetime,
    step: int | None = None,
    *,
    statistic: str | None = None,
    group_by: str | None = None,
    gpu: uuid.UUID | None = None,
    points: int = POINTS,
) -> SeriesSet:
    """Return a line per measure and group that the viewer may see; at most 64 groups.

    Without a statistic gauges are means, counters their increase, and states the last value; `seen` are the
    bits of a state that were set at any time. Energy without a counter is estimated from power. `gpu`: only
    that one of a job's GPUs.
    Raises: PermissionDenied and NotFound as `require_sight`; Invalid for a bad range, and for a statistic
    that a measure does not have.
    """
    require_sight(viewer, thing)
    chosen = {name: _statistic(name, statistic) for name in measures}
    parts = _parts(thing, group_by, chosen, gpu)
    window = _bounded(
        window_of(start, end, step, retention=READING_RETENTION, points=points),
        sum(len(group.rolled) for part in parts for group in part.groups),
    )
    lines = [line for part in parts for line in _part_series(window, part)]
    omitted = sum(part.omitted for part in parts)
    named = [part.clusters for part in parts if part.clusters is not None]
    gaps = gaps_in(window, sorted({pk for of in named for pk in of}) if named else None)
    return SeriesSet(window.start, window.end, window.step_ms // 1000, tuple(lines), gaps, omitted)


def _parts(
    thing: MeasuredThing, group_by: str | None, chosen: dict[str, str], gpu: uuid.UUID | None
) -> list[_Part]:
    """Return the measures by the channels they are read from: a job's whole GPUs separately from others."""
    of_gpus = {n: stat for n, stat in chosen.items() if thing.level == "job" and is_of_whole_gpus(n)}
    found = []
    if others := {name: stat for name, stat in chosen.items() if name not in of_gpus}:
        counted = any(BY_NAME[name].kind is MeasureKind.COUNTER for name in others)
        rolled = _rolled_scope(thing, group_by, parts=counted)
        rows = [row for row in _channels(thing, rolled) if gpu in (None, row.device_id)]
        part = _part(others, group_by, rows, rolled)
        part.cards = rows if thing.level == "gpu" else ()
        found.append(part)
    if of_gpus and thing.pk is not None:
        spans = {pk: held for pk, held in find_whole_gpus(thing.pk).items() if gpu in (None, pk)}
        rows = list(Channel.unscoped.filter(scope=Scope.CARD, device_id__in=list(spans)).order_by("id"))
        part = _part(of_gpus, group_by, rows, Scope.CARD)
        part.held = {row.pk: spans[row.device_id] for row in rows if row.device_id is not None}
        part.cards = rows
        found.append(part)
    every = thing.level == "cluster" and thing.pk is None
    for part in found:
        part.clusters = None if every else part.clusters
    return found


def _part(chosen: dict[str, str], group_by: str | None, rows: list[Channel], rolled: Scope) -> _Part:
    groups = group_channels(rows, group_by, rolled)
    if not groups and group_by is None:
        groups = [ChannelGroup("", "")]  # a line without values instead of no line
    shown = groups[:MAX_LINES]
    clusters = sorted({row.cluster_id for row in rows})
    return _Part(chosen, shown, (len(groups) - len(shown)) * len(chosen), clusters)


def _part_series(window: Window, part: _Part) -> list[Series]:
    found = _read(window, part)
    _fill(window, part, found)
    return [
        _line(window, group, found[number], name, stat)
        for name, stat in part.chosen.items()
        for number, group in enumerate(part.groups)
    ]


def _line(window: Window, group: ChannelGroup, buckets: Buckets, name: str, stat: str) -> Series:
    points, estimated = [], False
    for bucket, at in window.bucket_times():
        stats = buckets.get(bucket, {})
        value = _value(stats.get(name), stat)
        if value is None and (name, stat) == _ENERGY and (power := stats.get(_POWER)) is not None:
            # The energy consumed while power was measured.
            value, estimated = power.mean * power.seconds, True
        points.append((at, value))
    unit = BY_NAME[name].unit or "count"
    return Series(name, group.label or name, unit, tuple(points), group.subject, estimated)


def _fill(window: Window, part: _Part, found: list[Buckets]) -> None:
    """Add a Prometheus server's means for GPUs to buckets without a reading."""
    gauges = [name for name, stat in part.chosen.items() if stat == "mean"]
    every = range(window.first, window.last + 1)
    if not gauges or not part.cards or all(bucket in buckets for buckets in found for bucket in every):
        return
    known = read_measures(window, part.cards, gauges)
    for group, buckets in zip(part.groups, found, strict=True):
        for bucket in [bucket for bucket in every if bucket not in buckets]:
            span = bucket * window.step_ms, (bucket + 1) * window.step_ms
            here = [
                known[pk][bucket]
                for pk in group.fine
                if bucket in known.get(pk, {}) and (part.held is None or is_within(part.held[pk], *span))
            ]
            for values in here:
                stats = {n: first_stat(n, value, window.step_ms) for n, value in values.items()}
                add_beside(buckets.setdefault(bucket, {}), stats)


def _statistic(name: str, wanted: str | None) -> str:
    has = _OF_KIND[BY_NAME[name].kind]
    if wanted is None:
        return has[0]
    if wanted not in has:
        message = _("Statistic not available for %(measure)s. Available: %(known)s") % {
            "measure": name,
            "known": ", ".join(has),
        }
        raise Invalid(message, errors=[FieldError("statistic", "CHOICE", message)])
    return wanted


def _value(stat: Stat | None, statistic: str) -> float | None:
    if stat is None:
        return None
    return {
        "mean": stat.mean, "increase": stat.mean, "min": stat.low, "max": stat.high, "seen": stat.high,
        "last": stat.last,
    }[statistic]  # fmt: skip


def _bounded(window: Window, channels: int) -> Window:
    """Return a window of whole minutes at least, with coarser roll-ups if there are too many to unpack."""
    grains = [grain for grain in GRAINS_MS if grain >= max(window.grain_ms, MINUTE_MS)]
    for grain_ms in grains:
        many = channels * (window.until_ms - window.from_ms) // grain_ms
        if many <= _MOST_ROWS or grain_ms == grains[-1]:
            step_ms = -(-window.step_ms // grain_ms) * grain_ms
            first = window.from_ms // step_ms
            begin = replace(window, step_ms=step_ms, grain_ms=grain_ms)
            if many > 4 * _MOST_ROWS or begin.last - first > 2 * MAX_POINTS:
                break
            return begin
    raise Invalid(_("Too much data. Select a shorter range or fewer GPUs."))


def _rolled_scope(thing: MeasuredThing, group_by: str | None, *, parts: bool) -> Scope:
    """Return the scope whose roll-ups are read; `parts` for counters: roll-ups of several GPUs have no
    counters, because a GPU that appears or disappears would look like a counter that restarted."""
    if parts:
        return Scope.SLICE if thing.level in ("job", "workspace") or group_by == "workspace" else Scope.CARD
    if group_by in ("gpu", "job") or thing.level in ("gpu", "job"):
        return Scope.SLICE if thing.level in ("job", "workspace") else Scope.CARD
    if group_by in ("node", "pool"):
        return Scope.NODE
    return Scope.WORKSPACE if group_by == "workspace" else _LEVEL_SCOPE[thing.level]


def _channels(thing: MeasuredThing, rolled: Scope) -> list[Channel]:
    slices = rolled in (Scope.SLICE, Scope.WORKSPACE)
    rows = Channel.unscoped.filter(scope__in={rolled, Scope.SLICE if slices else Scope.CARD})
    if thing.pk is not None:
        column = {
            "cluster": "cluster_id", "node": "node_id", "gpu": "device_id", "workspace": "workspace_id",
            "job": "job_id",
        }[thing.level]  # fmt: skip
        rows = rows.filter(**{column: thing.pk})
    if thing.level == "node" and rolled == Scope.NODE:
        rows = rows.filter(Q(scope=Scope.CARD) | Q(device_id__isnull=True))
    return list(rows.order_by("id"))


def _read(window: Window, part: _Part) -> list[Buckets]:
    """Return the statistics of each group by bucket."""
    groups, measures = part.groups, list(part.chosen)
    if _ENERGY in part.chosen.items() and _POWER not in measures:
        measures.append(_POWER)
    found: list[Buckets] = [{} for _ in groups]
    last: dict[tuple[int, str], Stat] = {}
    for source, since_ms, until_ms in sources_of(window, Reading):
        rolled = issubclass(source, Rolled)
        wanted = {pk for group in groups for pk in (group.rolled if rolled else group.fine)}
        rows = _rows(source, wanted, since_ms, until_ms, measures, part.held)
        by_channel = _of_channels(rows, window, last)
        for number, group in enumerate(groups):
            for bucket, stats in _together(by_channel, group.rolled if rolled else group.fine).items():
                add_following(found[number].setdefault(bucket, {}), stats)
    return found


def _together(by_channel: dict[int, Buckets], channels: Iterable[int]) -> Buckets:
    merged: Buckets = {}
    for channel in channels:
        for bucket, stats in by_channel.get(channel, {}).items():
            add_beside(merged.setdefault(bucket, {}), stats)
    return merged


def _of_channels(
    rows: Iterable[tuple[int, int, Stats]], window: Window, last: dict[tuple[int, str], Stat]
) -> dict[int, Buckets]:
    """Fold the rows of each channel into buckets. The increase of a counter between two buckets belongs to
    the later one; `last` holds its value before."""
    found: dict[int, Buckets] = {}
    for channel, at_ms, stats in rows:
        bucket = at_ms // window.step_ms
        into = found.setdefault(channel, {}).setdefault(bucket, {})
        for name, stat in stats.items():
            before = into.get(name)
            earlier = last.get((channel, name))
            if before is not None:
                into[name] = merge_following(name, before, stat)
            elif earlier is not None and BY_NAME[name].kind is MeasureKind.COUNTER:
                whole = merge_following(name, earlier._replace(mean=0.0), stat)
                into[name] = stat._replace(mean=whole.mean)
            else:
                into[name] = stat
            last[channel, name] = stat
    return found


def _rows(
    source: Any,
    channels: set[int],
    since_ms: int,
    until_ms: int,
    measures: Sequence[str],
    held: dict[int, Sequence[HeldSpan]] | None,
) -> Iterator[tuple[int, int, Stats]]:
    """Yield the rows by time; with `held` only those that lie within its spans."""
    span = source.unscoped.filter(channel__in=channels, at_ms__gte=since_ms, at_ms__lt=until_ms)
    ordered = span.order_by("at_ms")
    if issubclass(source, Rolled):
        for channel, at_ms, packed in ordered.values_list("channel_id", "at_ms", "values"):
            if held is not None and not is_within(held[channel], at_ms, at_ms + GRAIN_OF[source]):
                continue
            stats = unpack_stats(packed)
            yield channel, at_ms, {name: stats[name] for name in measures if name in stats}
        return
    for channel, at_ms, use, memory, heat, power, packed, interval in ordered.values_list(*_COLUMNS):
        if held is not None and not is_within(held[channel], at_ms, at_ms + interval):
            continue
        values: dict[str, float | None] = {
            **unpack_values(packed), "utilization_percent": use, "memory_used_mib": memory,
            "temperature_c": heat, "power_w": power,
        }  # fmt: skip
        known = {name: values.get(name) for name in measures}
        yield channel, at_ms, {n: first_stat(n, v, interval) for n, v in known.items() if v is not None}
