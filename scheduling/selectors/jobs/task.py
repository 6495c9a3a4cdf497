"""Reads tasks with the nodes on which they run."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import F
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.sql.prepared import PreparedQuery
from scheduling.models import Allocation, DeviceSlice, Job, Task
from tenants.access import permissions
from tenants.access.permissions import Permission

_LATEST: Final = PreparedQuery(
    lambda tasks: (
        Allocation.unscoped.filter(task__pk__any_of=tasks, attempt__number=F("attempt__job__attempt_number"))
        .order_by("pk")
        .select_related("node__cluster", "flavor", "attempt")
    )
)
_HELD: Final = PreparedQuery(
    lambda allocations: (
        DeviceSlice.unscoped.filter(allocation__pk__any_of=allocations)
        .order_by("device__index", "pk")
        .select_related("device")
    )
)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task, its allocation in the latest attempt if it has one, and the slices of that allocation."""

    task: Task
    allocation: Allocation | None
    slices: Sequence[DeviceSlice]


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Tasks by role and index; `next` is the next offset, None at the end."""

    items: list[TaskRow]
    total: int
    next: int | None


def job_tasks(*, viewer: Actor, job: Job, offset: int = 0, limit: int = 100) -> TaskPage:
    """Return one page of a job's tasks, with a fixed number of queries.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    tasks = Task.unscoped.filter(job=job)
    shown = list(tasks.select_related("role").order_by("role__position", "index")[offset : offset + limit])
    # A waiting job holds nothing; the allocations of its last attempt are not shown.
    allocations = {} if job.is_waiting else _allocations(shown)
    slices = _slices(list(allocations.values()))
    # A page that is not full is the last one, so the total follows from it.
    ends = len(shown) < limit and (shown or not offset)
    total = offset + len(shown) if ends else tasks.count()
    rows = [_row(task, allocations.get(task.pk), slices) for task in shown]
    following = offset + len(shown)
    return TaskPage(rows, total, following if shown and following < total else None)


def task_get(*, viewer: Actor, job: Job, role: str, index: int) -> Task:
    """Return one task of a job; its `job` is the given object. Raises: NotFound, PermissionDenied."""
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    task = Task.unscoped.filter(job=job, role__name=role, index=index).select_related("role").first()
    if task is None:
        raise NotFound(_("Task %(role)s-%(index)s not found") % {"role": role, "index": index})
    task.job = job
    return task


def task_by_id(*, viewer: Actor, job: Job, key: uuid.UUID) -> Task:
    """Return one task of a job by its id. Raises: NotFound, PermissionDenied."""
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    task = Task.unscoped.filter(job=job, pk=key).select_related("role").first()
    if task is None:
        raise NotFound(_("Task not found."))
    task.job = job
    return task


def _allocations(tasks: Sequence[Task]) -> dict[uuid.UUID, Allocation]:
    return {row.task_id: row for row in _LATEST.for_any([task.pk for task in tasks])}


def _slices(allocations: Sequence[Allocation]) -> dict[uuid.UUID, list[DeviceSlice]]:
    found: defaultdict[uuid.UUID, list[DeviceSlice]] = defaultdict(list)
    for row in _HELD.for_any([allocation.pk for allocation in allocations]):
        found[row.allocation_id].append(row)
    return found


def _row(task: Task, allocation: Allocation | None, slices: dict[uuid.UUID, list[DeviceSlice]]) -> TaskRow:
    return TaskRow(task, allocation, slices.get(allocation.pk, ()) if allocation else ())
