"""This module counts the tasks of a snapshot's jobs by shape, from one cycle to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from scheduling.engine.model import GpuMode, GpuRequest, Job, Request, TaskWorkload, WorkloadShape
from scheduling.engine.state.job_changes import JobChanges

CACHE_SIZE = 4096


class WorkloadMix:
    """The workload of all jobs, pending and running, updated by the jobs that changed since the last call.

    A whole card counts as `card_cores` core units. Instances of cards that the vendor divides are left out:
    they compete with no other task for parts.
    """

    def __init__(self, card_cores: int) -> None:
        self.card_cores = card_cores
        self._jobs: dict[str, Job] = {}
        self._counts: Counter[WorkloadShape] = Counter()
        self._seen = -1

    def follow_changes(self, jobs: Mapping[str, Job], changes: JobChanges) -> TaskWorkload:
        """Return the workload of these jobs, by id; every call must concern the same jobs, of which these are
        the changes."""
        changed = None if self._seen < 0 else changes.jobs_since(self._seen)
        self._seen = changes.number
        return self._counted_on(jobs, {**self._jobs, **jobs} if changed is None else changed)

    def _counted_on(self, jobs: Mapping[str, Job], changed: Iterable[str]) -> TaskWorkload:
        for name in changed:
            known, job = self._jobs.get(name), jobs.get(name)
            if known is job:
                continue
            if known is None or job is None or known.roles is not job.roles:
                self._count(known, -1)
                self._count(job, 1)
            if job is None:
                del self._jobs[name]
            else:
                self._jobs[name] = job
        return TaskWorkload.from_counts(self._counts)

    def _count(self, job: Job | None, sign: int) -> None:
        for role in () if job is None else job.roles:
            shape = _shape(role.request, self.card_cores)
            if shape is None:
                continue
            self._counts[shape] += sign * role.replicas
            if not self._counts[shape]:
                del self._counts[shape]


@lru_cache(maxsize=CACHE_SIZE)
def _shape(request: Request, card_cores: int) -> WorkloadShape | None:
    gpu = request.gpu
    if gpu is None:
        return WorkloadShape(request.cpu, 0, 0)
    if gpu.mode is GpuMode.MIG:
        return None
    return WorkloadShape(request.cpu, _cores(gpu, card_cores), gpu.cards, "|".join(sorted(set(gpu.models))))


def _cores(gpu: GpuRequest, card_cores: int) -> int:
    if gpu.cores is not None:
        return min(gpu.cores, card_cores)
    if gpu.mode is GpuMode.SLICE and gpu.memory_percent is not None:
        return max(1, card_cores * gpu.memory_percent // 100)
    return card_cores
