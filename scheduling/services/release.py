"""Releases the quota, nodes and cards of allocations whose pods have been confirmed as ended."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from clusters.services.grants import DeviceAmount, NodeAmount, devices_give_back, nodes_give_back
from foundation.messaging import outbox
from foundation.sql.prepared import PreparedQuery, PreparedUpdate
from quotas.models import QuotaKey
from quotas.services.ledger import ledger_charges, ledger_free
from scheduling.models import Allocation, DeviceSlice
from scheduling.services.resizing.resize_settle import resizes_end

_PARTS: Final = PreparedQuery(
    lambda allocations: DeviceSlice.unscoped.filter(
        allocation__pk__any_of=allocations, released=False
    ).values_list("device_id", "cores", "memory_mib")
)
_RELEASED: Final = PreparedUpdate(
    lambda allocations: DeviceSlice.unscoped.filter(allocation__pk__any_of=allocations, released=False),
    lambda allocations: {"released": True},
)


def give_back(allocations: Sequence[Allocation], *, now: datetime) -> None:
    """Release the quota, cards and nodes of allocations whose `released_at` this transaction has set.

    The caller has locked the allocations and found them unreleased, so that each is released once.
    `allocation.attempt.job.queue` should be selected.
    """
    if not allocations:
        return
    freed: Counter[QuotaKey] = Counter()
    nodes: defaultdict[uuid.UUID, NodeAmount] = defaultdict(NodeAmount)
    cells: set[uuid.UUID] = set()
    for allocation in allocations:
        queue = allocation.attempt.job.queue
        cells.add(queue.cell_id)
        freed.update(ledger_charges(queue.node_id, allocation.flavor_id, allocation.charge))
        nodes[allocation.node_id] += NodeAmount(allocation.cpu_millicores, allocation.memory_mib)
    ledger_free(freed, now=now)
    nodes_give_back(nodes)
    released = [allocation.pk for allocation in allocations]
    devices_give_back(_free_slices(released))
    resizes_end(released, now=now)
    for cell_id in sorted(cells):
        outbox.add_hint(outbox.Topic.FREED, cell_id)


def _free_slices(allocations: Sequence[uuid.UUID]) -> dict[uuid.UUID, DeviceAmount]:
    amounts: defaultdict[uuid.UUID, DeviceAmount] = defaultdict(DeviceAmount)
    for device, cores, memory_mib in _PARTS.for_any(allocations):
        amounts[device] += DeviceAmount(cores, memory_mib, 1)
    _RELEASED(list(allocations))
    return dict(amounts)
