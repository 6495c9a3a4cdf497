"""Checks whether a running task may get more memory: the card, the quota, and the limits of an admission.

Claims of other jobs count as allocated, so that no resize takes their capacity between the end of a victim
and the start of its preemptor. If the queue or the job may not borrow, the resize may not borrow either:
borrowed quota must be reclaimable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _

from clusters.models import Device
from foundation.core.errors import FieldError, Refused
from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from foundation.sql import row_scope
from quotas.models import AllocationMode, Queue
from quotas.selectors.limits.tree import load_tree
from quotas.tree import QuotaTree
from scheduling.commit.limits import AdmissionLimits
from scheduling.engine import model as em
from scheduling.engine_input.config import engine_config
from scheduling.engine_input.job_history import PREEMPTED, claims_of
from scheduling.models import Allocation, Attempt, DeviceSlice, Job

FIELD: Final = "memory"
"""The field of the request that errors name."""


@dataclass(frozen=True, slots=True)
class Room:
    """The memory that each card of a task could have, in MiB: by the cards, and by the quota (None:
    unlimited)."""

    on_card: int
    in_quota: int | None

    @property
    def most(self) -> int:
        """The smaller of the two amounts."""
        return self.on_card if self.in_quota is None else min(self.on_card, self.in_quota)


@row_scope.whole()
def room_of(job: Job, allocation: Allocation, slices: Iterable[DeviceSlice]) -> Room:
    """Return how much memory each card of a running task could have now. It locks nothing."""
    parts = list(slices)
    claims = [claim for claim in claims_of(job.queue.cell_id).values() if claim.job != str(job.pk)]
    held = parts[0].memory_mib
    on_card = min(held + _free_on(part.device, claims) for part in parts)
    free = _free_in_quota(job, allocation, claims)
    return Room(max(on_card, held), None if free is None else held + max(free, 0) // len(parts))


def require_room(
    job: Job, allocation: Allocation, slices: Iterable[DeviceSlice], mib: int, *, now: datetime
) -> None:
    """Check that each card of a task may have `mib`; the caller holds the cell's lock.

    Raises: Refused, with the possible amount.
    """
    parts = list(slices)
    room = room_of(job, allocation, parts)
    if mib > room.on_card:
        message = _("At most %(most)s MiB available on the GPU.")
        raise resize_refusal("CARD_FULL", message, most=room.on_card, asked=mib)
    if room.in_quota is not None and mib > room.in_quota:
        message = _("At most %(most)s MiB available in the queue's quota.")
        raise resize_refusal(Reason.WAITING_FOR_QUOTA, message, most=room.in_quota, asked=mib)
    more = (mib - parts[0].memory_mib) * len(parts)
    key = em.FlavorResource(str(allocation.flavor_id), Resource.GPU_MEMORY)
    if not AdmissionLimits([job], now).allow_job(job, {key: more}):
        message = _("Exceeds the user limit (%(asked)s MiB requested).")
        raise resize_refusal(Reason.POLICY_DENIED, message, asked=mib)


def resize_refusal(code: str, message: str, **numbers: int | str) -> Refused:
    """Return the refusal of the amount, with an error for its field."""
    text = message % numbers
    return Refused(text, code=code, numbers=numbers, errors=[FieldError(FIELD, code, text)])


def _free_on(device: Device, claims: Iterable[em.Claim]) -> int:
    promised = sum(
        part.memory
        for claim in claims
        for place in claim.allocations
        for part in place.slices
        if part.device == device.uuid
    )
    return device.memory_capacity - device.memory_granted - device.memory_foreign - promised


def _free_in_quota(job: Job, allocation: Allocation, claims: Iterable[em.Claim]) -> int | None:
    key = em.FlavorResource(str(allocation.flavor_id), Resource.GPU_MEMORY)
    tree, leaf = load_tree(job.queue.cell_id), str(job.queue.node_id)
    _add_claims(tree, claims, key)
    available = tree.available(leaf, key)
    if _may_borrow(job):
        return available
    own = tree.subtree_quota(leaf, key)
    inside = None if own is None else own - tree.usage(leaf, key)
    return min((free for free in (available, inside) if free is not None), default=None)


def _add_claims(
    tree: QuotaTree[em.FlavorResource], claims: Iterable[em.Claim], key: em.FlavorResource
) -> None:
    promised = [
        (place.queue, charge.amount)
        for claim in claims
        for place in claim.allocations
        for charge in place.charges
        if charge.key == key
    ]
    named = Queue.unscoped.filter(pk__in={queue for queue, _ in promised}) if promised else ()
    leaves = {str(queue.pk): str(queue.node_id) for queue in named}
    for queue, amount in promised:
        if queue in leaves:
            tree.add_usage(leaves[queue], key, amount)


def _may_borrow(job: Job) -> bool:
    """Return whether the queue may borrow, as for an admission, see `scheduling.engine.quota.shortage`."""
    if job.queue.allocation_mode != AllocationMode.DYNAMIC or not job.preemptible:
        return False
    lost = Attempt.unscoped.filter(job=job, end_reason__in=[rule.value for rule in PREEMPTED]).count()
    return lost < engine_config().preemption.eviction_cap
