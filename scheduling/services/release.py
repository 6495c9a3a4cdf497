"""Giving back what allocations hold, once it is confirmed that nobody uses it any more."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime

from clusters.services.grants import DeviceAmount, NodeAmount, devices_give_back, nodes_give_back
from foundation import outbox
from quotas.services.ledger import LedgerKey, charges, ledger_free
from scheduling.models import Allocation, DeviceSlice


def allocations_release(allocations: Iterable[Allocation], *, now: datetime) -> int:
    """Free ledger, cards and nodes of those allocations that are still held; returns how many were.

    Safe to repeat: whoever sets `released_at` first frees, everybody after finds nothing to do. Must
    run inside the transaction that records why. `allocation.attempt.job.queue` should be selected.
    """
    freed: Counter[LedgerKey] = Counter()
    nodes: defaultdict[uuid.UUID, NodeAmount] = defaultdict(NodeAmount)
    released: list[Allocation] = []
    cells: set[uuid.UUID] = set()
    for allocation in allocations:
        won = Allocation.unscoped.filter(pk=allocation.pk, released_at__isnull=True).update(released_at=now)
        if not won:
            continue
        allocation.released_at = now
        released.append(allocation)
        queue = allocation.attempt.job.queue
        cells.add(queue.cell_id)
        freed.update(charges(queue.node_id, allocation.flavor_id, allocation.charge))
        nodes[allocation.node_id] += NodeAmount(allocation.cpu_millicores, allocation.memory_mib)
    if released:
        ledger_free(freed, now=now)
        nodes_give_back(nodes)
        devices_give_back(_free_slices(released))
        for cell_id in sorted(cells):
            outbox.hint(outbox.Topic.CYCLE, cell_id)
    return len(released)


def _free_slices(released: list[Allocation]) -> dict[uuid.UUID, DeviceAmount]:
    held = DeviceSlice.unscoped.filter(allocation__in=released, released=False)
    amounts: defaultdict[uuid.UUID, DeviceAmount] = defaultdict(DeviceAmount)
    for part in held:
        amounts[part.device_id] += DeviceAmount(part.cores, part.memory_mib, 1)
    held.update(released=True)
    return dict(amounts)
