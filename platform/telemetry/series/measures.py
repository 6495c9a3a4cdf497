"""Series of any measure of the catalogue, at every level, in groups.

Of a thing with several GPUs or slices the statistics are over all of them: the mean utilization of a pool is
that of its GPUs, its maximum that of the busiest. Totals and allocation are lines of `cluster_series` and the
like; here every line is one measure.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Q
from django.utils.translation import gettext as _

from clusters.gpu.measures import BY_NAME, MeasureKind
from clusters.models import Device, Node
from foundation.core.actor import Actor
from foundation.core.errors import FieldError, Invalid
from telemetry.models import Channel, Reading, Rolled, Scope
from telemetry.series.gaps import gaps_in
from telemetry.series.sight import MeasuredThing, require_sight
from telemetry.series.sources import sources_of
from telemetry.series.types import Series, SeriesSet
from telemetry.series.window import MAX_POINTS, POINTS, Window, window_of
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
from tenants.models import Tenant

STATISTICS: Final = ("mean", "min", "max", "last", "increase")
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
    MeasureKind.STATE: ("last",),
}
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
class _ChannelGroup:
    """One line to be: channels whose roll-ups make it up, and those whose readings do where these end."""

    subject: str
    label: str
    rolled: set[int] = field(default_factory=set)
    fine: set[int] = field(default_factory=set)


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
    points: int = POINTS,
) -> SeriesSet:
    """Return a line per measure and group of what the viewer may see; at most 64 groups.

    Without a statistic gauges are means, counters what they increased by, and states the last value.
    Raises: PermissionDenied and NotFound as `require_sight`; Invalid for a bad range, and for a statistic
    that a measure does not have.
    """
    require_sight(viewer, thing)
    chosen = {name: _statistic(name, statistic) for name in measures}
    parts = any(BY_NAME[name].kind is MeasureKind.COUNTER for name in measures)
    groups, clusters = _groups(thing, group_by, _rolled_scope(thing, group_by, parts=parts))
    shown = groups[:MAX_LINES]
    window = _bounded(
        window_of(start, end, step, retention=READING_RETENTION, points=points),
        sum(len(g.rolled) for g in shown),
    )
    found = _read(window, shown, measures)
    lines = [
        Series(
            name,
            group.label or name,
            BY_NAME[name].unit or "count",
            tuple(
                (at, _value(found[number].get(bucket, {}).get(name), stat))
                for bucket, at in window.bucket_times()
            ),
            group.subject,
        )
        for name, stat in chosen.items()
        for number, group in enumerate(shown)
    ]
    omitted = (len(groups) - len(shown)) * len(chosen)
    gaps = gaps_in(window, clusters)
    return SeriesSet(window.start, window.end, window.step_ms // 1000, tuple(lines), gaps, omitted)


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
    fields = {"mean": stat.mean, "increase": stat.mean, "min": stat.low, "max": stat.high, "last": stat.last}
    return fields[statistic]


def _bounded(window: Window, channels: int) -> Window:
    """Read whole minutes at least, and coarser roll-ups where there would be too many to unpack."""
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


def _groups(
    thing: MeasuredThing, group_by: str | None, rolled: Scope
) -> tuple[list[_ChannelGroup], list[uuid.UUID] | None]:
    """Return the groups in the order of their labels, and the clusters whose gaps concern them."""
    rows = _channels(thing, rolled)
    keyed = _subjects(rows, group_by)
    groups: dict[str, _ChannelGroup] = {}
    for row in rows:
        subject, label = keyed(row)
        group = groups.setdefault(subject, _ChannelGroup(subject, label))
        if row.scope == rolled:
            group.rolled.add(row.pk)
        if row.scope in (Scope.CARD, Scope.SLICE):
            group.fine.add(row.pk)
    ordered = sorted(groups.values(), key=lambda group: (group.label, group.subject))
    every = thing.level == "cluster" and thing.pk is None
    return ordered, None if every else sorted({row.cluster_id for row in rows})


def _rolled_scope(thing: MeasuredThing, group_by: str | None, *, parts: bool) -> Scope:
    """Return the scope whose roll-ups are read; `parts` for counters: roll-ups of several have
    none, because a GPU that comes or goes would look like one that began anew."""
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


def _subjects(rows: Sequence[Channel], group_by: str | None) -> Any:
    """Return what gives the subject and label of a channel's group."""
    names: dict[Any, str]
    if group_by in ("node", "pool"):
        column = "name" if group_by == "node" else "flavor__name"
        nodes = Node.unscoped.filter(pk__in={row.node_id for row in rows})
        names = dict(nodes.values_list("pk", column))
        if group_by == "pool":
            pools = dict(nodes.values_list("pk", "flavor_id"))
            return lambda row: (str(pools.get(row.node_id) or ""), names.get(row.node_id) or "?")
        return lambda row: (str(row.node_id), names.get(row.node_id, "?"))
    if group_by == "workspace":
        names = dict(
            Tenant.unscoped.filter(pk__in={row.workspace_id for row in rows}).values_list("pk", "slug")
        )
        return lambda row: (str(row.workspace_id), names.get(row.workspace_id, "?"))
    if group_by == "gpu":
        devices = Device.unscoped.filter(pk__in={row.device_id for row in rows})
        names = {
            pk: f"{node} · GPU {index:03d}"
            for pk, node, index in devices.values_list("pk", "node__name", "index")
        }
        return lambda row: (str(row.device_id), names.get(row.device_id, "?").replace("GPU 00", "GPU "))
    if group_by == "job":
        return lambda row: (str(row.job_id), str(row.job_id))
    return lambda row: ("", "")


