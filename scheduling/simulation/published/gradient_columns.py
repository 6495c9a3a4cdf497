"""Fragmentation Gradient Descent for nodes that come one at a time; the rule is in `gradient`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from scheduling.engine.scoring import (
    BY_PICKER,
    Fleet,
    Floats,
    Ints,
    NodeCards,
    NodeColumns,
    Numbers,
    ShapeTable,
)
from scheduling.simulation.published.expected_fragmentation import ExpectedFragmentation
from scheduling.simulation.published.fragmentation_table import CardDemands, ExpectedFragmentationTable


class _Classes:
    """Classes of CPU amounts: within a class, each shape leaves a node at the same level of CPU, or does not
    fit.

    `places` are the indexes of the shapes in a table, followed by that of the unchanged node.
    """

    def __init__(self, waste: ExpectedFragmentation, asked: ShapeTable, demands: CardDemands) -> None:
        self._waste, self._asked, self._demands = waste, asked, demands
        cpu, amounts = np.unique(asked.cpu), waste.amounts
        bounds = np.concatenate([cpu, amounts, (cpu[:, None] + amounts).reshape(-1)])
        self._bounds: list[int] = np.unique(bounds).tolist()
        self._places: dict[int, Ints] = {}

    def of(self, cpu: int) -> int:
        """Return the class of an amount of millicores."""
        return bisect_right(self._bounds, cpu)

    def places(self, number: int) -> Ints:
        """Return the index in the table of each shape in this class. `[shapes + 1]`"""
        places = self._places.get(number)
        if places is None:
            cpu, asked = self._bounds[number - 1] if number else -1, self._asked.cpu
            left = np.where(asked <= cpu, cpu - asked, cpu)
            width = len(self._demands)
            places = self._waste.cpu_level(np.append(left, cpu)) * width
            places += np.append(self._demands.by_shape, width - 1)
            self._places[number] = places
        return places


@dataclass(slots=True, eq=False)
class _OnCards:
    """The results for nodes with certain cards: scores by class of CPU, best cards by class and shape."""

    table: ExpectedFragmentationTable
    classes: _Classes
    scores: dict[int, Ints] = field(default_factory=dict)
    columns: dict[tuple[int, int], int] = field(default_factory=dict)


class GradientColumns:
    """Scores of shapes on nodes with equal cards; `grid` computes those of other nodes.

    `waste_of` returns the expected fragmentation by the code of a node's model, `score_of` the scores of
    gradients.
    """

    choosy = True

    def __init__(
        self,
        asked: ShapeTable,
        fleet: Fleet,
        grid: NodeColumns,
        waste_of: Callable[[int], ExpectedFragmentation],
        score_of: Callable[[Floats], Ints],
    ) -> None:
        self._asked, self._grid, self._waste_of, self._score_of = asked, grid, waste_of, score_of
        self._demands = CardDemands(asked)
        self._sliced: list[bool] = asked.sliced.tolist()
        self._model: list[int] = fleet.model.max(axis=1, initial=-1).tolist()
        self._classes: dict[ExpectedFragmentation, _Classes] = {}
        self._tables: dict[object, ExpectedFragmentationTable] = {}

    def scores_on_node(self, cpu: int, cards: NodeCards) -> Numbers:
        """Return the score of each shape."""
        if cards.full is None:
            return self._grid.scores_on_node(cpu, cards)
        known = self._known(cards, cards.full)
        number = known.classes.of(cpu)
        scores = known.scores.get(number)
        if scores is None:
            least = known.table.minimum_at(known.classes.places(number))
            scores = known.scores[number] = self._score_of(least[-1:] - least[:-1])
        return scores

    def best_card(self, cpu: int, cards: NodeCards, shape: int) -> int:
        """Return the lowest of the cards with the best score."""
        if cards.full is None:
            return self._grid.best_card(cpu, cards, shape)
        if not self._sliced[shape]:
            return BY_PICKER
        known = self._known(cards, cards.full)
        key = known.classes.of(cpu), shape
        column = known.columns.get(key)
        if column is None:
            column = known.columns[key] = self._best(known, cards, *key)
        return column

    def _best(self, known: _OnCards, cards: NodeCards, number: int, shape: int) -> int:
        places, table = known.classes.places(number), known.table
        before = table.by_card_value(int(places[-1]))[:1]
        after = table.by_card_value(int(places[shape]))
        scores = np.where(np.isfinite(after), self._score_of(before - after), -1).tolist()
        by_value = dict(zip(table.values, scores, strict=True))
        by_column = [by_value[left] if left else -1 for left in cards.amounts]
        return by_column.index(max(by_column))

    def _known(self, cards: NodeCards, full: int) -> _OnCards:
        known: _OnCards | None = cards.memo.get("fgd")
        if known is None:
            waste = self._waste_of(self._model[cards.row])
            classes = self._classes.get(waste)
            if classes is None:
                classes = self._classes[waste] = _Classes(waste, self._asked, self._demands)
            left = sorted(filter(None, cards.amounts))
            key = waste, full, *left
            table = self._tables.get(key)
            if table is None:
                table = self._tables[key] = ExpectedFragmentationTable(waste, self._demands, left, full)
            known = cards.memo["fgd"] = _OnCards(table, classes)
        return known
