"""This module counts how often each shape of task is asked for: the workload mix.

Policies that look ahead learn it from a trace, or from the jobs of a snapshot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduling.engine.model import GpuMode, GpuRequest, Job, Request
from scheduling.engine.state.job_changes import JobChanges

COVERAGE = 0.95
# The least share in the coarse workload is one task in this many.
SMALLEST_SHARE = 1024


@dataclass(frozen=True, slots=True, order=True)
class WorkloadShape:
    """A shape of task: millicores, core units per card, cards, and accepted models (`A|B`, empty = any)."""

    cpu: int
    cores: int
    cards: int
    models: str = ""


@dataclass(frozen=True, slots=True)
class TaskWorkload:
    """Shapes with their numbers of tasks, most frequent first, equal counts in descending order of shape."""

    counts: tuple[tuple[WorkloadShape, int], ...] = ()

    @staticmethod
    def count_tasks(tasks: Iterable[WorkloadShape]) -> TaskWorkload:
        """Return the workload that these tasks make up."""
        return TaskWorkload.from_counts(Counter(tasks))

    @staticmethod
    def from_counts(counts: Counter[WorkloadShape]) -> TaskWorkload:
        """Return the workload with these numbers of tasks."""
        ranked = sorted(sorted(counts, reverse=True), key=lambda shape: -counts[shape])
        return TaskWorkload(tuple((shape, counts[shape]) for shape in ranked if counts[shape] > 0))

    @property
    def tasks(self) -> int:
        """The number of all tasks."""
        return sum(count for _, count in self.counts)

    def to_coarse(self) -> TaskWorkload:
        """Return the workload with shares rounded to powers of two and without rare shapes: it stays the same
        while jobs come and go."""
        total = self.tasks
        levels = [(shape, round(math.log2(SMALLEST_SHARE * count / total))) for shape, count in self.counts]
        return TaskWorkload.from_counts(Counter({shape: 1 << level for shape, level in levels if level >= 0}))

    def list_typical(self) -> list[tuple[WorkloadShape, float]]:
        """Return the most frequent shapes that cover 95 % of the tasks, with frequencies that sum to one.

        The order of the divisions is part of the published rule: it decides last bits.
        """
        total, covered = self.tasks, 0
        chosen: list[tuple[WorkloadShape, int]] = []
        for shape, count in self.counts:
            chosen.append((shape, count))
            covered += count
            if covered >= COVERAGE * total:
                break
        share = covered / total if total else 1.0
        return [(shape, (count / total) / share) for shape, count in chosen]


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
