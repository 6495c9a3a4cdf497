"""What work is usual: how often each kind of task is asked for.

Policies that look ahead learn it from a trace, or from the jobs of a snapshot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduling.engine.model import GpuMode, GpuRequest, Job, Request
from scheduling.engine.state.changes import Changes

COVERAGE = 0.95
# A share of one in so many tasks is the least that the coarse workload knows.
PARTS = 1024


@dataclass(frozen=True, slots=True, order=True)
class WorkloadShape:
    """A kind of task: millicores, core units per card, cards, and accepted models (`A|B`, empty = any)."""

    cpu: int
    cores: int
    cards: int
    models: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """Shapes with their numbers of tasks, most frequent first, equal counts in descending order of shape."""

    counts: tuple[tuple[WorkloadShape, int], ...] = ()

    @staticmethod
    def of(tasks: Iterable[WorkloadShape]) -> Workload:
        """The workload that these tasks make up."""
        return Workload.counted(Counter(tasks))

    @staticmethod
    def counted(counts: Counter[WorkloadShape]) -> Workload:
        """The workload with these numbers of tasks."""
        ranked = sorted(sorted(counts, reverse=True), key=lambda shape: -counts[shape])
        return Workload(tuple((shape, counts[shape]) for shape in ranked if counts[shape] > 0))

    @property
    def tasks(self) -> int:
        """How many tasks were counted."""
        return sum(count for _, count in self.counts)

    def coarse(self) -> Workload:
        """Shares rounded to powers of two, without what is rare: it stays the same while jobs come and go."""
        total = self.tasks
        levels = [(shape, round(math.log2(PARTS * count / total))) for shape, count in self.counts]
        return Workload.counted(Counter({shape: 1 << level for shape, level in levels if level >= 0}))

    def typical(self) -> list[tuple[WorkloadShape, float]]:
        """The most frequent shapes that cover 95 % of the tasks, with frequencies that sum to one.

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


def typical(tasks: Iterable[WorkloadShape]) -> list[tuple[WorkloadShape, float]]:
    """The typical shapes of these tasks with their frequencies, see `Workload.typical`."""
    return Workload.of(tasks).typical()


def workload_of(jobs: Iterable[Job], card_cores: int) -> Workload:
    """What jobs, waiting and running, ask for; a whole card counts as `card_cores` core units.

    Instances of cards that the vendor divides are left out: they compete with nobody for parts.
    """
    return Census(card_cores).of({job.id: job for job in jobs})


class Census:
    """The workload that jobs make up, counted on by the jobs that changed since it was last asked for."""

    def __init__(self, card_cores: int) -> None:
        self.card_cores = card_cores
        self._jobs: dict[str, Job] = {}
        self._counts: Counter[WorkloadShape] = Counter()
        self._seen = -1

    def follow(self, jobs: Mapping[str, Job], changes: Changes) -> Workload:
        """What these jobs, by id, ask for; always asked of the same jobs, of which these are the changes."""
        changed = None if self._seen < 0 else changes.since(self._seen)
        self._seen = changes.number
        return self._counted_on(jobs, {**self._jobs, **jobs} if changed is None else changed)

    def of(self, jobs: Mapping[str, Job]) -> Workload:
        """What these jobs, by id, ask for. It does not depend on what was counted before."""
        return self._counted_on(jobs, {**self._jobs, **jobs})

    def _counted_on(self, jobs: Mapping[str, Job], changed: Iterable[str]) -> Workload:
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
        return Workload.counted(self._counts)

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
