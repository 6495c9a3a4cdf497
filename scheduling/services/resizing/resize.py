"""Changes the memory of the slices that a running task holds.

More memory is charged at once, and released if the cluster refuses it; less memory is charged once the
cluster has confirmed it. So the charge is never below what the task may use. The rows of the task, its cards
and the ledger are locked in the same order as for admissions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.translation import gettext as _

from clusters.backends.registry import capabilities_for
from clusters.models import Cell, Cluster
from clusters.services.grants import NoLongerFree
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.errors import Conflict, FieldError, Invalid, NotFound
from foundation.core.reasons import Reason
from foundation.messaging import outbox
from foundation.sql import row_scope
from scheduling.hooks.measured_use import memory_in_use
from scheduling.lifecycle.transitions import StaleJob, advance_job
from scheduling.models import (
    Allocation,
    DeviceSlice,
    GpuRequestMode,
    Job,
    JobState,
    MemoryResize,
    Task,
    TaskState,
)
from scheduling.policy import combine_policies
from scheduling.selectors.policies.workspace_policy import path_policies
from scheduling.services.jobs.acting import act_on, require_stop
from scheduling.services.resizing.resize_charge import charge_memory
from scheduling.services.resizing.resize_room import FIELD, Room, require_room, resize_refusal, room_of
from tenants.models import User

WITHIN: Final = timedelta(minutes=2)
"""The time within which a cluster must confirm a change."""
_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_POLICY: Final = "roles.resources.gpu.memory"


@dataclass(frozen=True, slots=True)
class Resizable:
    """A running task whose memory may be changed: current and measured memory of each card, and the room."""

    task: Task
    cards: int
    memory_mib: int
    used_mib: int | None
    room: Room
    under_way: MemoryResize | None


def slice_memory_resize(
    *, acting_user: User, task: Task, memory_mib: int, expected: int | None = None
) -> MemoryResize:
    """Request so much memory of each card of a task, in MiB; the job's events report the outcome.

    Raises: PermissionDenied, NotFound; Conflict when the task does not run in slices, or another change is in
    progress; Invalid, Refused for the amount; PreconditionFailed when the job does not have the version
    `expected`.
    """
    require_stop(acting_user, task.job)
    return act_on(task.job, expected, lambda: _ask(acting_user, task, memory_mib))


@row_scope.whole()
def get_resizable(task: Task) -> Resizable:
    """Return the current memory of a task and its room; the caller has checked that the user may see the job.
    Raises: Conflict, when it cannot be changed.
    """
    allocation, slices = held_slices(task)
    under_way = _under_way(allocation)
    used = memory_in_use(allocation.pk)
    return Resizable(
        task,
        len(slices),
        slices[0].memory_mib,
        max(used.values(), default=None),
        room_of(task.job, allocation, slices),
        under_way,
    )


def _ask(user: User, task: Task, mib: int) -> MemoryResize:
    now, job = clock.now(), task.job
    # With this lock, commits and other resizes of the cell wait.
    Cell.unscoped.select_for_update(no_key=True).get(pk=job.queue.cell_id)
    _lock_job(job)
    allocation, slices = held_slices(task, locked=True)
    if _under_way(allocation) is not None:
        raise Conflict(_("A resize is already in progress."), code="RESIZE_UNDER_WAY")
    before = slices[0].memory_mib
    _check_amount(job, allocation, slices, mib)
    made = begin_resize(task, allocation, slices, mib, asked_by=user.get_username(), extra={}, now=now)
    audit_log.record_action(
        user,
        "job.resize",
        entity="job",
        entity_id=job.pk,
        tenant_id=job.workspace_id,
        before={"memory_mib": before},
        after={"role": task.role.name, "index": task.index, "memory_mib": mib},
    )
    outbox.add_hint(outbox.Topic.EXECUTE, allocation.node.cluster_id)
    return made


def begin_resize(
    task: Task,
    allocation: Allocation,
    slices: Sequence[DeviceSlice],
    mib: int,
    *,
    asked_by: str,
    extra: Mapping[str, int | str],
    now: datetime,
) -> MemoryResize:
    """Charge the additional memory, if any, and request the change from the cluster.

    `extra` is added to the job's event. The caller has locked the cell, the job and the allocation. Raises:
    Conflict, Refused, StaleJob.
    """
    job, before = task.job, slices[0].memory_mib
    if _under_way(allocation) is not None:
        raise Conflict(_("A resize is already in progress."), code="RESIZE_UNDER_WAY")
    if mib > before:
        require_room(job, allocation, slices, mib, now=now)
        try:
            charge_memory(job, allocation, slices, mib, now=now)
        except NoLongerFree as error:
            raise resize_refusal("CARD_FULL", _("No free GPU memory on this GPU.")) from error
    DeviceSlice.unscoped.filter(allocation=allocation).update(wanted_mib=mib)
    made = MemoryResize.unscoped.create(
        allocation=allocation, asked_by=asked_by, from_mib=before, to_mib=mib, deadline_at=now + WITHIN
    )
    numbers = {"role": task.role.name, "index": task.index, "from": before, "to": mib, **extra}
    advance_job(job, code="resizing", now=now, actor=asked_by, numbers=numbers)
    return made


def _lock_job(job: Job) -> None:
    """Lock the job's row. Raises: StaleJob when it was changed since it was read."""
    rows = Job.unscoped.select_for_update(of=("self",), no_key=True).filter(pk=job.pk, version=job.version)
    if not list(rows.values_list("pk")):
        raise StaleJob(_("Job %(name)s was changed at the same time.") % {"name": job.name})


