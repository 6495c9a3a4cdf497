"""Reads the attempts of a job with their allocations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from foundation.core.actor import Actor
from scheduling.models import Allocation, Attempt, DeviceSlice, Job
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt with its allocations by task, and the GPUs of each allocation."""

    attempt: Attempt
    allocations: Sequence[Allocation]
    slices: dict[Allocation, list[DeviceSlice]]


def job_attempts(*, viewer: Actor, job: Job, limit: int = 50) -> list[Attempt]:
    """Return the attempts of a job, newest first. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    return list(Attempt.unscoped.filter(job=job).order_by("-number")[:limit])


def attempt_rows(
    *, viewer: Actor, job: Job, numbers: Collection[int], tasks: int = 1000
) -> dict[int, AttemptRow]:
    """Return the attempts of these numbers, each with the allocations of its first `tasks` tasks.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    found = {}
    for attempt in Attempt.unscoped.filter(job=job, number__in=numbers):
        rows = list(
            Allocation.unscoped.filter(attempt=attempt)
            .select_related("node__cluster", "flavor", "task__role")
            .order_by("task__role__position", "task__index", "pk")[:tasks]
        )
        slices: defaultdict[Allocation, list[DeviceSlice]] = defaultdict(list)
        by_key = {row.pk: row for row in rows}
        held = DeviceSlice.unscoped.filter(allocation__in=rows).select_related("device")
        for part in held.order_by("device__index", "pk"):
            slices[by_key[part.allocation_id]].append(part)
        found[attempt.number] = AttemptRow(attempt, rows, dict(slices))
    return found
