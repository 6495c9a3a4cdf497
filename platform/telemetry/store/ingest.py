"""The entry for measurements that are pushed or scraped: batches of `clusters.gpu.batches`.

Only rows of the named nodes are read and written, so the cost of a batch does not depend on the size of the
cluster; sums over a cluster are made afterwards by `telemetry.services.summing`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from django.db import connection, transaction

from clusters.gpu.batches import MeasureBatch
from clusters.models import Node
from telemetry.models import GpuEvent, GpuProcess, Reading, Scope
from telemetry.store.assigning import Assigned, assign_batch
from telemetry.store.channels import resolve_channels
from telemetry.store.counted_gpus import name_counted_gpus
from telemetry.store.database import new_reading
from telemetry.store.gaps import gap_cut
from telemetry.store.matching import ChannelKey
from telemetry.store.node_holds import load_node_holds
from telemetry.store.overlap import leave_out_overlaps
from telemetry.store.pending import mark_pending
from telemetry.store.times import MINUTE_MS, floor_ms, from_ms

log = structlog.get_logger(__name__)
_NAMED: Final = 5
_PROCESS_FIELDS: Final = ["last_seen_ms", "allocation_id", "job_id", "workspace_id", "pod_uid"]


@dataclass(frozen=True, slots=True)
class StoredBatches:
    """The result of storing batches. `stored` and `duplicates` count devices, slices and processes per time.

    A reading for a time that another reading covers is a duplicate as well. The times are the last at which
    GPUs, and slices of pods, were measured.
    """

    stored: int = 0
    duplicates: int = 0
    unknown_devices: tuple[str, ...] = ()
    unknown_pods: tuple[str, ...] = ()
    devices_at_ms: int | None = None
    slices_at_ms: int | None = None


def store_batches(cluster_id: uuid.UUID, batches: Sequence[MeasureBatch]) -> StoredBatches:
    """Store measurements of nodes of one cluster; safe to repeat and to run concurrently.

    The first reading of a time stays, per device, slice or process. Devices that no node of the cluster has,
    and pods without a hold on their device, are left out and named in the result.
    """
    names = {batch.node for batch in batches}
    rows = Node.unscoped.filter(cluster_id=cluster_id, name__in=names, present=True)
    nodes = dict(rows.values_list("name", "id"))
    if not batches:
        return StoredBatches()
    since = min(batch.at_ms for batch in batches)
    found = Assigned()
    # A batch covers only its own node.
    for name, node_id in sorted(nodes.items()):
        holds = load_node_holds(cluster_id, [node_id], since)
        of_node = sorted((b for b in batches if b.node == name), key=lambda b: b.at_ms)
        for batch in name_counted_gpus(node_id, holds, of_node):
            assign_batch(found, holds, batch, cluster_id)
    for batch in batches:
        if batch.node not in nodes:
            found.unknown_devices.update(device.uuid for device in batch.devices)
    channels = resolve_channels(
        cluster_id,
        dict.fromkeys(key for key, _ in found.drafts),
        found.holds,
        nodes.values(),
        found.processes,
    )
    stored = _write(cluster_id, nodes, batches, found, channels)
    duplicates = len(found.drafts) - stored
    if stored:
        gap_cut(cluster_id, _spans(batches))
    if found.unknown_devices or found.unknown_pods:
        log.warning(
            "samples_of_strangers",
            cluster=str(cluster_id),
            devices=len(found.unknown_devices),
            pods=len(found.unknown_pods),
            examples=sorted(found.unknown_devices | found.unknown_pods)[:_NAMED],
        )
    return StoredBatches(
        stored,
        duplicates,
        tuple(sorted(found.unknown_devices)),
        tuple(sorted(found.unknown_pods)),
        devices_at_ms=found.measured.get(Scope.CARD),
        slices_at_ms=found.measured.get(Scope.SLICE),
    )


def _spans(batches: Iterable[MeasureBatch]) -> Iterator[tuple[datetime, datetime]]:
    """Yield the times for which GPUs or slices were measured; processes alone do not count."""
    for batch in batches:
        if batch.devices or batch.slices:
            yield from_ms(batch.at_ms), from_ms(batch.at_ms + batch.interval_ms)


def _write(
    cluster_id: uuid.UUID,
    nodes: dict[str, uuid.UUID],
    batches: Iterable[MeasureBatch],
    found: Assigned,
    channels: dict[ChannelKey, int],
) -> int:
    drafts = [draft for draft in found.drafts.values() if draft.key in channels]
    new = leave_out_overlaps(drafts, channels)
    events = [
        GpuEvent(
            cluster_id=cluster_id,
            node_id=nodes[batch.node],
            device_uuid=event.device or "",
            kind=event.kind.value,
            code=-1 if event.code is None else event.code,
            at_ms=event.at_ms,
        )
        for batch in batches
        if batch.node in nodes
        for event in batch.events
    ]
    with transaction.atomic():
        _commit_later()
        GpuEvent.unscoped.bulk_create(events, ignore_conflicts=True)
        GpuProcess.unscoped.bulk_create(
            sorted(found.processes.values(), key=lambda row: row.pk),
            update_conflicts=True,
            unique_fields=["id"],
            update_fields=_PROCESS_FIELDS,
        )
        if new:
            Reading.unscoped.bulk_create([new_reading(d, channels) for d in new], ignore_conflicts=True)
            # Processes alone are not part of the sums, and do not show that the GPUs' own values are pushed.
            measured = any(draft.key[0] != Scope.PROCESS for draft in new)
            times = (floor_ms(draft.at_ms, MINUTE_MS) for draft in new)
            mark_pending(cluster_id, MINUTE_MS, times, sums=measured)
    return len(new)


def _commit_later() -> None:
    """Do not wait for the disk at the commit of this transaction.

    All nodes of a cluster mark the same minute, and would wait for each other's disk writes. A crash of the
    database server may cost the last second of measurements.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO OFF")