def held_slices(task: Task, *, locked: bool = False) -> tuple[Allocation, list[DeviceSlice]]:
    """Return the allocation and slices of a running task. Raises: Conflict, if it doesn't run in slices."""
    rows = Allocation.unscoped.filter(task=task, released_at__isnull=True)
    if locked:
        rows = rows.select_for_update(of=("self",), no_key=True)
    allocation = rows.select_related("node__cluster", "flavor").first()
    state = Task.unscoped.filter(pk=task.pk).values_list("state", flat=True).first()
    if state is None:
        raise NotFound(_("Task not found."))
    going = task.job.state in _LIVE and state == TaskState.RUNNING
    if allocation is None or not going or allocation.ensured_at is None or allocation.removal_asked_at:
        raise Conflict(_("Only running tasks can be resized."), code="NOT_RUNNING")
    _check_cluster(allocation.node.cluster)
    slices = list(allocation.slices.select_related("device").order_by("device__index", "pk"))
    parts = task.role.gpu_mode == GpuRequestMode.SLICE and slices
    if not parts or any(part.exclusive or part.cores >= part.device.cores_capacity for part in slices):
        message = _("Only GPU slices can be resized; this task has whole GPUs or none.")
        raise Conflict(message, code="NOT_A_SLICE")
    return allocation, slices


def _check_cluster(cluster: Cluster) -> None:
    if not cluster.live_resize:
        message = _("Resizing GPU memory isn't enabled in cluster %(name)s.")
        raise Conflict(message % {"name": cluster.name}, code="RESIZE_OFF")
    if not capabilities_for(cluster).resize:
        message = _("Cluster %(name)s doesn't support resizing GPU memory.")
        raise Conflict(message % {"name": cluster.name}, code="RESIZE_OFF")


def _under_way(allocation: Allocation) -> MemoryResize | None:
    return MemoryResize.unscoped.filter(allocation=allocation, ended_at__isnull=True).first()


def _check_amount(job: Job, allocation: Allocation, slices: Sequence[DeviceSlice], mib: int) -> None:
    """Check the amount against the card, the policy and the measured use. Raises: Invalid, Refused."""
    card = min(allocation.flavor.card_memory_mib or mib, *(part.device.memory_capacity for part in slices))
    if mib < 1:
        raise _invalid("BELOW_MINIMUM", _("Minimum: 1 MiB."))
    if mib > card:
        raise _invalid("ABOVE_MAXIMUM", _("A GPU of this model has %(most)s MiB.") % {"most": card})
    if mib == slices[0].memory_mib:
        raise _invalid("UNCHANGED", _("The task already has this amount."))
    _check_policy(job, mib)
    used = max(memory_in_use(allocation.pk).values(), default=0)
    if mib < min(used, slices[0].memory_mib):
        message = _("Below current usage (%(used)s MiB).")
        raise resize_refusal("BELOW_USE", message, used=used, asked=mib)


def _check_policy(job: Job, mib: int) -> None:
    policy = combine_policies(path_policies(job.workspace))
    for limits, beyond in ((policy.minimum, mib.__lt__), (policy.maximum, mib.__gt__)):
        limit = limits.get(_POLICY)
        if limit is not None and beyond(limit.amount):
            message = _("Limit by the policy of %(tenant)s: %(limit)s.")
            extra = {"tenant": str(limit.tenant), "limit": str(limit.value)}
            raise resize_refusal(Reason.POLICY_DENIED, message, asked=mib, **extra)


def _invalid(code: str, message: str) -> Invalid:
    return Invalid(message, errors=[FieldError(FIELD, code, message)])
