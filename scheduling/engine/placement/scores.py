"""Preferences among nodes, whole numbers from 0 to 100."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.question import Question
from scheduling.engine.state.fleet import Bools, Fleet, Ints, Rows

FULL = 100


def largest(fleet: Fleet) -> tuple[int, int]:
    """Millicores and core units of the biggest node in each respect; at least 1, as they divide."""
    known = fleet.memo.get("largest")
    if known is None:
        cpu = int(fleet.cpu.max(initial=1))
        cores = int((fleet.card_cores * fleet.present).sum(axis=1).max(initial=1))
        known = fleet.memo["largest"] = (max(cpu, 1), max(cores, 1))
    pair: tuple[int, int] = known  # type: ignore[assignment]
    return pair


def _left(question: Question, rows: Rows) -> tuple[Ints, Ints]:
    fleet, task = question.fleet, question.task
    cores: Ints = fleet.cores_free[rows].sum(axis=1) - task.cards * task.cores
    return fleet.cpu_free[rows] - task.cpu, cores


class Compact:
    """Fill nodes up: the less is left after the task, the better.

    A task with cards looks at cards, one without at CPU, and keeps away from nodes with free cards.
    """

    name, normalised = "compact", False

    def score(self, question: Question, rows: Rows) -> Ints:
        cpu, cores = _left(question, rows)
        most_cpu, most_cores = largest(question.fleet)
        if question.task.cards:
            return FULL - np.clip(FULL * cores // most_cores, 0, FULL)
        half = FULL // 2
        crowded = half - np.clip(half * cpu // most_cpu, 0, half)
        return crowded + half - np.clip(half * cores // most_cores, 0, half)


class Spread:
    """Keep load even: the more is left after the task, the better."""

    name, normalised = "spread", False

    def score(self, question: Question, rows: Rows) -> Ints:
        cpu, cores = _left(question, rows)
        most_cpu, most_cores = largest(question.fleet)
        left, most = (cores, most_cores) if question.task.cards else (cpu, most_cpu)
        return np.clip(FULL * left // most, 0, FULL)


class BestFit:
    """The published Best Fit of the packing traces: least CPU and card cores left, equally weighed.

    Both are divided by the largest node's; the result is cut to a whole number, then normalised over
    the feasible nodes. The order of the float operations is part of the rule.
    """

    name, normalised = "bestfit", True

    def score(self, question: Question, rows: Rows) -> Ints:
        cpu, cores = _left(question, rows)
        most_cpu, most_cores = largest(question.fleet)
        left: NDArray[np.float64] = 0.5 * cpu / most_cpu + 0.5 * cores / most_cores
        return (FULL * (1.0 - left)).astype(np.int64)


def stretch(scores: Ints, feasible: Bools) -> Ints:
    """Scores of the feasible nodes spread over 0–100 by whole-number division; all equal gives 0."""
    low = scores[feasible].min(initial=np.iinfo(np.int64).max)
    high = scores[feasible].max(initial=0)
    if high <= low:
        return np.zeros_like(scores)
    stretched: Ints = (scores - low) * FULL // (high - low)
    return stretched


SCORES = (Compact(), Spread(), BestFit())
