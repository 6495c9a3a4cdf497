"""The first job of a user who never submitted one: small, and within the quota of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.models import Flavor, GpuMode
from foundation.core.quantities import WHOLE_CARD, Resource
from quotas.selectors.queues.queue import queue_list
from quotas.selectors.tables.quota import workspace_quota
from quotas.selectors.tables.quota_row import QuotaRow
from tenants.models import Tenant, User

NAME: Final = "first-job"
PROGRAM: Final = {"image": "nvidia/cuda:12.8.1-base-ubuntu24.04", "command": "nvidia-smi"}
"""The program for clusters with real GPUs: it prints the job's GPUs."""
_CPU: Final = 8_000
_MEMORY_MIB: Final = 32 * 1024
_SLICE_PERCENT: Final = 25
_MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True)
class SampleJob:
    """The queue of a job, and the values of its only role in the form."""

    queue: str
    role: dict[str, Any]


def sample_job(viewer: User, workspace: Tenant) -> SampleJob | None:
    """Return a job with one GPU, or a slice of one, that fits the quota of a queue of the workspace.

    None if no queue has quota for any. Raises: NotFound, PermissionDenied.
    """
    rows = workspace_quota(viewer, workspace)
    for queue in queue_list(viewer, workspace):
        for place in queue.queue_flavors.all():
            own = [row for row in rows if (row.queue, row.flavor.pk) == (queue.name, place.flavor.pk)]
            role = _role(place.flavor, own)
            if role is not None:
                return SampleJob(queue.name, role)
    return None


def _role(flavor: Flavor, rows: Sequence[QuotaRow]) -> dict[str, Any] | None:
    """Return the role that the quota of one pool allows; None without GPUs, CPU or memory."""
    most = {row.resource: row.potential for row in rows}
    cpu, memory = (_at_most(most.get(of, 0), wish) for of, wish in _WISHES)
    if flavor.gpu_mode not in (GpuMode.WHOLE, GpuMode.SLICE) or cpu < 1 or memory < 1:
        return None
    sliced = flavor.gpu_mode == GpuMode.SLICE
    cores = _SLICE_PERCENT if sliced else int(WHOLE_CARD)
    if _at_most(most.get(Resource.GPU_CORES, 0), cores) < cores:
        return None
    if _at_most(most.get(Resource.GPU_CARDS, 0), 1) < 1:
        return None
    return {
        "name": "main",
        "replicas": 1,
        "cpu": f"{cpu / 1000:g}",
        "role_memory": f"{memory // _MIB_PER_GIB}Gi" if memory >= _MIB_PER_GIB else f"{memory}Mi",
        "gpu": f"{flavor.gpu_mode}:{flavor.card_model}",
        "cards": 1,
        "cores": _SLICE_PERCENT,
        "memory": f"{_SLICE_PERCENT}%",
    }


_WISHES: Final = ((Resource.CPU, _CPU), (Resource.MEMORY, _MEMORY_MIB))


def _at_most(amount: int | None, wish: int) -> int:
    return wish if amount is None else min(amount, wish)
