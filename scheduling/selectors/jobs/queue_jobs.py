"""The jobs of one queue: pending ones in the order of the queue, and those that hold its quota."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from foundation.core.actor import Actor
from quotas.models import Queue
from scheduling.metering.intervals import count_borrowed_gpus, count_gpus
from scheduling.models import HOLDING_STATES, Allocation, Job
from scheduling.selectors.pending.queue_order import read_queue_order
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class HeldGpus:
    """The GPUs that a job holds, and how many of them it borrowed at admission; a slice is its share."""

    held: float
    borrowed: float


def queue_pending_jobs(*, viewer: Actor, queue: Queue) -> QuerySet[Job]:
    """Return the pending jobs of a queue in its order, with the relations that a row shows.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, queue.workspace)
    return _with_details(read_queue_order([queue.pk]).jobs)


def queue_admitted_jobs(*, viewer: Actor, queue: Queue) -> QuerySet[Job]:
    """Return the jobs that hold quota of a queue, in the order of their admission.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, queue.workspace)
    held = Job.unscoped.filter(queue=queue, state__in=HOLDING_STATES)
    return _with_details(held.order_by("admitted_at", "pk"))


def queue_admitted_ids(*, viewer: Actor, queue: Queue) -> list[uuid.UUID]:
    """Return the ids of the jobs that hold quota of a queue. Raises: NotFound, PermissionDenied."""
    permissions.require_permission(viewer, Permission.JOB_VIEW, queue.workspace)
    held = Job.unscoped.filter(queue=queue, state__in=HOLDING_STATES)
    return list(held.order_by().values_list("pk", flat=True))


def count_held_gpus(jobs: Collection[Job]) -> dict[uuid.UUID, HeldGpus]:
    """Return the GPUs that each job holds, by job id, in one query; jobs without an allocation are absent.

    The caller has checked permissions.
    """
    rows = Allocation.unscoped.filter(attempt__job__in=[job.pk for job in jobs], released_at__isnull=True)
    # The database groups tasks with equal charges.
    groups = rows.order_by().values_list("attempt__job_id", "attempt__borrowed", "flavor_id", "charge")
    held: defaultdict[uuid.UUID, Counter[str]] = defaultdict(Counter)
    borrowed: dict[uuid.UUID, dict[str, Any]] = {}
    for job_id, of_attempt, flavor, charge, tasks in groups.annotate(tasks=Count("pk")):
        borrowed[job_id] = of_attempt
        held[job_id].update({f"{flavor}/{name}": amount * tasks for name, amount in charge.items()})
    return {
        pk: HeldGpus(count_gpus(amounts), count_borrowed_gpus(borrowed[pk], amounts))
        for pk, amounts in held.items()
    }


def _with_details(jobs: QuerySet[Job]) -> QuerySet[Job]:
    shown = jobs.select_related("workspace", "submitted_by", "priority_class")
    return shown.prefetch_related("roles")
