"""Changes the charge of a running task for the memory of its cards."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from clusters.services.grants import DeviceAmount, devices_give_back, devices_take
from foundation.core.months import to_ms
from foundation.core.quantities import Resource
from foundation.messaging import outbox
from quotas.models import QuotaKey
from quotas.services.ledger import ledger_free, ledger_reserve
from scheduling.models import Allocation, DeviceSlice, Job

_MEMORY = Resource.GPU_MEMORY


def charge_memory(
    job: Job, allocation: Allocation, slices: Sequence[DeviceSlice], mib: int, *, now: datetime
) -> None:
    """Charge a task for `mib` of each of its cards from `now` on; the caller has locked its rows.

    For more memory than before the caller also holds the cell's lock, and has checked the quota.
    Raises: NoLongerFree when a card has no room; LedgerMismatch.
    """
    changes = {part: mib - part.memory_mib for part in slices}
    more = sum(changes.values())
    key = QuotaKey(job.queue.node_id, allocation.flavor_id, _MEMORY)
    amounts = {part.device_id: DeviceAmount(memory_mib=abs(change)) for part, change in changes.items()}
    if more > 0:
        ledger_reserve({key: more}, now=now)
        devices_take(amounts)
    else:
        ledger_free({key: -more}, now=now)
        devices_give_back(amounts)
        outbox.add_hint(outbox.Topic.FREED, job.queue.cell_id)
    charge = {**allocation.charge, _MEMORY: allocation.charge.get(_MEMORY, 0) + more}
    _change_charge(allocation, charge, now=now)
    DeviceSlice.unscoped.filter(allocation=allocation).update(memory_mib=mib)
    for part in slices:
        part.memory_mib = mib


def _change_charge(allocation: Allocation, charge: dict[str, int], *, now: datetime) -> None:
    """Set the charge of an allocation, and store the previous one with its end, which usage reports read."""
    allocation.past_charges = [*(allocation.past_charges or ()), [to_ms(now), allocation.charge]]
    allocation.charge = charge
    allocation.revision += 1
    allocation.save(update_fields=["charge", "past_charges", "revision"])
