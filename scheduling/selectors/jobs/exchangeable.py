"""The pending jobs that can exchange their positions in a queue without changing those of other jobs."""

from __future__ import annotations

from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from foundation.core.actor import Actor
from scheduling.models import Job, JobState
from scheduling.selectors.pending.queue_order import read_queue_order
from scheduling.snapshots.delegated import delegated_queues, delegating_clusters
from tenants.access import permissions
from tenants.access.permissions import Permission

_SHOWN = 100


def exchangeable_jobs(*, viewer: Actor, job: Job) -> list[Job]:
    """Return the jobs with which a pending job can exchange its position, in the order of the queue, 100 at
    most.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    if job.state != JobState.QUEUED or hasattr(job, "claim") or is_delegated(job):
        return []
    return list(equivalent_jobs(job).exclude(pk=job.pk).prefetch_related("roles")[:_SHOWN])


def exchangeable_places(*, viewer: Actor, job: Job) -> list[tuple[int, Job]]:
    """Return `exchangeable_jobs` with their positions in the queue, from 1. Raises: NotFound,
    PermissionDenied."""
    others = exchangeable_jobs(viewer=viewer, job=job)
    places = read_queue_order([job.queue_id]).find_places([other.pk for other in others]) if others else {}
    return [(places[other.pk], other) for other in others if other.pk in places]


def is_delegated(job: Job) -> bool:
    """Return whether a cluster's own scheduler orders the jobs of the job's queue."""
    return job.queue_id in delegated_queues(delegating_clusters(job.queue.cell_id))


def equivalent_jobs(job: Job) -> QuerySet[Job]:
    """Return the queued jobs of the same user, queue and priority without a claim, in their order."""
    own = Job.unscoped.filter(
        queue=job.queue_id,
        submitted_by=job.submitted_by_id,
        priority=job.priority,
        state=JobState.QUEUED,
        claim__isnull=True,
    )
    return own.order_by(Coalesce("order_at", "submitted_at"), "pk")
