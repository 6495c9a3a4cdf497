"""The amounts that are allocated to a job on nodes."""

from __future__ import annotations

from typing import NamedTuple

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce

from foundation.core.actor import Actor
from scheduling.models import Allocation, DeviceSlice, Job
from tenants.access import permissions
from tenants.access.permissions import Permission


class JobHolds(NamedTuple):
    """The sums over all tasks of a job; `gpus` counts whole GPUs and slices."""

    cpu_millicores: int
    memory_mib: int
    gpus: int
    gpu_memory_mib: int


def sum_job_holds(*, viewer: Actor, job: Job) -> JobHolds:
    """Return the amounts that are allocated to a job now. Raises: NotFound, PermissionDenied."""
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    live = Allocation.unscoped.filter(attempt__job=job, released_at__isnull=True)
    slices = DeviceSlice.unscoped.filter(allocation__in=live, released=False)
    of_nodes = live.aggregate(
        cpu_millicores=Coalesce(Sum("cpu_millicores"), 0), memory_mib=Coalesce(Sum("memory_mib"), 0)
    )
    of_gpus = slices.aggregate(gpus=Count("pk"), gpu_memory_mib=Coalesce(Sum("memory_mib"), 0))
    return JobHolds(**of_nodes, **of_gpus)
