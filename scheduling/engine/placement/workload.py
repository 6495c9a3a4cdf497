"""What work is usual: how often each kind of task is asked for.

Policies that look ahead learn it from a trace, or from the jobs of a snapshot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.engine.model import GpuMode, GpuRequest, Job

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
    counts: Counter[WorkloadShape] = Counter()
    for job in jobs:
        for role in job.roles:
            gpu, cpu = role.request.gpu, role.request.cpu
            if gpu is None:
                counts[WorkloadShape(cpu, 0, 0)] += role.replicas
            elif gpu.mode is not GpuMode.MIG:
                models = "|".join(sorted(set(gpu.models)))
                counts[WorkloadShape(cpu, _cores(gpu, card_cores), gpu.cards, models)] += role.replicas
    return Workload.counted(counts)


def _cores(gpu: GpuRequest, card_cores: int) -> int:
    if gpu.cores is not None:
        return min(gpu.cores, card_cores)
    if gpu.mode is GpuMode.SLICE and gpu.memory_percent is not None:
        return max(1, card_cores * gpu.memory_percent // 100)
    return card_cores
