"""Assigns samples to the cards and holds of the ledger.

Nothing here uses the database. An unassigned sample is counted and is no error: a pod may have ended a moment
ago, and a card may be newer than the last inventory.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from clusters.backends.base import DeviceSample
from telemetry.models import Scope
from telemetry.store.holdings import Card, HeldSlice, Holdings
from telemetry.store.packing import pack_values
from telemetry.store.times import TICK_MS, to_ms

ChannelKey = tuple[Scope, uuid.UUID, uuid.UUID | None]
"""A scope; then cluster, workspace, node, (node, device), (allocation, device) or (process, device)."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A reading without its channel yet. Units as in `telemetry.models.reading`."""

    key: ChannelKey
    at_ms: int
    cores_used: float | None
    cores_allocated: int
    memory_used_mib: int | None
    memory_allocated_mib: int
    temperature_c: float | None = None
    power_w: float | None = None
    values: bytes | None = None
    interval_ms: int = TICK_MS


@dataclass(slots=True)
class Matched:
    """The result of a batch: drafts, once per key and time; and readings of unknown owners."""

    drafts: dict[tuple[ChannelKey, int], Draft] = field(default_factory=dict)
    holds: dict[ChannelKey, HeldSlice] = field(default_factory=dict)
    samples: int = 0
    unknown_devices: set[str] = field(default_factory=set)
    unknown_pods: set[str] = field(default_factory=set)

    def add_draft(self, draft: Draft) -> None:
        self.drafts.setdefault((draft.key, draft.at_ms), draft)


def card_key(card: Card) -> ChannelKey:
    """Return the key of a card's channel; the node is part of it, so a moved card starts a new series."""
    return (Scope.CARD, card.node_id, card.device_id)


def _card_draft(card: Card, sample: DeviceSample) -> Draft:
    return Draft(
        key=card_key(card),
        at_ms=to_ms(sample.at),
        cores_used=sample.utilisation_percent,
        cores_allocated=card.cores_allocated,
        memory_used_mib=sample.memory_used_mib,
        memory_allocated_mib=card.memory_allocated_mib,
        temperature_c=sample.temperature_c,
        power_w=sample.power_w,
        values=pack_values(sample.values),
    )


def _add_hold(found: Matched, hold: HeldSlice, sample: DeviceSample) -> None:
    key = (Scope.SLICE, hold.allocation_id, hold.device_id)
    found.holds[key] = hold
    found.add_draft(
        Draft(
            key=key,
            at_ms=to_ms(sample.at),
            cores_used=sample.utilisation_percent,
            cores_allocated=hold.cores,
            memory_used_mib=sample.memory_used_mib,
            memory_allocated_mib=hold.memory_mib,
            # Measures of a whole card include more than the holder's activity.
            values=pack_values(sample.values) if sample.pod is not None else None,
        )
    )


def match_samples(holdings: Holdings, samples: Iterable[DeviceSample]) -> Matched:
    """Assign each sample to a card, or to one pod's hold on it.

    If the backend reads whole cards only, the reading of a card that one pod holds exclusively is also that
    pod's reading.
    """
    found = Matched()
    of_cards: list[tuple[Card, DeviceSample]] = []
    for sample in samples:
        card = holdings.cards.get(sample.device_uuid)
        if card is None:
            found.unknown_devices.add(sample.device_uuid)
            continue
        if sample.pod is None:
            of_cards.append((card, sample))
            found.add_draft(_card_draft(card, sample))
        else:
            hold = holdings.holds.get((sample.pod.namespace, sample.pod.name, sample.device_uuid))
            if hold is None:
                found.unknown_pods.add(f"{sample.pod.namespace}/{sample.pod.name}")
                continue
            _add_hold(found, hold, sample)
        found.samples += 1
    by_pod = set(found.holds)
    for card, sample in of_cards:
        sole = holdings.exclusive.get(card.device_id)
        if sole is not None and (Scope.SLICE, sole.allocation_id, sole.device_id) not in by_pod:
            _add_hold(found, sole, sample)
    return found
