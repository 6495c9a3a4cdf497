"""Adds values that the platform's own store lacks from the Prometheus server of a cluster, if it has one.

Only buckets without a reading are requested, so that nothing counts twice; what that server lacks as well
stays a gap. A pod is read only for the time of its allocation, because the GPU's use before and after is not
its own.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.models import Device
from foundation.core import clock
from scheduling.models import DeviceSlice
from telemetry.models import Channel, Scope
from telemetry.series.windows.buckets import Buckets
from telemetry.series.windows.window import Window
from telemetry.sources import history
from telemetry.sources.fetch import SourceFailed
from telemetry.sources.history import PrometheusHistory, SliceKey
from telemetry.store.times import to_ms

_MEASURES: Final = {
    "cores_used": "utilization_percent",
    "memory_used_mib": "memory_used_mib",
    "temperature_c": "temperature_c",
    "power_w": "power_w",
}
_OF_SLICES: Final = ("cores_used", "memory_used_mib")
_SETTLED_MS: Final = 120_000
"""A bucket that ended more recently may still get its readings."""


@dataclass(frozen=True, slots=True)
class _PastHold:
    """The allocation of a slice: percent points and MiB of a GPU, and its start and end."""

    key: SliceKey
    cores: int
    memory_mib: int
    exclusive: bool
    since_ms: int
    until_ms: int


def fill_from_history(window: Window, channels: Sequence[Channel], means: Buckets) -> None:
    """Add to `means` of cards and slices a Prometheus server's values for empty buckets."""
    by_cluster: dict[uuid.UUID, list[Channel]] = defaultdict(list)
    for channel in channels:
        if channel.scope in (Scope.CARD, Scope.SLICE) and _empty(window, means, channel):
            by_cluster[channel.cluster_id].append(channel)
    for cluster_id, of_cluster in by_cluster.items():
        server = history.history_of(cluster_id)
        if server is None:
            continue
        try:
            _fill_cards(server, window, [c for c in of_cluster if c.scope == Scope.CARD], means)
            _fill_slices(server, window, [c for c in of_cluster if c.scope == Scope.SLICE], means)
        except SourceFailed as failed:
            history.rest_server(server, failed)


def read_measures(
    window: Window, channels: Sequence[Channel], measures: Sequence[str]
) -> dict[int, dict[int, dict[str, float]]]:
    """Return the means of GPUs from Prometheus servers, by channel id, past bucket and measure."""
    by_cluster: dict[uuid.UUID, list[Channel]] = defaultdict(list)
    for channel in channels:
        by_cluster[channel.cluster_id].append(channel)
    last, found = _first_open(window), {}
    for cluster_id, of_cluster in by_cluster.items():
        server = history.history_of(cluster_id)
        if server is None:
            continue
        try:
            known = _read_measures(server, window, of_cluster, measures)
        except SourceFailed as failed:
            history.rest_server(server, failed)
            continue
        for pk, buckets in known.items():
            found[pk] = {bucket: values for bucket, values in buckets.items() if bucket < last}
    return found


def _read_measures(
    server: PrometheusHistory, window: Window, channels: Sequence[Channel], measures: Sequence[str]
) -> Buckets:
    wanted = _name_devices(channels)
    found: Buckets = {}
    for measure in measures:
        means = server.device_means(measure, wanted.values(), _range(window))
        for channel, device in wanted.items():
            for bucket, value in _buckets(means.get(device, {}), window):
                _cell(found, channel, bucket)[measure] = value
    return found


def _name_devices(channels: Sequence[Channel]) -> dict[Channel, str]:
    """Return the UUIDs of the GPUs of channels, as exporters name them."""
    ids = {channel.device_id for channel in channels if channel.device_id is not None}
    uuids = {d.pk: d.gpu_uuid for d in Device.unscoped.filter(pk__in=ids)} if ids else {}
    return {c: uuids[c.device_id] for c in channels if c.device_id is not None and c.device_id in uuids}


def _first_open(window: Window) -> int:
    """Return the first bucket that may still get readings."""
    return min(window.until_ms, to_ms(clock.now()) - _SETTLED_MS) // window.step_ms


def _empty(window: Window, means: Buckets, channel: Channel) -> list[int]:
    """Return the past buckets of a channel without a reading."""
    known = means.get(channel.pk, {})
    return [bucket for bucket in range(window.first, _first_open(window)) if bucket not in known]


def _range(window: Window) -> history.Buckets:
    return history.Buckets(window.from_ms, window.until_ms, window.step_ms)


def _fill_cards(
    server: PrometheusHistory, window: Window, channels: Sequence[Channel], means: Buckets
) -> None:
    wanted = _name_devices(channels)
    empty = {channel: set(_empty(window, means, channel)) for channel in wanted}
    for column, measure in _MEASURES.items():
        found = server.device_means(measure, wanted.values(), _range(window)) if wanted else {}
        for channel, device in wanted.items():
            for bucket, value in _buckets(found.get(device, {}), window):
                if bucket in empty[channel]:
                    _cell(means, channel, bucket)[column] = value


def _fill_slices(
    server: PrometheusHistory, window: Window, channels: Sequence[Channel], means: Buckets
) -> None:
    holds = _load_holds(channels)
    wanted = {channel: holds[channel.pk] for channel in channels if channel.pk in holds}
    shared = {hold.key for hold in wanted.values() if not hold.exclusive}
    whole = {hold.key[0] for hold in wanted.values() if hold.exclusive}
    empty = {channel: set(_empty(window, means, channel)) for channel in wanted}
    for column in _OF_SLICES:
        of_pods = server.slice_means(_MEASURES[column], shared, _range(window)) if shared else {}
        of_cards = server.device_means(_MEASURES[column], whole, _range(window)) if whole else {}
        for channel, hold in wanted.items():
            found = of_cards.get(hold.key[0], {}) if hold.exclusive else of_pods.get(hold.key, {})
            for bucket, value in _buckets(found, window):
                start_ms = bucket * window.step_ms
                inside = hold.since_ms <= start_ms and start_ms + window.step_ms <= hold.until_ms
                if inside and bucket in empty[channel]:
                    cell = _cell(means, channel, bucket)
                    cell[column] = value
                    cell["cores_allocated"] = hold.cores
                    cell["memory_allocated_mib"] = hold.memory_mib


def _load_holds(channels: Sequence[Channel]) -> dict[int, _PastHold]:
    """Return the holds of slices by the id of their channel."""
    if not channels:
        return {}
    by_hold = {(channel.allocation_id, channel.device_id): channel.pk for channel in channels}
    rows = DeviceSlice.unscoped.filter(
        allocation__in={channel.allocation_id for channel in channels}
    ).select_related("allocation", "device")
    now_ms, found = to_ms(clock.now()), {}
    for row in rows:
        pk = by_hold.get((row.allocation_id, row.device_id))
        held = row.allocation
        if pk is not None:
            found[pk] = _PastHold(
                (row.device.gpu_uuid, held.namespace, held.pod_name),
                row.cores,
                row.memory_mib,
                row.exclusive,
                to_ms(held.created_at),
                to_ms(held.released_at) if held.released_at else now_ms,
            )
    return found


def _buckets(found: Mapping[int, float], window: Window) -> Iterable[tuple[int, float]]:
    return ((start_ms // window.step_ms, value) for start_ms, value in found.items())


def _cell(means: Buckets, channel: Channel, bucket: int) -> dict[str, float]:
    return means.setdefault(channel.pk, {}).setdefault(bucket, {})
