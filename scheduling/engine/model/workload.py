"""This module counts how often each shape of task is asked for: the workload mix.

Policies that look ahead learn it from a trace, or from the jobs of a snapshot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

COVERAGE = 0.95
# The least share in a coarse workload, and the unit of shares in a rounded one, is one task in this many.
SMALLEST_SHARE = 1024


class WorkloadShape(NamedTuple):
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

    def to_shares(self) -> TaskWorkload:
        """Return the workload with shares in 1,024ths instead of numbers of tasks, without rarer shapes."""
        total = self.tasks
        shares = {shape: round(SMALLEST_SHARE * count / total) for shape, count in self.counts}
        return TaskWorkload.from_counts(Counter(shares))

    def measure_distance(self, other: TaskWorkload) -> float:
        """Return the share of tasks, 0 … 1, that would have to be of other shapes for the workloads to be
        equal: the total variation distance; 1 if only one of them has tasks."""
        tasks, others = self.tasks, other.tasks
        if not (tasks and others):
            return float(tasks != others)
        mine, theirs = dict(self.counts), dict(other.counts)
        return sum(max(count / tasks - theirs.get(shape, 0) / others, 0.0) for shape, count in mine.items())

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


EMPTY_WORKLOAD = TaskWorkload()