def _read(window: Window, groups: Sequence[_ChannelGroup], measures: Sequence[str]) -> list[Buckets]:
    """Return the statistics of each group by bucket."""
    found: list[Buckets] = [{} for _ in groups]
    last: dict[tuple[int, str], Stat] = {}
    for source, since_ms, until_ms in sources_of(window, Reading):
        rolled = issubclass(source, Rolled)
        wanted = {pk for group in groups for pk in (group.rolled if rolled else group.fine)}
        by_channel = _of_channels(source, wanted, window, since_ms, until_ms, measures, last)
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
    source: Any,
    channels: set[int],
    window: Window,
    since_ms: int,
    until_ms: int,
    measures: Sequence[str],
    last: dict[tuple[int, str], Stat],
) -> dict[int, Buckets]:
    """Fold the rows of each channel into buckets. What a counter grew by between two buckets belongs to the
    later one; `last` holds what it was before."""
    found: dict[int, Buckets] = {}
    for channel, at_ms, stats in _rows(source, channels, since_ms, until_ms, measures):
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
    source: Any, channels: set[int], since_ms: int, until_ms: int, measures: Sequence[str]
) -> Iterator[tuple[int, int, Stats]]:
    span = source.unscoped.filter(channel__in=channels, at_ms__gte=since_ms, at_ms__lt=until_ms)
    ordered = span.order_by("at_ms")
    if issubclass(source, Rolled):
        for channel, at_ms, packed in ordered.values_list("channel_id", "at_ms", "values"):
            stats = unpack_stats(packed)
            yield channel, at_ms, {name: stats[name] for name in measures if name in stats}
        return
    for channel, at_ms, use, memory, heat, power, packed, interval in ordered.values_list(*_COLUMNS):
        values: dict[str, float | None] = {
            **unpack_values(packed), "utilization_percent": use, "memory_used_mib": memory,
            "temperature_c": heat, "power_w": power,
        }  # fmt: skip
        known = {name: values.get(name) for name in measures}
        yield channel, at_ms, {n: first_stat(n, v, interval) for n, v in known.items() if v is not None}
