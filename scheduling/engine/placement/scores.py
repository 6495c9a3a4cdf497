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


class DotProduct:
    """The published Dot Product: prefer nodes whose free CPU and cards point away from the request.

    Both are divided by the largest node's; cut to a whole number.
    """

    name, normalised = "dotprod", False

    def score(self, question: Question, rows: Rows) -> Ints:
        fleet, task = question.fleet, question.task
        most_cpu, most_cores = largest(fleet)
        cores = fleet.cores_free[rows].sum(axis=1)
        dot: NDArray[np.float64] = (fleet.cpu_free[rows] / most_cpu) * (task.cpu / most_cpu)
        dot = dot + (cores / most_cores) * (task.cards * task.cores / most_cores)
        return (FULL * (1.0 - dot / 2)).astype(np.int64)


class Packing:
    """The published GPU Packing: shared cards before free cards, and those before free nodes.

    On a node with all its n cards free max(33 − n, n); where k free cards are needed max(50 − k, 33);
    on a card in use 100 less a tenth of its free percentage, at least 50. Tasks without cards are
    indifferent.
    """

    name, normalised = "packing", False

    def score(self, question: Question, rows: Rows) -> Ints:
        fleet, task = question.fleet, question.task
        present = fleet.present[rows]
        count = present.sum(axis=1)
        if not task.cards:
            return np.zeros_like(count)
        free, whole = fleet.cores_free[rows], fleet.card_cores[rows]
        untouched = (free == whole).all(axis=1)
        opened = np.full_like(count, max(50 - task.cards, 33))
        if not task.whole:
            fits = question.fitting(rows)
            left = np.where(fits, free, whole.max(initial=1)).min(axis=1)
            size = whole.max(axis=1, initial=1)
            used = np.maximum(FULL - FULL * left // size // 10, 50)
            opened = np.where(left < size, used, opened)
        scores: Ints = np.where(untouched, np.maximum(33 - count, count), opened)
        return scores


def stretch(scores: Ints, feasible: Bools) -> Ints:
    """Scores of the feasible nodes spread over 0–100 by whole-number division; all equal gives 0."""
    low = scores[feasible].min(initial=np.iinfo(np.int64).max)
    high = scores[feasible].max(initial=0)
    if high <= low:
        return np.zeros_like(scores)
    stretched: Ints = (scores - low) * FULL // (high - low)
    return stretched


SCORES = (Compact(), Spread(), BestFit(), DotProduct(), Packing())
