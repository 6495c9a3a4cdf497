"""Finds the largest jobs that would start now in a queue, by pool and by GPUs per task.

Each size is previewed as a submission by one engine cycle with all pending jobs, so that quota, borrowing,
policies, CPU and memory all count. Nothing is written.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from clusters.models import GpuMode
from foundation.core.errors import Refused
from foundation.core.quantities import Resource
from quotas.models import Queue
from quotas.selectors.pools.pool import WorkspacePool, pool_list
from quotas.selectors.pools.pool_size import PoolSize, pool_sizes
from quotas.selectors.tables.quota import workspace_quota
from quotas.selectors.tables.quota_row import QuotaRow
from scheduling.engine_input.config import preview_config
from scheduling.services.jobs.job_check import job_check
from scheduling.services.jobs.job_preview import JobPreview, preview_in
from scheduling.services.jobs.job_read import job_read
from scheduling.services.previewing import preview
from scheduling.snapshots import read_cell
from tenants.models import User

WHOLE_SIZES: Final = (1, 2, 4, 8)
"""The numbers of GPUs of one task that are tried."""
SLICE_SIZES: Final = (25, 50)
"""The slices that are tried: compute and memory of one GPU, in percent."""
TASKS_MAX: Final = 512
"""The largest number of tasks that is tried."""
_MIB_PER_GIB: Final = 1024
_CPU, _MEMORY_MIB = 1_000, 1_024
"""The CPU (millicores) and memory (MiB) of a task if the pool's ratio to GPUs is unknown."""


@dataclass(frozen=True, slots=True)
class TaskSize:
    """The request of one task. `gpus` counts whole GPUs, 0 for a slice of `percent`; CPU in millicores."""

    gpus: int
    percent: int
    cpu: int
    memory_mib: int


PreviewJob = Callable[[str, TaskSize, int], JobPreview]


@dataclass(frozen=True, slots=True)
class StartableJob:
    """The largest job of one shape; `tasks` is 0 if none starts.

    `reason` is why a job with one task more would wait or be refused. If it is "", `tasks` is a lower bound,
    because `TASKS_MAX` tasks start or the time of the preview was over. `refused` is the preview of the job
    with one task more.
    """

    shape: TaskSize
    tasks: int
    reason: str
    refused: JobPreview | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class StartablePool:
    """The largest jobs in GPUs of one model; `pools` are the queue's pools with this model."""

    model: str
    pools: tuple[WorkspacePool, ...]
    jobs: tuple[StartableJob, ...]


def _list_unknown(*, viewer: User, queue: Queue) -> list[StartablePool]:
    return _list_pools(viewer, queue, lambda *_job: JobPreview("", {}, [], timed_out=True))


@preview(when_late=_list_unknown)
def find_startable(*, viewer: User, queue: Queue) -> list[StartablePool]:
    """Return the largest jobs that would start now, in the pools of a queue that have GPUs; MIG is left out.

    All cycles together take at most the time of a preview; remaining sizes are unknown.
    Raises: PermissionDenied without the right to submit.
    """
    return _list_pools(viewer, queue, _Trials(viewer, queue).preview_job)


def _list_pools(viewer: User, queue: Queue, preview_job: PreviewJob) -> list[StartablePool]:
    allowed = {place.flavor_id for place in queue.queue_flavors.all()}
    by_model: defaultdict[str, list[WorkspacePool]] = defaultdict(list)
    for pool in pool_list(viewer, queue.workspace):
        if pool.flavor.pk in allowed and pool.flavor.gpu_mode in (GpuMode.WHOLE, GpuMode.SLICE):
            by_model[pool.flavor.card_model].append(pool)
    sizes = pool_sizes(pool.flavor for pools in by_model.values() for pool in pools)
    rows = [row for row in workspace_quota(viewer, queue.workspace) if row.queue == queue.name]
    return [
        StartablePool(model, tuple(pools), tuple(_find_jobs(model, pools, sizes, rows, preview_job)))
        for model, pools in by_model.items()
    ]


def list_larger_blocks(pool: StartablePool) -> list[StartableJob]:
    """Return the jobs of one task for which the pool has enough free GPUs, but no node has."""
    free = [gpus for one in pool.pools for gpus in one.free_by_node.values()]
    most = max(free, default=0)
    return [found for found in pool.jobs if not found.tasks and most < found.shape.gpus <= sum(free)]


