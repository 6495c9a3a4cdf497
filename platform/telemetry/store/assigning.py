"""Assigns the measurements of agents and exporters to cards, holds and processes of a cluster.

A value of another cluster's card, or of a pod without a hold on the card, is counted and left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from clusters.gpu.batches import MeasureBatch, ProcessValues, SliceValues
from clusters.gpu.measures import BY_NAME
from telemetry.models import GpuProcess, Scope
from telemetry.store.holdings import Card, HeldSlice
from telemetry.store.matching import ChannelKey, Draft, card_key
from telemetry.store.node_holds import AllocatedShare, NodeHolds
from telemetry.store.packing import pack_values

TYPED: Final = ("utilization_percent", "memory_used_mib", "temperature_c", "power_w")
"""Measures that have a column of their own in a reading."""
_PROCESS: Final = uuid.UUID("2f0c0a1c-5a68-4b73-9a53-0d6f2c3a5e11")
_LONGEST_NAME: Final = 128


@dataclass(slots=True)
class Assigned:
    """Drafts, once per key and time; the holds of their slices and their processes; and unknown names.

    `measured` is the last time at which GPUs, and slices of pods, were measured.
    """

    drafts: dict[tuple[ChannelKey, int], Draft] = field(default_factory=dict)
    holds: dict[ChannelKey, HeldSlice] = field(default_factory=dict)
    processes: dict[uuid.UUID, GpuProcess] = field(default_factory=dict)
    measured: dict[Scope, int] = field(default_factory=dict)
    unknown_devices: set[str] = field(default_factory=set)
    unknown_pods: set[str] = field(default_factory=set)


def _note_measured(found: Assigned, scope: Scope, batch: MeasureBatch) -> None:
    found.measured[scope] = max(batch.at_ms, found.measured.get(scope, 0))


def _add(
    found: Assigned,
    key: ChannelKey,
    batch: MeasureBatch,
    values: Mapping[str, float],
    allocated: AllocatedShare,
) -> None:
    known = {name: value for name, value in values.items() if name in BY_NAME}
    if not known or (key, batch.at_ms) in found.drafts:
        return
    memory = known.get("memory_used_mib")
    found.drafts[key, batch.at_ms] = Draft(
        key=key,
        at_ms=batch.at_ms,
        cores_used=known.get("utilization_percent"),
        cores_allocated=allocated.cores,
        memory_used_mib=None if memory is None else round(memory),
        memory_allocated_mib=allocated.memory_mib,
        temperature_c=known.get("temperature_c"),
        power_w=known.get("power_w"),
        values=pack_values({name: value for name, value in known.items() if name not in TYPED}),
        interval_ms=batch.interval_ms,
    )


def _slice_values(parts: list[SliceValues]) -> dict[str, float]:
    """Combine the containers of a pod on one card: the least idle time, and the sums of all other measures.

    Only measures of all containers are summed.
    """
    names = set.intersection(*(set(part.values) for part in parts))
    return {name: (min if name == "idle_s" else sum)(part.values[name] for part in parts) for name in names}


def _add_slices(found: Assigned, holds: NodeHolds, batch: MeasureBatch) -> None:
    parts: dict[ChannelKey, list[SliceValues]] = {}
    for part in batch.slices:
        if part.device not in holds.cards:
            found.unknown_devices.add(part.device)
            continue
        hold = holds.of_pod(part.device, batch.at_ms, uid=part.pod_uid, name=(part.namespace, part.pod))
        if hold is None:
            found.unknown_pods.add(part.pod_uid or f"{part.namespace}/{part.pod}")
            continue
        key: ChannelKey = (Scope.SLICE, hold.allocation_id, hold.device_id)
        found.holds[key] = hold
        parts.setdefault(key, []).append(part)
    for key, of_pod in parts.items():
        hold = found.holds[key]
        values = _slice_values(of_pod)
        _add(found, key, batch, values, AllocatedShare(hold.cores, hold.memory_mib))
        if values:
            _note_measured(found, Scope.SLICE, batch)


def _add_devices(found: Assigned, holds: NodeHolds, batch: MeasureBatch) -> None:
    for device in batch.devices:
        card = holds.cards.get(device.uuid)
        if card is None:
            found.unknown_devices.add(device.uuid)
            continue
        _add(found, card_key(card), batch, device.values, holds.allocated_at(card, batch.at_ms))
        if device.values:
            _note_measured(found, Scope.CARD, batch)
        sole = holds.sole_hold(card, batch.at_ms)
        if sole is not None:
            # If no source reads the pod itself: it causes all activity of the card that it holds alone.
            key: ChannelKey = (Scope.SLICE, sole.allocation_id, sole.device_id)
            own = {n: v for n, v in device.values.items() if n in ("utilization_percent", "memory_used_mib")}
            found.holds.setdefault(key, sole)
            _add(found, key, batch, own, AllocatedShare(sole.cores, sole.memory_mib))


def process_id(node: uuid.UUID, device: uuid.UUID, process: ProcessValues) -> uuid.UUID:
    """Return the id of a process on a card, which is always the same."""
    parts = (
        str(node),
        str(device),
        str(process.pid),
        process.name[:_LONGEST_NAME],
        process.container_id or "",
    )
    return uuid.uuid5(_PROCESS, "\0".join(parts))


def _add_processes(found: Assigned, holds: NodeHolds, batch: MeasureBatch, cluster_id: uuid.UUID) -> None:
    for process in batch.processes:
        card: Card | None = holds.cards.get(process.device)
        if card is None:
            found.unknown_devices.add(process.device)
            continue
        uid = process.pod_uid or ""
        hold = holds.of_pod(process.device, batch.at_ms, uid=uid) if uid else None
        pk = process_id(card.node_id, card.device_id, process)
        row = found.processes.get(pk)
        if row is None:
            row = found.processes[pk] = GpuProcess(
                id=pk, cluster_id=cluster_id, node_id=card.node_id, device_id=card.device_id,
                pid=process.pid, name=process.name[:_LONGEST_NAME], pod_uid=uid,
                container_id=process.container_id or "", first_seen_ms=batch.at_ms, last_seen_ms=batch.at_ms,
            )  # fmt: skip
        row.first_seen_ms = min(row.first_seen_ms, batch.at_ms)
        row.last_seen_ms = max(row.last_seen_ms, batch.at_ms)
        if hold is not None:
            row.allocation_id, row.job_id = hold.allocation_id, hold.job_id
            row.workspace_id = hold.workspace_id
        _add(found, (Scope.PROCESS, pk, card.device_id), batch, process.values, AllocatedShare())


def assign_batch(found: Assigned, holds: NodeHolds, batch: MeasureBatch, cluster_id: uuid.UUID) -> None:
    """Add one batch to what was assigned before it; slices are read before whole cards."""
    _add_slices(found, holds, batch)
    _add_devices(found, holds, batch)
    _add_processes(found, holds, batch, cluster_id)
