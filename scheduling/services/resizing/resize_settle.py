"""Records the outcome of a change of memory: confirmed, refused, not confirmed in time, or the pod has
ended."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from clusters.backends.base import OutcomeKind, PodOutcome
from foundation.messaging import outbox
from foundation.sql.prepared import PreparedUpdate
from scheduling.lifecycle.transitions import add_event
from scheduling.models import Allocation, DeviceSlice, Job, MemoryResize, ResizeState
from scheduling.services.resizing.resize_charge import charge_memory

POD_ENDED: Final = "POD_GONE"
"""The code for a pod that no longer exists. The change is not settled here: the observation of the pod's end
releases everything."""
NOT_CONFIRMED: Final = "NOT_CONFIRMED"
_ENDED: Final = PreparedUpdate(
    lambda allocations, now: MemoryResize.unscoped.filter(
        allocation__pk__any_of=allocations, ended_at__isnull=True
    ).order_by(),
    lambda allocations, now: {"state": ResizeState.ENDED, "ended_at": now},
)


def resizes_end(allocations: Collection[uuid.UUID], *, now: datetime) -> None:
    """End the changes of pods that no longer exist; the caller has released their allocations."""
    if allocations:
        _ENDED(list(allocations), now)


def resize_give_up(*, resize_id: uuid.UUID, now: datetime) -> bool:
    """Request that a change which was not confirmed in time is undone; return whether it was still open.

    The charge stays until the cluster has confirmed that the change will not be made.
    """
    with transaction.atomic():
        resize = _locked(resize_id)
        if resize is None or resize.state != ResizeState.ASKED:
            return False
        _save(resize, state=ResizeState.TAKING_BACK)
        DeviceSlice.unscoped.filter(allocation=resize.allocation).update(wanted_mib=resize.from_mib)
        _note(resize, "resize_overdue", now)
        outbox.add_hint(outbox.Topic.EXECUTE, resize.allocation.node.cluster_id)
    return True


def resize_settle(*, resize_id: uuid.UUID, asked: ResizeState, outcome: PodOutcome, now: datetime) -> bool:
    """Record the cluster's answer to a change in the state `asked`; return whether the change has ended.

    Growth that was not made is no longer charged. If the cluster refuses to undo a change, the greater amount
    stays charged: a growth then counts as made.
    """
    if outcome.kind is OutcomeKind.UNKNOWN or outcome.code == POD_ENDED:
        return False
    with transaction.atomic():
        resize = _locked(resize_id)
        if resize is None or resize.state != asked:
            return False
        confirmed = asked is ResizeState.ASKED
        if outcome.kind is OutcomeKind.REFUSED:
            confirmed = asked is ResizeState.TAKING_BACK and resize.grows
        _charge(resize, resize.to_mib if confirmed else resize.from_mib, now)
        _conclude(resize, confirmed, outcome, now)
    return True


def _charge(resize: MemoryResize, mib: int, now: datetime) -> None:
    allocation = resize.allocation
    slices = list(allocation.slices.order_by("device_id"))
    if slices[0].memory_mib != mib:
        charge_memory(allocation.attempt.job, allocation, slices, mib, now=now)
    DeviceSlice.unscoped.filter(allocation=allocation).update(wanted_mib=None)


def _conclude(resize: MemoryResize, confirmed: bool, outcome: PodOutcome, now: datetime) -> None:
    if confirmed:
        _save(resize, state=ResizeState.DONE, ended_at=now)
        _note(resize, "resized", now)
        return
    code, message = outcome.code, outcome.message
    if outcome.kind is OutcomeKind.DONE:
        code, message = NOT_CONFIRMED, ""
    _save(resize, state=ResizeState.REFUSED, ended_at=now, code=code[:60], message=message[:300])
    _note(resize, "resize_refused", now, {"code": resize.code, "message": resize.message})


def _locked(resize_id: uuid.UUID) -> MemoryResize | None:
    """Return an open change, with its job and then its allocation locked; None if it has ended."""
    found = MemoryResize.unscoped.filter(pk=resize_id, ended_at__isnull=True)
    named = found.values_list("allocation_id", "allocation__attempt__job_id").first()
    if named is None:
        return None
    allocation_id, job_id = named
    rows = Job.unscoped.select_for_update(of=("self",), no_key=True).filter(pk=job_id)
    job = rows.select_related("queue").get()
    held = Allocation.unscoped.select_for_update(of=("self",), no_key=True).filter(pk=allocation_id)
    allocation = held.select_related("attempt", "node", "task__role").get()
    resize = found.first()  # read again under the locks
    if resize is None or allocation.released_at is not None:
        return None
    allocation.attempt.job = job
    resize.allocation = allocation
    return resize


def _save(resize: MemoryResize, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(resize, name, value)
    resize.save(update_fields=list(fields))


def _note(resize: MemoryResize, code: str, now: datetime, more: dict[str, str] | None = None) -> None:
    task = resize.allocation.task
    numbers = {"role": task.role.name, "index": task.index, "from": resize.from_mib, "to": resize.to_mib}
    add_event(resize.allocation.attempt.job, code, now=now, numbers={**numbers, **(more or {})})
