"""Reading changes of memory of running tasks."""

from __future__ import annotations

from foundation.actor import Actor
from scheduling.models import Job, MemoryResize
from tenants import permissions
from tenants.permissions import Permission

_SHOWN = 100


def resize_list(*, viewer: Actor, job: Job) -> list[MemoryResize]:
    """The latest changes of a job, newest first. Raises: NotFound, PermissionDenied."""
    permissions.require(viewer, Permission.JOB_VIEW, job.workspace)
    rows = MemoryResize.unscoped.filter(allocation__attempt__job=job)
    return list(rows.select_related("allocation__task__role").order_by("-created_at", "-pk")[:_SHOWN])