class _Trials:
    """Previews for one queue on one reading of its cell, which share the time of one preview."""

    def __init__(self, viewer: User, queue: Queue) -> None:
        self._viewer, self._queue = viewer, queue
        self._reading = read_cell(queue.cell_id)
        self._config = preview_config(self._reading.sharing)

    def preview_job(self, model: str, shape: TaskSize, tasks: int) -> JobPreview:
        """Preview a job with so many tasks; if its submission is refused, the refusal is its reason."""
        gpu: dict[str, Any] = {"mode": "whole", "cards": shape.gpus, "model": [model]}
        if shape.percent:
            gpu |= {"mode": "slice", "cards": 1, "cores": shape.percent, "memory": f"{shape.percent}%"}
        resources = {"cpu": f"{shape.cpu}m", "memory": f"{shape.memory_mib}Mi", "gpu": gpu}
        role = {"name": "main", "replicas": tasks, "resources": resources}
        body = {"name": "startable", "queue": self._queue.name, "roles": [role]}
        try:
            reading = job_read(acting_user=self._viewer, workspace=self._queue.workspace, body=body)
            submission = job_check(
                acting_user=self._viewer,
                workspace=self._queue.workspace,
                spec=reading.spec,
                policy=reading.policy,
            )
        except Refused as refused:
            return JobPreview(refused.code, refused.numbers, [])
        return preview_in(self._reading.build_snapshot(), submission, self._config)


def _find_jobs(
    model: str,
    pools: Sequence[WorkspacePool],
    sizes: Mapping[uuid.UUID, PoolSize],
    rows: Sequence[QuotaRow],
    preview_job: PreviewJob,
) -> Iterator[StartableJob]:
    ids = {pool.flavor.pk for pool in pools}
    own = [row for row in rows if row.flavor.pk in ids and row.resource == Resource.GPU_CORES]
    free = [count for pool in pools for count in pool.free_by_node.values()]
    for shape in _shapes(pools, sizes[pools[0].flavor.pk]):
        size = shape.gpus or shape.percent / 100
        guess = int(sum(count // size for count in free))
        if all(row.available is not None for row in own):
            guess = min(guess, int(sum(row.available or 0 for row in own) // (100 * size)))
        yield find_most(shape, partial(preview_job, model, shape), guess)


def find_most(shape: TaskSize, preview: Callable[[int], JobPreview], guess: int) -> StartableJob:
    """Return the largest number of tasks of a shape that starts; the search begins at `guess`.

    It assumes that all smaller numbers of tasks start as well.
    """
    starts, waits, refused = 0, TASKS_MAX + 1, None
    tasks = min(max(guess, 1), TASKS_MAX)
    while waits - starts > 1:
        seen = preview(tasks)
        if seen.timed_out:
            return StartableJob(shape, starts, "")
        if seen.starts:
            starts = tasks
        else:
            waits, refused = tasks, seen
        # A correct guess needs two previews; otherwise the number is doubled or the interval is halved.
        if waits > TASKS_MAX:
            tasks = min(max(starts + 1, 2 * starts) if starts > guess else starts + 1, TASKS_MAX)
        else:
            tasks = (starts + waits) // 2
    return StartableJob(shape, starts, refused.reason if refused else "", refused)


def _shapes(pools: Sequence[WorkspacePool], size: PoolSize) -> Iterator[TaskSize]:
    most = max(pool.largest_node for pool in pools)
    for gpus in WHOLE_SIZES:
        if gpus <= most:
            yield TaskSize(gpus, 0, *_beside(size, gpus, 100))
    if any(pool.flavor.gpu_mode == GpuMode.SLICE for pool in pools):
        for percent in SLICE_SIZES:
            yield TaskSize(0, percent, *_beside(size, 1, percent))


def _beside(size: PoolSize, gpus: int, percent: int) -> tuple[int, int]:
    """Return the CPU and memory that go with GPUs by the ratio of the pool, memory in whole GiB."""
    cpu, memory = (size.compute_share(resource, gpus) for resource in (Resource.CPU, Resource.MEMORY))
    in_gib = (memory or _MEMORY_MIB) * percent // 100 // _MIB_PER_GIB * _MIB_PER_GIB
    return max((cpu or _CPU) * percent // 100, 1), in_gib or _MEMORY_MIB
