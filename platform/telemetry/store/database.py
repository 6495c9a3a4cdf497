"""Stores samples in the platform's own database.

One batch of samples becomes readings per card and per pod, and one tick per node, per workspace and for the
cluster. The number of queries does not depend on the number of samples (rows are inserted in as many
statements as the database's limit on parameters requires).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final

import structlog
from django.db import transaction

from clusters.backends.base import DeviceSample
from telemetry.models import Channel, Reading, Scope, Tick
from telemetry.store.channels import resolve_channels
from telemetry.store.holdings import Holdings, load_holdings
from telemetry.store.matching import ChannelKey, Draft, Matched, card_key, match_samples
from telemetry.store.pending import mark_pending
from telemetry.store.ticks import CardValues, slice_card, tick_rows, workspace_rows
from telemetry.store.times import MINUTE_MS, TICK_MS, floor_ms

log = structlog.get_logger(__name__)

_NAMED: Final = 5  # how many unknown names a log line contains

_TICK_FIELDS: Final = [
    field.name for field in Tick._meta.concrete_fields if field.name not in ("id", "channel", "at_ms")
]


class DatabaseSink:
    """A `SampleSink` that writes to the platform's database."""

    def write(self, cluster_id: str, samples: Iterable[DeviceSample]) -> int:
        """Store samples and return how many were new.

        Idempotent per card or slice and time: a stored reading is left as it is. Samples of unknown cards and
        pods are counted in one log line and dropped.
        """
        cluster = uuid.UUID(cluster_id)
        holdings = load_holdings(cluster)
        found = match_samples(holdings, samples)
        _report(cluster_id, found)
        if not found.drafts:
            return 0
        # Before the transaction: creating channels is safe by itself, and on SQLite a transaction blocks all
        # other writers.
        channels = resolve_channels(cluster, _keys(cluster, holdings, found), found.holds)
        with transaction.atomic():
            # Two writers of one cluster run one after the other: each then includes the other's readings in
            # its sums.
            Channel.unscoped.select_for_update().get(pk=channels[Scope.CLUSTER, cluster, None])
            return _store(cluster, holdings, found, channels)


def _keys(cluster: uuid.UUID, holdings: Holdings, found: Matched) -> list[ChannelKey]:
    nodes = dict.fromkeys(card.node_id for card in holdings.cards.values())
    keys: list[ChannelKey] = [(Scope.CLUSTER, cluster, None)]
    keys += [(Scope.NODE, node_id, None) for node_id in nodes]
    keys += [card_key(card) for card in holdings.cards.values()]
    keys += [(Scope.WORKSPACE, hold.workspace_id, None) for hold in holdings.holds.values()]
    keys += list(found.holds)
    return keys


def _report(cluster_id: str, found: Matched) -> None:
    if found.unknown_devices or found.unknown_pods:
        log.warning(
            "samples_of_strangers",
            cluster=cluster_id,
            devices=len(found.unknown_devices),
            pods=len(found.unknown_pods),
            examples=sorted(found.unknown_devices | found.unknown_pods)[:_NAMED],
        )


def _store(cluster: uuid.UUID, holdings: Holdings, found: Matched, channels: dict[ChannelKey, int]) -> int:
    slots = sorted({floor_ms(at_ms, TICK_MS) for _, at_ms in found.drafts})
    stored = _stored(cluster, slots)
    new = [
        draft
        for draft in found.drafts.values()
        if draft.key in channels and (channels[draft.key], draft.at_ms) not in stored
    ]
    if not new:
        return 0
    Reading.unscoped.bulk_create([new_reading(draft, channels) for draft in new], ignore_conflicts=True)
    by_channel = {channels[key]: key for key in channels if key[0] in (Scope.CARD, Scope.SLICE)}
    stored.update({(channels[d.key], d.at_ms): _values(d) for d in new})
    rows: list[Tick] = []
    for slot in sorted({floor_ms(draft.at_ms, TICK_MS) for draft in new}):
        values = _latest(stored, by_channel, slot)
        rows += tick_rows(cluster, slot, holdings.cards.values(), values, channels)
        slices = (
            (hold.workspace_id, slice_card(hold), values.get((hold.allocation_id, hold.device_id)))
            for hold in holdings.holds.values()
        )
        rows += workspace_rows(slot, slices, channels)
    # The allocation in a slot is that of the ledger when the slot's last new reading arrived.
    Tick.unscoped.bulk_create(
        rows, update_conflicts=True, unique_fields=["channel", "at_ms"], update_fields=_TICK_FIELDS
    )
    mark_pending(cluster, MINUTE_MS, (floor_ms(draft.at_ms, MINUTE_MS) for draft in new))
    return len(new)


def _stored(cluster: uuid.UUID, slots: list[int]) -> dict[tuple[int, int], CardValues]:
    rows = Reading.unscoped.filter(
        at_ms__gte=slots[0], at_ms__lt=slots[-1] + TICK_MS, channel__cluster_id=cluster
    ).values_list("channel_id", "at_ms", "cores_used", "memory_used_mib", "temperature_c", "power_w")
    return {(row[0], row[1]): CardValues(*row[2:]) for row in rows}


def new_reading(draft: Draft, channels: Mapping[ChannelKey, int]) -> Reading:
    """Return the row of a draft, not yet stored."""
    return Reading(
        channel_id=channels[draft.key],
        at_ms=draft.at_ms,
        cores_used=draft.cores_used,
        cores_allocated=draft.cores_allocated,
        memory_used_mib=draft.memory_used_mib,
        memory_allocated_mib=draft.memory_allocated_mib,
        temperature_c=draft.temperature_c,
        power_w=draft.power_w,
        values=draft.values,
        interval_ms=draft.interval_ms,
    )


def _values(draft: Draft) -> CardValues:
    return CardValues(draft.cores_used, draft.memory_used_mib, draft.temperature_c, draft.power_w)


def _latest(
    stored: dict[tuple[int, int], CardValues], by_channel: dict[int, ChannelKey], slot: int
) -> dict[tuple[uuid.UUID, uuid.UUID], CardValues]:
    """Return the values in one slot, of cards by node and device and of slices by allocation and device. Of
    two readings within ten seconds the later one counts."""
    latest: dict[tuple[uuid.UUID, uuid.UUID], CardValues] = {}
    for (channel, at_ms), values in sorted(stored.items(), key=lambda item: (item[0][1], item[0][0])):
        key = by_channel.get(channel)
        if key is not None and key[2] is not None and slot <= at_ms < slot + TICK_MS:
            latest[key[1], key[2]] = values
    return latest
