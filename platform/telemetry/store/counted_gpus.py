"""Finds the cards of nodes whose GPUs the cluster only counts.

NVIDIA's device plugin reports a number of GPUs. A card of such a node is a place (`clusters.gpu.named`), and
the kubelet chooses the GPU for a pod, whereas measurements name the GPU. Here each GPU of the node gets a
place: first in the order of the driver, and then the place that a pod holds whose processes are on the GPU.
It stays there until processes show another place, or until the GPU is gone and a new one has come.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from clusters.gpu.batches import MeasureBatch
from clusters.gpu.named import counted_profile, is_named_by_node
from clusters.models import Device
from telemetry.models import NodeAgent
from telemetry.store.node_holds import NodeHolds


@dataclass(slots=True)
class _Place:
    """A card that represents a place; `gpu` is the UUID of the GPU there, "" for none yet."""

    pk: uuid.UUID
    uuid: str
    index: int
    gpu: str


def name_counted_gpus(
    node_id: uuid.UUID, holds: NodeHolds, batches: Sequence[MeasureBatch]
) -> list[MeasureBatch]:
    """Return batches of one node, in order of time, with cards in place of the GPUs of counted cards.

    Stores the GPU of each card if it is new. MIG instances that are counted by profile stay unknown.
    """
    if not any(_is_place(uuid) for uuid in holds.cards):
        return list(batches)
    rows = Device.unscoped.filter(node=node_id, uuid__contains="/").order_by("index", "uuid")
    places = [
        _Place(*row)
        for row in rows.values_list("pk", "uuid", "index", "hardware_uuid")
        if _is_place(row[1]) and row[1] in holds.cards
    ]
    before = {place.pk: place.gpu for place in places}
    _place_gpus(places, _read_order(node_id, batches))
    named = []
    for batch in batches:
        _follow_pods(places, holds, batch)
        named.append(_rename(batch, {place.gpu: place.uuid for place in places if place.gpu}))
    for place in places:
        if place.gpu != before[place.pk]:
            Device.unscoped.filter(pk=place.pk).update(hardware_uuid=place.gpu)
    return named


def _is_place(uuid: str) -> bool:
    return is_named_by_node(uuid) and not counted_profile(uuid)


def _read_order(node_id: uuid.UUID, batches: Iterable[MeasureBatch]) -> dict[str, int]:
    """Return the measured GPUs with their index in the driver, or in the order of the batches."""
    seen = dict.fromkeys(
        device.uuid
        for batch in batches
        for device in batch.devices
        if device.parent is None and not is_named_by_node(device.uuid)
    )
    listed = NodeAgent.unscoped.filter(node=node_id).values_list("devices", flat=True).first() or ()
    indexes = {row["uuid"]: row["index"] for row in listed if row.get("index") is not None}
    return {gpu: indexes.get(gpu, number) for number, gpu in enumerate(seen)}


def _place_gpus(places: Sequence[_Place], order: dict[str, int]) -> None:
    """Assign each new GPU a place: that of its index if it is empty, else the first empty one.

    Without an empty place, it takes the place of a GPU that is no longer measured.
    """
    taken = {place.gpu for place in places if place.gpu}
    for gpu, index in sorted(order.items(), key=lambda item: item[1]):
        if gpu in taken:
            continue
        empty = [place for place in places if not place.gpu]
        removed = [place for place in places if place.gpu and place.gpu not in order]
        free = next((place for place in empty if place.index == index), None) or next(
            iter([*empty, *removed]), None
        )
        if free is not None:
            free.gpu = gpu


def _follow_pods(places: Sequence[_Place], holds: NodeHolds, batch: MeasureBatch) -> None:
    """Exchange the GPUs of two places if a pod uses a GPU at a place that it does not hold."""
    by_gpu = {place.gpu: place for place in places if place.gpu}
    used: dict[tuple[str, str, str], set[str]] = {}
    for part in batch.slices:
        used.setdefault((part.pod_uid, part.namespace, part.pod), set()).add(part.device)
    for process in batch.processes:
        if process.pod_uid:
            used.setdefault((process.pod_uid, "", ""), set()).add(process.device)
    for (uid, namespace, pod), gpus in used.items():
        held = [
            place
            for place in places
            if (hold := holds.of_pod(place.uuid, batch.at_ms, uid=uid, name=(namespace, pod)))
            and hold.held_at(batch.at_ms)
        ]
        for gpu in sorted(gpus & by_gpu.keys()):
            here = by_gpu[gpu]
            other = next((place for place in held if place.gpu not in gpus), None)
            if here in held or other is None:
                continue
            here.gpu, other.gpu = other.gpu, here.gpu
            by_gpu = {place.gpu: place for place in places if place.gpu}


def _rename(batch: MeasureBatch, names: dict[str, str]) -> MeasureBatch:
    """Return the batch with cards in place of GPUs; events keep their GPU."""
    return replace(
        batch,
        devices=tuple(replace(one, uuid=names.get(one.uuid, one.uuid)) for one in batch.devices),
        slices=tuple(replace(one, device=names.get(one.device, one.device)) for one in batch.slices),
        processes=tuple(replace(one, device=names.get(one.device, one.device)) for one in batch.processes),
    )
