"""Reads the changes of GPU memory of running tasks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from clusters.models import Cluster
from foundation.core.actor import Actor
from scheduling.models import Job, MemoryResize
from tenants.access import permissions
from tenants.access.permissions import Permission

_SHOWN = 100


def resize_list(*, viewer: Actor, job: Job) -> list[MemoryResize]:
    """Return the latest changes of a job, newest first. Raises: NotFound, PermissionDenied."""
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    rows = MemoryResize.unscoped.filter(allocation__attempt__job=job)
    return list(rows.select_related("allocation__task__role").order_by("-created_at", "-pk")[:_SHOWN])


def resizing_clusters() -> frozenset[uuid.UUID]:
    """Return the clusters in which the GPU memory of running tasks may be changed."""
    return frozenset(Cluster.unscoped.filter(live_resize=True).values_list("pk", flat=True))


def resizes_under_way(allocations: Sequence[uuid.UUID]) -> dict[uuid.UUID, MemoryResize]:
    """Return the open changes of memory, by allocation. The caller has checked that the user may see the
    job."""
    rows = MemoryResize.unscoped.filter(allocation__in=allocations, ended_at__isnull=True)
    return {row.allocation_id: row for row in rows}
