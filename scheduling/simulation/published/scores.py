"""The scores of policies that are published with the packing traces, whole numbers from 0 to 100."""

from __future__ import annotations

import numpy as np

from scheduling.engine.scoring import (
    BY_PICKER,
    FULL,
    CardTable,
    Fleet,
    Floats,
    GridScore,
    Ints,
    NodeCards,
    NodeColumns,
    NodeTable,
    Numbers,
    ScoreGrid,
    ShapeTable,
    largest_node,
)

_MOST = np.iinfo(np.int64).max
# Arrays without a dimension, which numpy combines with others faster than numbers or arrays of one element.
_ONE, _HUNDRED = np.array(1.0), np.array(float(FULL))


class BestFit(GridScore):
    """The published Best Fit of the packing traces: least CPU and card cores left, equally weighed.

    Both are divided by the largest_node node's; the result is cut to a whole number, then normalised over
    the feasible nodes. The order of the float operations is part of the rule.
    """

    name, normalised, choosy = "bestfit", True, False

    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """Return the scores of all pairs."""
        most_cpu, most_cores = largest_node(nodes.cards.fleet)
        left = _half(nodes.cpu, asked.cpu, most_cpu) + _half(nodes.cards.total, asked.need, most_cores)
        return ScoreGrid(_filled(left))

    def node_columns(self, asked: ShapeTable, fleet: Fleet) -> NodeColumns:
        """Return the same scores as `score_grid`, computed node by node."""
        return _BestFitColumns(asked, largest_node(fleet))


class _BestFitColumns:
    """Best Fit on single nodes. Nodes with equal numbers of free cores share the results for them."""

    choosy = False

    def __init__(self, asked: ShapeTable, most: tuple[int, int]) -> None:
        self._most_cpu, self._most_cores = np.array(float(most[0])), most[1]
        # Halves of whole numbers are exact, so the order of operations does not matter.
        self._half_now, self._half_cpu = np.array(0.0), 0.5 * asked.cpu
        self._left: Floats = np.zeros(len(asked))
        self._need = asked.need
        self._by_cores: dict[int, Floats] = {}

    def scores_on_node(self, cpu: int, cards: NodeCards) -> Numbers:
        """Return the scores of all shapes on one node."""
        by_cores = self._by_cores.get(cards.units)
        if by_cores is None:
            units = np.array((cards.units,), np.int64)
            by_cores = self._by_cores[cards.units] = _half(units, self._need, self._most_cores)[:, 0]
        self._half_now[()] = 0.5 * cpu
        left = np.subtract(self._half_now, self._half_cpu, self._left)
        np.divide(left, self._most_cpu, left)
        np.add(left, by_cores, left)
        return _filled(left)

    def best_card(self, cpu: int, cards: NodeCards, shape: int) -> int:
        """Return no preference."""
        return BY_PICKER


def _filled(left: Floats) -> Numbers:
    """Return the allocated part in percent, truncated to a whole number; `left` is overwritten."""
    np.subtract(_ONE, left, left)
    np.multiply(left, _HUNDRED, left)
    return left.astype(BestFit.dtype)


def _half(free: Ints, taken: Ints, most: int) -> Floats:
    """Return half the part of the largest amount that would be left. `[shapes, nodes]`."""
    half: Floats = 0.5 * (free - taken[:, None]) / most
    return half


class DotProduct(GridScore):
    """The published Dot Product: prefer nodes whose free CPU and cards point away from the request.

    Both are divided by the largest_node node's; cut to a whole number.
    """

    name, choosy = "dotprod", False

    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """Return the scores of all pairs."""
        most_cpu, most_cores = largest_node(nodes.cards.fleet)
        dot: Floats = (nodes.cpu / most_cpu) * (asked.cpu / most_cpu)[:, None]
        dot = dot + (nodes.cards.total / most_cores) * (asked.need / most_cores)[:, None]
        return ScoreGrid((FULL * (1.0 - dot / 2)).astype(np.int64))


class Packing(GridScore):
    """The published GPU Packing: shared cards before free cards, and those before free nodes.

    On a node with all its n cards free max(33 − n, n); where k free cards are needed max(50 − k, 33);
    on a card in use 100 less a tenth of its free percentage, at least 50. Tasks without cards are
    indifferent.
    """

    name, choosy = "packing", False

    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """The scores of all pairs. They depend on the cards alone, and so are kept with them."""
        known: Ints | None = nodes.cards.memo.get("packing")
        if known is None:
            known = nodes.cards.memo["packing"] = self._bands(asked, nodes.cards)
        return ScoreGrid(known)

    def _bands(self, asked: ShapeTable, cards: CardTable) -> Ints:
        count = cards.present.sum(axis=1)
        untouched = (cards.left == cards.whole).all(axis=1)
        left = np.where(cards.fitting, cards.left, cards.whole.max(initial=1)).min(axis=2, initial=_MOST)
        size = cards.whole.max(axis=1, initial=1)
        used = np.maximum(FULL - FULL * left // size // 10, 50)
        opened = np.maximum(50 - asked.cards, 33)[:, None]
        touched = np.where((left < size) & ~asked.whole[:, None], used, opened)
        scores: Ints = np.where(untouched, np.maximum(33 - count, count), touched)
        return np.where(asked.cards[:, None] > 0, scores, 0)


class Clustering(GridScore):
    """The published GPU Clustering: tasks of one class together. Classes: slices, one card, two cards, …

    A node that holds only this class 75, this among others 50, nothing 25, only others 0, and up to 25
    by how full its cards are. Tasks without cards are indifferent.
    """

    name, classes, choosy = "clustering", True, False

    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """The scores of all pairs. They depend on the cards alone, and so are kept with them."""
        known: Ints | None = nodes.cards.memo.get("clustering")
        if known is None:
            known = nodes.cards.memo["clustering"] = self._bands(asked, nodes.cards)
        return ScoreGrid(known)

    def _bands(self, asked: ShapeTable, cards: CardTable) -> Ints:
        _, most_cores = largest_node(cards.fleet)
        own_class = np.minimum(np.where(asked.whole, asked.cards, 0), cards.holds.shape[1] - 1)
        own = cards.holds.T[own_class] > 0
        kinds = (cards.holds > 0).sum(axis=1)
        band = np.where(own, np.where(kinds == 1, 75, 50), np.where(kinds, 0, 25))
        full = 25 * (most_cores - cards.total) // most_cores
        return np.where(asked.cards[:, None] > 0, band + full, 0)
