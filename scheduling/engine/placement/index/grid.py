"""This module scores many shapes on many nodes at once.

A grid score computes every pair of a shape and a node by one expression over arrays. For one shape and all
nodes it fills a row of scores, as a board needs; for all shapes and one node it fills a column, as a score
matrix needs when that node changed. Both come from the same lines, so a cycle and a packing run cannot
disagree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import TaskWorkload
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import Bools, Fleet, Ints, Rows
from scheduling.engine.state.task_shape import TaskShape

Numbers = NDArray[Any]
BY_PICKER = -1


class ShapeTable:
    """The requests of shapes, one entry per shape: millicores, cards, core units and MiB per card.

    `cores` and `card_memory` of a shape without cards are 0; `need` is what it takes from all its cards
    together; `sliced` marks shapes that take a part of exactly one card, so that the choice of the card
    matters. Scores ignore a node's memory.
    """

    def __init__(self, tasks: Sequence[TaskShape]) -> None:
        self.tasks = tuple(tasks)
        self.cpu: Ints = np.array([task.cpu for task in tasks], np.int64)
        self.cards: Ints = np.array([task.cards for task in tasks], np.int64)
        self.cores: Ints = np.array([task.cores if task.cards else 0 for task in tasks], np.int64)
        self.card_memory: Ints = np.array([task.card_memory if task.cards else 0 for task in tasks], np.int64)
        self.whole: Bools = np.array([task.whole for task in tasks], np.bool_)
        self.need: Ints = self.cards * self.cores
        self.sliced: Bools = (self.cards == 1) & ~self.whole
        self.memo: dict[object, Any] = {}

    def __len__(self) -> int:
        return len(self.tasks)


class CardTable:
    """The cards of some rows of a fleet, as they were when the table was made.

    `memo` is for a score's own figures on exactly these shapes and cards.
    """

    __slots__ = ("_fitting", "_holds", "_left", "_rows", "_total", "fleet", "memo")

    def __init__(
        self, fleet: Fleet, rows: Rows, left: Any, holds: Any, fitting: Callable[[CardTable], Bools]
    ) -> None:
        """`left` and `holds` are arrays, or nested tuples that become arrays when they are read."""
        self.fleet = fleet
        self._rows = rows
        self._left = left
        self._holds = holds
        self._total: Ints | None = None
        self._fitting: Bools | Callable[[CardTable], Bools] = fitting
        self.memo: dict[object, Any] = {}

    @property
    def left(self) -> Ints:
        """Free core units. `[nodes, cards]`."""
        if type(self._left) is tuple:
            self._left = np.array(self._left, np.int64)
        left: Ints = self._left
        return left

    @property
    def holds(self) -> Ints:
        """Tasks with cards by class. `[nodes, classes]`; only for a score that says it reads `classes`."""
        if type(self._holds) is tuple:
            self._holds = np.array(self._holds, np.int64)
        holds: Ints = self._holds
        return holds

    @property
    def total(self) -> Ints:
        """Free core units on all cards of a node. `[nodes]`."""
        if self._total is None:
            if type(self._left) is tuple:
                self._total = np.array([sum(cards) for cards in self._left], np.int64)
            else:
                self._total = np.add.reduce(self._left, axis=1)
        return self._total

    @property
    def model(self) -> Ints:
        """Codes of the cards' models, -1 without a card. `[nodes, cards]`."""
        return self.fleet.model[self._rows]

    @property
    def present(self) -> Bools:
        """The mask of existing cards. `[nodes, cards]`."""
        return self.fleet.present[self._rows]

    @property
    def whole(self) -> Ints:
        """Core units of the cards when empty. `[nodes, cards]`."""
        return self.fleet.card_cores[self._rows]

    @property
    def fitting(self) -> Bools:
        """The cards that take a shape's part. `[shapes, nodes, cards]`."""
        if callable(self._fitting):
            self._fitting = self._fitting(self)
        return self._fitting


class NodeCards(CardTable):
    """The cards of one node, also as plain numbers: free core units on each card, and on all.

    If nothing but the free amount distinguishes them, so that a shape that fits on the node fits on all with
    enough left, `full` is the size of each; otherwise it is None.
    """

    __slots__ = ("amounts", "full", "row", "units")

    def __init__(
        self,
        fleet: Fleet,
        row: int,
        left: tuple[int, ...],
        classes: tuple[bool, ...] | None,
        fitting: Callable[[CardTable], Bools],
        full: int | None,
    ) -> None:
        """`row` is any node with the same cards when empty."""
        super().__init__(fleet, slice(row, row + 1), (left,), (classes,), fitting)
        self.row, self.amounts, self.units, self.full = row, left, sum(left), full


