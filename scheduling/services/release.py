"""Giving back what allocations hold, once it is confirmed that nobody uses it any more."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

from clusters.services.grants import DeviceAmount, NodeAmount, devices_give_back, nodes_give_back
from foundation import outbox
from foundation.bulk import Guard, update_rows
from foundation.kept import Kept, KeptUpdate
from quotas.services.ledger import LedgerKey, charges, ledger_free
from scheduling.models import Allocation, DeviceSlice
from scheduling.services.resize_settle import resizes_end

_PARTS: Final = Kept(
    lambda allocations: DeviceSlice.unscoped.filter(
        allocation__pk__any_of=allocations, released=False
    ).values_list("device_id", "cores", "memory_mib")
)
_RELEASED: Final = KeptUpdate(
    lambda allocations: DeviceSlice.unscoped.filter(allocation__pk__any_of=allocations, released=False),
    lambda allocations: {"released": True},
)


def allocations_release(allocations: Iterable[Allocation], *, now: datetime) -> int:
    """Free ledger, cards and nodes of those allocations that are still held; returns how many were.

    Safe to repeat: whoever sets `released_at` first frees, everybody after finds nothing to do. Must
    run inside the transaction that records why, which has locked them. `allocation.attempt.job.queue`
    should be selected.
    """
    held = {allocation.pk: allocation for allocation in allocations}
    unreleased = Guard(where={"released_at": None})
    won = update_rows(Allocation, ("released_at",), [(pk, now) for pk in held], guard=unreleased)
    if not won:
        return 0
    freed: Counter[LedgerKey] = Counter()
    nodes: defaultdict[uuid.UUID, NodeAmount] = defaultdict(NodeAmount)
    cells: set[uuid.UUID] = set()
    for pk in won:
        allocation = held[pk]
        allocation.released_at = now
        queue = allocation.attempt.job.queue
        cells.add(queue.cell_id)
        freed.update(charges(queue.node_id, allocation.flavor_id, allocation.charge))
        nodes[allocation.node_id] += NodeAmount(allocation.cpu_millicores, allocation.memory_mib)
    ledger_free(freed, now=now)
    nodes_give_back(nodes)
    devices_give_back(_free_slices(won))
    resizes_end(won, now=now)
    for cell_id in sorted(cells):
        outbox.hint(outbox.Topic.FREED, cell_id)
    return len(won)


def _free_slices(released: Collection[uuid.UUID]) -> dict[uuid.UUID, DeviceAmount]:
    amounts: defaultdict[uuid.UUID, DeviceAmount] = defaultdict(DeviceAmount)
    allocations = list(released)
    for device, cores, memory_mib in _PARTS.for_any(allocations):
        amounts[device] += DeviceAmount(cores, memory_mib, 1)
    _RELEASED(allocations)
    return dict(amounts)
