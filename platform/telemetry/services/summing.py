"""Sums the readings that agents pushed into ticks of their cluster, its nodes and its workspaces.

A batch covers only one node, so the sums are made here and not when batches are stored. Summing again gives
the same rows, corrected after late readings.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from django.db.models import Max

from foundation.core import clock
from telemetry.models import PendingBucket, Reading, Scope, Tick
from telemetry.store.channels import resolve_channels
from telemetry.store.holdings import Card, HeldSlice
from telemetry.store.matching import ChannelKey
from telemetry.store.node_holds import NodeHolds, load_node_holds
from telemetry.store.ticks import CardValues, slice_card, tick_rows, workspace_rows
from telemetry.store.times import MINUTE_MS, SLOT_MS, floor_ms, to_ms

_LAG_MS: Final = 3_000
_LIVE_MS: Final = 45_000
_TICK_FIELDS: Final = [
    column.name for column in Tick._meta.concrete_fields if column.name not in ("id", "channel", "at_ms")
]


class _SummedRow(NamedTuple):
    scope: str
    node_id: uuid.UUID
    device_id: uuid.UUID
    allocation_id: uuid.UUID | None
    workspace_id: uuid.UUID | None
    channel_id: int
    at_ms: int
    interval_ms: int
    cores_allocated: int
    memory_allocated_mib: int
    cores_used: float | None
    memory_used_mib: int | None
    temperature_c: float | None
    power_w: float | None

    @property
    def values(self) -> CardValues:
        return CardValues(self.cores_used, self.memory_used_mib, self.temperature_c, self.power_w)

    def as_slice(self, hold: HeldSlice) -> tuple[uuid.UUID, Card, CardValues]:
        """Return the workspace, the amounts that the slice had at the reading, and the values read."""
        amounts = replace(
            slice_card(hold),
            cores_allocated=self.cores_allocated,
            memory_mib=self.memory_allocated_mib,
            memory_allocated_mib=self.memory_allocated_mib,
        )
        return hold.workspace_id, amounts, self.values

    def valid_in(self, slot: int) -> bool:
        """Return whether a reading counts for a slot: taken in it, or so late before it that the next is not
        overdue.
        """
        return slot + SLOT_MS - 1.5 * self.interval_ms < self.at_ms < slot + SLOT_MS


@dataclass(slots=True)
class _Slot:
    """The latest reading of each channel that counts for one slot."""

    at_ms: int
    latest: dict[int, _SummedRow] = field(default_factory=dict)

    def of_cards(self) -> dict[tuple[uuid.UUID, uuid.UUID], CardValues]:
        rows = (row for row in self.latest.values() if row.scope == Scope.CARD)
        return {(row.node_id, row.device_id): row.values for row in rows}


def sum_live() -> int:
    """Sum the slots that ended in the last 45 s, so that charts need not wait for the roll-up of a minute."""
    now = to_ms(clock.now()) - _LAG_MS
    until = floor_ms(now, SLOT_MS)
    since = floor_ms(until - _LIVE_MS, SLOT_MS)
    pending = PendingBucket.unscoped.filter(
        grain_ms=MINUTE_MS, sums=True, at_ms__gt=since - MINUTE_MS, at_ms__lt=until
    )
    clusters = pending.order_by().values_list("cluster_id", flat=True).distinct()
    return sum(sum_slots(cluster_id, since, until) for cluster_id in clusters)


def sum_slots(cluster_id: uuid.UUID, since_ms: int, until_ms: int) -> int:
    """Write the ticks of one cluster in that time, except for slots without readings; return their number."""
    slots = _slots(cluster_id, since_ms, until_ms)
    if not slots:
        return 0
    holds = load_node_holds(cluster_id, None, since_ms)
    keys: list[ChannelKey] = [(Scope.CLUSTER, cluster_id, None)]
    keys += [(Scope.NODE, node, None) for node in {card.node_id for card in holds.cards.values()}]
    slices = {slot.at_ms: _slices_at(slot, holds) for slot in slots}
    workspaces = {workspace for held in slices.values() for workspace, _card, _values in held}
    keys += [(Scope.WORKSPACE, workspace, None) for workspace in workspaces]
    channels = resolve_channels(cluster_id, keys, {})
    rows: list[Tick] = []
    for slot in slots:
        cards = _cards_at(holds, slot.at_ms)
        rows += tick_rows(cluster_id, slot.at_ms, cards, slot.of_cards(), channels)
        rows += workspace_rows(slot.at_ms, slices[slot.at_ms], channels)
    for row in rows:
        row.interval_ms = SLOT_MS
    Tick.unscoped.bulk_create(
        rows, update_conflicts=True, unique_fields=["channel", "at_ms"], update_fields=_TICK_FIELDS
    )
    return len(rows)


def _slots(cluster_id: uuid.UUID, since_ms: int, until_ms: int) -> list[_Slot]:
    window = Reading.unscoped.filter(at_ms__gte=since_ms - MINUTE_MS, at_ms__lt=until_ms)
    longest = window.filter(channel__cluster_id=cluster_id).aggregate(most=Max("interval_ms"))["most"] or 0
    first = since_ms + SLOT_MS - int(1.5 * longest)
    rows = Reading.unscoped.filter(
        at_ms__gte=min(first, since_ms),
        at_ms__lt=until_ms,
        channel__cluster_id=cluster_id,
        channel__scope__in=[Scope.CARD, Scope.SLICE],
    ).order_by("at_ms")
    of_channel = ("scope", "node_id", "device_id", "allocation_id", "workspace_id")
    columns = [f"channel__{name}" for name in of_channel] + list(_SummedRow._fields[len(of_channel) :])
    slots = [_Slot(at) for at in range(since_ms, until_ms, SLOT_MS)]
    for values in rows.values_list(*columns):
        row = _SummedRow(*values)
        # A reading may count for the slots after its own, until the next reading.
        number = max(0, (row.at_ms - since_ms) // SLOT_MS)
        for slot in slots[number:]:
            if row.valid_in(slot.at_ms):
                slot.latest[row.channel_id] = row
            elif slot.at_ms > row.at_ms:
                break
    return [slot for slot in slots if slot.latest]


def _cards_at(holds: NodeHolds, at_ms: int) -> Iterable[Card]:
    for card in holds.cards.values():
        allocated = holds.allocated_at(card, at_ms)
        yield replace(
            card,
            cores_allocated=allocated.cores,
            memory_allocated_mib=allocated.memory_mib,
            holders=allocated.holders,
        )


def _slices_at(slot: _Slot, holds: NodeHolds) -> list[tuple[uuid.UUID, Card, CardValues | None]]:
    """Return the slices that workspaces held at the start of the slot, with their readings.

    A workspace whose slices have no readings still holds them. A reading from before the end of a hold does
    not count for the slots after it.
    """
    read = {
        (row.allocation_id, row.device_id): row for row in slot.latest.values() if row.scope == Scope.SLICE
    }
    found: list[tuple[uuid.UUID, Card, CardValues | None]] = []
    for held in holds.of_card.values():
        for hold in held:
            if hold.held_at(slot.at_ms):
                row = read.get((hold.allocation_id, hold.device_id))
                found.append(
                    (hold.workspace_id, slice_card(hold), None) if row is None else row.as_slice(hold)
                )
    return found