@dataclass(slots=True, eq=False)
class NodeTable:
    """Nodes as a grid score reads them: free millicores, and their cards."""

    cpu: Ints
    cards: CardTable


@dataclass(slots=True, eq=False)
class ScoreGrid:
    """Scores `[shapes, nodes]`, higher is better; they are meaningless where a shape does not fit.

    `node_columns` `[shapes, nodes]`, if the score depends on the card, is the column of the best card for
    sliced shapes and `BY_PICKER` for others; None leaves all cards to the device picker.
    """

    scores: Numbers
    columns: Ints | None = None

    def best_column(self, shape: int, node: int) -> int:
        """Return the best card of a node for a shape, or `BY_PICKER`."""
        return BY_PICKER if self.columns is None else int(self.columns[shape, node])


class NodeColumns(Protocol):
    """A score's results for the same shapes on one node after another. `choosy` is that of the score."""

    choosy: bool

    def scores_on_node(self, cpu: int, cards: NodeCards) -> Numbers:
        """Return the score of each shape on a node with so many free millicores; anything without a fit."""
        ...

    def best_card(self, cpu: int, cards: NodeCards, shape: int) -> int:
        """Return the column of the best card for a shape that fits, or `BY_PICKER`."""
        ...


class GridScore(ABC):
    """A score that computes all shapes and nodes at once, and so serves boards and matrices alike.

    `dtype` holds its scores exactly; `choosy` says whether grids may name columns.
    """

    name = ""
    normalised = False
    # Whether the score reads which classes of tasks a node has.
    classes = False
    choosy = True
    dtype: np.dtype[Any] = np.dtype(np.int8)

    @abstractmethod
    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """Return the scores of all pairs."""

    def node_columns(self, asked: ShapeTable, fleet: Fleet) -> NodeColumns:
        """Return the same results for nodes that come one at a time, for which a score may prepare itself."""
        return by_grid(self, asked)

    def score(self, question: Question, rows: Rows) -> Numbers:
        """Return the score of each row for one shape."""
        scores: Numbers = self.score_grid(*tables_for(question, rows)).scores[0].astype(self.dtype)
        return scores

    def best_card(self, question: Question, row: int) -> int:
        """Return the column of the best card for a sliced task on a row that fits, or `BY_PICKER`."""
        return self.score_grid(*tables_for(question, slice(row, row + 1))).best_column(0, 0)


class _ByGrid:
    """The columns of a score that prepares nothing."""

    def __init__(self, score: GridScore, asked: ShapeTable) -> None:
        self._score, self._asked = score, asked
        self.choosy = score.choosy

    def scores_on_node(self, cpu: int, cards: NodeCards) -> Numbers:
        """Return the grid of one node."""
        scores: Numbers = self._grid(cpu, cards).scores[:, 0].astype(self._score.dtype, copy=False)
        return scores

    def best_card(self, cpu: int, cards: NodeCards, shape: int) -> int:
        """Return the grid's column."""
        return self._grid(cpu, cards).best_column(shape, 0) if self.choosy else BY_PICKER

    def _grid(self, cpu: int, cards: NodeCards) -> ScoreGrid:
        return self._score.score_grid(self._asked, NodeTable(np.array((cpu,), np.int64), cards))


def by_grid(score: GridScore, asked: ShapeTable) -> NodeColumns:
    """Return columns that are grids of one node each."""
    return _ByGrid(score, asked)


class LearningScore(GridScore):
    """A score that must know the workload. Before it has learnt, it scores all nodes alike."""

    @abstractmethod
    def learn_from(self, workload: TaskWorkload, fleet: Fleet) -> GridScore:
        """Return the score for one workload and inventory; equal arguments give equal scores."""

    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """Return equal scores."""
        return ScoreGrid(np.zeros((len(asked), len(nodes.cpu)), self.dtype))


@lru_cache(maxsize=4096)
def _alone(task: TaskShape) -> ShapeTable:
    return ShapeTable((task,))


def tables_for(question: Question, rows: Rows) -> tuple[ShapeTable, NodeTable]:
    """Return one shape and some rows of a fleet as the tables that a grid score reads."""
    fleet = question.fleet
    left, holds = fleet.cores_free[rows], fleet.classes[rows]
    cards = CardTable(fleet, rows, left, holds, lambda table: question.fitting(rows)[None])
    return _alone(question.task), NodeTable(fleet.cpu_free[rows], cards)
