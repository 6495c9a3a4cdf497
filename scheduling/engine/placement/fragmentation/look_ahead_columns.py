"""This module scores the platform's packing policy for nodes that come one at a time; the rule is in
`look_ahead`.

What depends on a node's cards, on the sum of its core units and on its CPU is kept apart, and combined for
each node. The first figure, before those of the shapes, is of the unchanged node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.fragmentation.look_ahead_tables import (
    Floats,
    LookAheadLevels,
    LookAheadTables,
)
from scheduling.engine.placement.index.grid import BY_PICKER, NodeCards, NodeColumns, Numbers, ShapeTable
from scheduling.engine.state.fleet import Fleet, Ints


class _Figures(NamedTuple):
    """The figures that depend on the cards alone: the gain for each shape, the best card for each part, and
    the first entries of worth rows, None if no groups of cards are at risk."""

    gain: Floats
    chosen: Ints
    worth_rows: Ints | None


class LookAheadColumns:
    """The scores of shapes on nodes with equal cards; other nodes are left to the `grid`.

    `pressed` is the price of a core unit by codes of models, with a last entry for nodes without cards.
    """

    choosy = True

    def __init__(
        self,
        asked: ShapeTable,
        fleet: Fleet,
        tables: LookAheadTables,
        levels: LookAheadLevels,
        pressed: Floats,
        grid: NodeColumns,
        *,
        risky: bool,
    ) -> None:
        self._levels, self._pressed, self._grid, self._risky = levels, pressed, grid, risky
        self._sliced: list[bool] = asked.sliced.tolist()
        self._cpu, self._need = _after_nothing(asked.cpu), _after_nothing(asked.need)
        self._cards = _after_nothing(np.where(asked.sliced, 0, asked.cards))
        self._whole_worth = tables.card_waste[-1] / tables.extent.card
        self._model: list[int] = fleet.model.max(axis=1, initial=-1).tolist()
        self._saved_waste, self._part = _saved_waste(asked, tables)
        self._parts: list[int] = self._part.tolist()
        self._bases: dict[int, Floats] = {}
        self._now = np.zeros(1, np.int64)
        self._by_cpu: dict[int, tuple[NDArray[np.int32], NDArray[np.int32] | None]] = {}
        self._by_units: dict[int, Ints] = {}
        self._by_empty: dict[tuple[int, int], Ints] = {}

    def scores_on_node(self, cpu: int, cards: NodeCards) -> Numbers:
        """Return the worth of the node for each shape, in cards."""
        if cards.full is None:
            return self._grid.scores_on_node(cpu, cards)
        figures = self._known(cards, cards.full)
        columns = self._by_cpu.get(cpu)
        if columns is None:
            self._now[0] = cpu
            left = self._now - self._cpu
            worth_column = self._levels.worth_column(left) if self._risky else None
            columns = self._by_cpu[cpu] = self._levels.cost_column(left), worth_column
        rows = self._by_units.get(cards.units)
        if rows is None:
            rows = self._by_units[cards.units] = self._cost_rows(cards.units)
        cost = self._levels.costs.take(rows + columns[0])
        worth = figures.gain + cost.item(0)
        worth -= cost[1:]
        if figures.worth_rows is not None and columns[1] is not None:
            held = self._levels.worth.take(figures.worth_rows + columns[1])
            worth -= held.item(0) - held[1:]
        scores: Numbers = worth.astype(np.float32)
        return scores

    def best_card(self, cpu: int, cards: NodeCards, shape: int) -> int:
        """Return the card on which a part does least harm."""
        if cards.full is None:
            return self._grid.best_card(cpu, cards, shape)
        if not self._sliced[shape]:
            return BY_PICKER
        return self._known(cards, cards.full).chosen.item(self._parts[shape])

    def _cost_rows(self, units: int) -> Ints:
        """Return the first entries of rows: of `cost` for the unchanged node, of `cost_left` for shapes."""
        rows = self._levels.cost_row(units - self._need)
        rows[1:] += len(self._levels.cost)
        return rows

    def _known(self, cards: NodeCards, full: int) -> _Figures:
        figures: _Figures | None = cards.memo.get("foresight")
        if figures is None:
            figures = cards.memo["foresight"] = self._figures(cards, full)
        return figures

    def _figures(self, cards: NodeCards, full: int) -> _Figures:
        model = self._model[cards.row]
        base = self._bases.get(model)
        if base is None:
            base = self._cards[1:] * self._whole_worth - self._need[1:] * self._pressed[model]
            self._bases[model] = base
        # A shape of whole cards has the last part, which gains nothing.
        saved = self._saved_waste.take(cards.amounts, axis=0)
        chosen = saved.argmax(axis=0)
        gain = base + np.maximum.reduce(saved, axis=0).take(self._part)
        return _Figures(gain, chosen, self._worth_rows(model, cards, full, chosen))

    def _worth_rows(self, model: int, cards: NodeCards, full: int, chosen: Ints) -> Ints | None:
        empty = cards.amounts.count(full)
        if not (empty and self._risky):
            return None
        rows = self._by_empty.get((model, empty))
        if rows is None:
            cached = np.maximum(empty - self._cards, 0)
            rows = self._by_empty[model, empty] = self._levels.worth_row(model, cached)
        opened = np.array([left == full for left in cards.amounts]).take(chosen)
        opened[-1] = False
        rows = rows.copy()
        rows[1:] -= opened.take(self._part) * self._levels.width
        return rows


def _saved_waste(asked: ShapeTable, tables: LookAheadTables) -> tuple[Floats, Ints]:
    """Return the saved waste by free core units of a card and part, in cards, and the part that each shape
    takes.

    `[card + 1, parts + 1]`, -1 where the part does not fit; the last is no part, with a gain of 0.
    """
    parts = np.unique(asked.cores[asked.sliced])
    left = np.arange(tables.extent.card + 1)[:, None]
    saved = tables.card_waste.take(left, mode="clip") - tables.card_waste.take(left - parts, mode="clip")
    saved *= 1 / tables.extent.card
    saved = np.where(left >= parts, saved, -1.0)
    part = np.where(asked.sliced, parts.searchsorted(asked.cores), len(parts))
    return np.concatenate([saved, np.zeros_like(left, np.float64)], axis=1), part


def _after_nothing(amounts: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), amounts])
