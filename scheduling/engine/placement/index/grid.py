"""Scores of many shapes on many nodes at once.

A grid score answers for every pair of a shape and a node by one expression over arrays. Asked for
one shape and all nodes it fills a row of scores, as a board needs; asked for all shapes and one node
it fills a column, as a score matrix needs when that node changed. Both come from the same lines, so
a cycle and a packing run cannot disagree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.workload import Workload
from scheduling.engine.state.fleet import Bools, Fleet, Ints, Rows
from scheduling.engine.state.shape import TaskShape

Numbers = NDArray[Any]
BY_PICKER = -1


class ShapeTable:
    """What shapes ask for, one entry per shape: millicores, cards, core units and MiB per card.

    `cores` and `card_memory` of a shape without cards are 0; `need` is what it takes from all its cards
    together; `sliced` marks shapes that take a part of exactly one card, so that it matters which. A
    node's memory is no matter for a score.
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
        """`left` and `holds` as arrays, or as nested tuples that become arrays when they are asked for."""
        self.fleet = fleet
        self._rows = rows
        self._left = left
        self._holds = holds
        self._total: Ints | None = None
        self._fitting: Bools | Callable[[CardTable], Bools] = fitting
        self.memo: dict[object, Any] = {}

    @property
    def left(self) -> Ints:
        """Core units left. `[nodes, cards]`."""
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
        """Core units left on all cards of a node. `[nodes]`."""
        if self._total is None:
            if type(self._left) is tuple:
                self._total = np.array([sum(cards) for cards in self._left], np.int64)
            else:
                self._total = np.add.reduce(self._left, axis=1)
        return self._total

    @property
    def model(self) -> Ints:
        """Codes of the cards' models, -1 where there is no card. `[nodes, cards]`."""
        return self.fleet.model[self._rows]

    @property
    def present(self) -> Bools:
        """Where there are cards. `[nodes, cards]`."""
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
    """The cards of one node, also in plain numbers: core units left on each card, and on all.

    Where nothing but what is left tells them apart, so that a shape that fits on the node fits on all
    with enough left, `full` is what each of them has when empty; else it is None.
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
    """Nodes as a grid score sees them: millicores left, and their cards."""

    cpu: Ints
    cards: CardTable


@dataclass(slots=True, eq=False)
class Grid:
    """Scores `[shapes, nodes]`, higher is better; where a shape does not fit they mean nothing.

    `columns` `[shapes, nodes]`, where the score depends on the card, is the column of the best card
    for sliced shapes and `BY_PICKER` for others; None leaves all cards to the device picker.
    """

    scores: Numbers
    columns: Ints | None = None

    def column(self, shape: int, node: int) -> int:
        """The best card of a node for a shape, or `BY_PICKER`."""
        return BY_PICKER if self.columns is None else int(self.columns[shape, node])


class Columns(Protocol):
    """A score's answers for the same shapes on one node after another. `choosy` as that of the score."""

    choosy: bool

    def scores(self, cpu: int, cards: NodeCards) -> Numbers:
        """The score of each shape on a node with so many millicores left; where it does not fit, anything."""
        ...

    def card(self, cpu: int, cards: NodeCards, shape: int) -> int:
        """The column of the best card for a shape that fits, or `BY_PICKER`."""
        ...


class GridScore(ABC):
    """A score that answers for all shapes and nodes at once, and so serves boards and matrices alike.

    `dtype` holds its scores exactly; `choosy` says whether grids may name columns.
    """

    name = ""
    normalised = False
    # Whether the score reads which classes of tasks a node holds.
    classes = False
    choosy = True
    dtype: np.dtype[Any] = np.dtype(np.int8)

    @abstractmethod
    def grid(self, asked: ShapeTable, nodes: NodeTable) -> Grid:
        """The scores of all pairs."""

    def columns(self, asked: ShapeTable, fleet: Fleet) -> Columns:
        """The same answers for nodes that come one at a time, for which a score may prepare itself."""
        return by_grid(self, asked)

    def score(self, question: Question, rows: Rows) -> Numbers:
        """The score of each row for one shape."""
        scores: Numbers = self.grid(*pairs(question, rows)).scores[0].astype(self.dtype)
        return scores

    def card(self, question: Question, row: int) -> int:
        """The column of the best card for a sliced task on a row that fits, or `BY_PICKER`."""
        return self.grid(*pairs(question, slice(row, row + 1))).column(0, 0)


class _ByGrid:
    """Columns of a score that prepares nothing."""

    def __init__(self, score: GridScore, asked: ShapeTable) -> None:
        self._score, self._asked = score, asked
        self.choosy = score.choosy

    def scores(self, cpu: int, cards: NodeCards) -> Numbers:
        """The grid of one node."""
        scores: Numbers = self._grid(cpu, cards).scores[:, 0].astype(self._score.dtype, copy=False)
        return scores

    def card(self, cpu: int, cards: NodeCards, shape: int) -> int:
        """The grid's column."""
        return self._grid(cpu, cards).column(shape, 0) if self.choosy else BY_PICKER

    def _grid(self, cpu: int, cards: NodeCards) -> Grid:
        return self._score.grid(self._asked, NodeTable(np.array((cpu,), np.int64), cards))


def by_grid(score: GridScore, asked: ShapeTable) -> Columns:
    """Columns that are grids of one node each."""
    return _ByGrid(score, asked)


class LearningScore(GridScore):
    """A score that must know what work is usual. Unlearnt it finds all nodes alike."""

    @abstractmethod
    def learnt(self, workload: Workload, fleet: Fleet) -> GridScore:
        """The score for one workload and inventory; equal arguments give equal scores."""

    def grid(self, asked: ShapeTable, nodes: NodeTable) -> Grid:
        """No preference."""
        return Grid(np.zeros((len(asked), len(nodes.cpu)), self.dtype))


@lru_cache(maxsize=4096)
def _alone(task: TaskShape) -> ShapeTable:
    return ShapeTable((task,))


def pairs(question: Question, rows: Rows) -> tuple[ShapeTable, NodeTable]:
    """One shape and some rows of a fleet, as a grid score wants them."""
    fleet = question.fleet
    left, holds = fleet.cores_free[rows], fleet.classes[rows]
    cards = CardTable(fleet, rows, left, holds, lambda table: question.fitting(rows)[None])
    return _alone(question.task), NodeTable(fleet.cpu_free[rows], cards)
