"""Preferences among nodes, whole numbers from 0 to 100."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.index.grid import GridScore, NodeTable, ScoreGrid, ShapeTable
from scheduling.engine.state.fleet import Bools, Fleet, Ints
from scheduling.engine.state.memo import read_memo

FULL = 100
Floats = NDArray[np.float64]
_MOST = np.iinfo(np.int64).max
# As arrays without a dimension, which numpy combines with others faster than numbers or arrays of one.
_ONE, _HUNDRED = np.array(1.0), np.array(float(FULL))


def largest_node(fleet: Fleet) -> tuple[int, int]:
    """Millicores and core units of the biggest node in each respect; at least 1, as they divide."""
    return read_memo(fleet.memo, "largest_node", lambda: _find_largest(fleet))


def _find_largest(fleet: Fleet) -> tuple[int, int]:
    cpu = int(fleet.cpu.max(initial=1))
    cores = int((fleet.card_cores * fleet.present).sum(axis=1).max(initial=1))
    return max(cpu, 1), max(cores, 1)


def _left(asked: ShapeTable, nodes: NodeTable) -> tuple[Ints, Ints]:
    """Millicores and core units that would be left. `[shapes, nodes]`."""
    return nodes.cpu - asked.cpu[:, None], nodes.cards.total - asked.need[:, None]


def _bounded(amounts: Ints, most: int) -> Ints:
    """No less than nothing, and no more than the most. Much faster than `clip` where there are few."""
    bounded: Ints = np.minimum(np.maximum(amounts, 0), most)
    return bounded


class CompactScore(GridScore):
    """Fill nodes up: the less is left after the task, the better.

    A task with cards looks at cards, one without at CPU, and keeps away from nodes with free cards.
    """

    name, choosy = "compact", False

    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """The scores of all pairs."""
        cpu, cores = _left(asked, nodes)
        most_cpu, most_cores = largest_node(nodes.cards.fleet)
        half = FULL // 2
        filled = FULL - _bounded(FULL * cores // most_cores, FULL)
        if asked.cards.all():
            return ScoreGrid(filled)
        idle = _bounded(half * cpu // most_cpu, half) + _bounded(half * cores // most_cores, half)
        return ScoreGrid(np.where(asked.cards[:, None] > 0, filled, FULL - idle))


class SpreadScore(GridScore):
    """Keep load even: the more is left after the task, the better."""

    name, choosy = "spread", False

    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """The scores of all pairs."""
        cpu, cores = _left(asked, nodes)
        most_cpu, most_cores = largest_node(nodes.cards.fleet)
        left = np.where(asked.cards[:, None] > 0, FULL * cores // most_cores, FULL * cpu // most_cpu)
        return ScoreGrid(_bounded(left, FULL))


def normalise_scores(scores: Floats, feasible: Bools) -> Floats:
    """Scores of the feasible nodes spread over 0–100 by whole-number division; all equal gives 0."""
    low = scores[feasible].min(initial=np.inf)
    high = scores[feasible].max(initial=-np.inf)
    if high <= low:
        return np.zeros_like(scores)
    stretched: Floats = (scores - low) * FULL // (high - low)
    return stretched


SCORES: tuple[GridScore, ...] = (CompactScore(), SpreadScore())
