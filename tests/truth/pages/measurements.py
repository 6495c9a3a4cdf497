"""The drawn use of GPUs and pods of an installation: stored as measurements, and kept for comparison.

The sums are of the drawn values, not of stored ones, so that they share nothing with the product.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from clusters.gpu.batches import DeviceValues, MeasureBatch, SliceValues
from clusters.models import Device, Node
from scheduling.models import DeviceSlice
from telemetry.store.ingest import store_batches
from telemetry.usage.record_measured import record_measured
from tests.truth.pages.installations import Installation

_TICKS: Final = 12
_EVERY_S: Final = 90
_FRESH_S: Final = 30
"""The age in seconds after which pages show a value as unknown."""


class Use(NamedTuple):
    """Percent of a GPU's compute, and MiB of its memory."""

    percent: float
    memory_mib: int


@dataclass(slots=True)
class Measurements:
    """The last fresh use of GPUs and slices by their keys, absent if unknown.

    GPU time of slices is in hundredths of a GPU times seconds.
    """

    gpus: dict[uuid.UUID, Use] = field(default_factory=dict)
    slices: dict[uuid.UUID, Use] = field(default_factory=dict)
    measured_s: Counter[uuid.UUID] = field(default_factory=Counter)
    used_s: Counter[uuid.UUID] = field(default_factory=Counter)
    held: dict[uuid.UUID, DeviceSlice] = field(default_factory=dict)

    def slices_where(self, chosen: Callable[[DeviceSlice], bool]) -> list[DeviceSlice]:
        """Return the slices that are held now and have a known use."""
        return [part for key, part in self.held.items() if key in self.slices and chosen(part)]

    def used_percent(self, parts: Iterable[DeviceSlice]) -> float:
        """Return the use of slices together, in percent of one GPU."""
        return sum(self.slices[part.pk].percent for part in parts)


def measure(seed: int, made: Installation, until: datetime) -> Measurements:
    """Draw and store the use of the last minutes until a moment; some nodes and moments are left out."""
    draw, found = random.Random(f"use {seed}"), Measurements()
    parts = DeviceSlice.unscoped.filter(allocation__released_at=None).order_by("pk")
    for part in parts.select_related("allocation__attempt__job__submitted_by", "device"):
        found.held[part.pk] = part
    batches = []
    for node in Node.unscoped.filter(cluster=made.cluster).order_by("name"):
        if draw.random() < 0.15:
            continue  # this node is not measured
        late_s = draw.choice((5, 12, 25, 45))
        for tick in reversed(range(_TICKS)):
            if tick and draw.random() < 0.1:
                continue  # this moment was lost
            at = until - timedelta(seconds=late_s + tick * _EVERY_S)
            batches.append(_draw_batch(draw, found, node, at, since_s=late_s + tick * _EVERY_S))
    stored = store_batches(made.cluster.pk, batches)
    assert not stored.unknown_devices and not stored.unknown_pods
    record_measured(now=until)
    return found


def _draw_batch(
    draw: random.Random, found: Measurements, node: Node, at: datetime, *, since_s: int
) -> MeasureBatch:
    fresh = since_s < _FRESH_S
    # A reading covers no future time: the part beyond a quarter of an hour would be counted later.
    interval_s = min(15 if fresh else _EVERY_S, since_s)
    devices, slices = [], []
    for device in Device.unscoped.filter(node=node).order_by("index"):
        on_it = [part for part in found.held.values() if part.device_id == device.pk]
        uses = [_draw_use(draw, part) for part in on_it]
        whole = Use(
            sum(use.percent for use in uses) if on_it else draw.choice((0.0, 3.0)),
            sum(use.memory_mib for use in uses) if on_it else draw.choice((0, 600)),
        )
        devices.append(DeviceValues(device.uuid, _values(whole)))
        if fresh:
            found.gpus[device.pk] = whole
        for part, use in zip(on_it, uses, strict=True):
            # A job that has its GPU alone may be measured by the GPU itself.
            if len(on_it) > 1 or not part.exclusive or draw.random() < 0.5:
                hold = part.allocation
                slices.append(
                    SliceValues(device.uuid, _values(use), namespace=hold.namespace, pod=hold.pod_name)
                )
            found.measured_s[part.pk] += part.cores * interval_s  # hundredths
            found.used_s[part.pk] += use.percent * interval_s  # type: ignore[assignment]
            if fresh:
                found.slices[part.pk] = use
    return MeasureBatch(
        node=node.name,
        at_ms=round(at.timestamp() * 1000),
        interval_ms=1000 * interval_s,
        devices=tuple(devices),
        slices=tuple(slices),
    )


def _draw_use(draw: random.Random, part: DeviceSlice) -> Use:
    return Use(
        part.cores * draw.choice((0.0, 0.07, 0.5, 0.83, 1.0)),
        draw.randint(0, part.memory_mib),
    )


def _values(use: Use) -> dict[str, float]:
    return {"utilization_percent": use.percent, "memory_used_mib": float(use.memory_mib)}
