"""Which nodes are cheapest to clear for a waiting job, counted without placing anything.

Taking up movable jobs in the order of their priority and age opens a node by chance only; on a large fleet
the chance is small. Here each node is asked which of the units that stand on it alone would have to move
so that one more task of the hardest shape fits, and the cheapest nodes come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from scheduling.engine.gang.moves import Unit
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.capacity import slots
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.state.fleet import ALL_ROWS, Ints

# Sets of nodes that one search tries, and nodes that it looks at: those with the most room come first.
NODES_TRIED = 32
NODES_SEEN = 256


class _Room(NamedTuple):
    cpu: int
    memory: int
    cores: int


class Cleared(NamedTuple):
    """A node and what would have to move from it.

    `cost` orders nodes: low priorities first, then little work lost, then few cards, then new jobs.
    """

    cost: tuple[int, float, int, float, str]
    units: tuple[Unit, ...]


def openings(board: Board, tasks: int, units: Iterable[Unit]) -> Iterator[tuple[Unit, ...]]:
    """Sets of units to take up together, cheapest first, for so many tasks of the board's shape."""
    cleared = sorted(_clearable(board, units), key=lambda node: node.cost)
    free = int(np.minimum(np.where(board.feasible(), slots(board.question), 0), tasks).sum())
    width = max(1, tasks - free)
    for start in range(min(NODES_TRIED, len(cleared) - width + 1)):
        yield tuple(unit for node in cleared[start : start + width] for unit in node.units)


class Promise:
    """Whether the tasks of a shape could have room with the movers told of so far gone; an upper bound.

    Core units of cards are counted node by node, whichever card they are on.
    """

    def __init__(self, board: Board, tasks: int) -> None:
        question = board.question
        self._row, self._tasks = question.fleet.row, tasks
        self._each = 0 if question.task.derived else question.task.cards * question.task.cores
        mine = np.where(question.usable & question.members[:, None], question.fleet.cores_free, 0)
        self._free: list[int] = mine.sum(axis=1).tolist()
        self._room = sum(free // self._each for free in self._free) if self._each else tasks

    def with_(self, unit: Unit) -> bool:
        """The same with one more mover gone."""
        for task in unit.tasks if self._each else ():
            row = self._row.get(task.node)
            if row is not None:
                before = self._free[row]
                self._free[row] += sum(part.cores for part in task.slices)
                self._room += self._free[row] // self._each - before // self._each
        return self._room >= self._tasks


def _clearable(board: Board, units: Iterable[Unit]) -> Iterator[Cleared]:
    fleet, task = board.question.fleet, board.question.task
    by_row: dict[int, list[Unit]] = {}
    for unit in units:
        row = fleet.row.get(unit.tasks[0].node)
        if row is not None and all(entry.node == unit.tasks[0].node for entry in unit.tasks):
            by_row.setdefault(row, []).append(unit)
    cores, usable = _free_cores(board), board.question.members & ~board.feasible()
    rows = sorted((row for row in by_row if usable[row]), key=lambda row: (-int(cores[row]), row))
    for row in rows[:NODES_SEEN]:
        free = _Room(int(fleet.cpu_free[row]), int(fleet.memory_free[row]), int(cores[row]))
        chosen = _enough(task, free, by_row[row])
        if chosen:
            moved = sum(len(entry.slices) or 1 for unit in chosen for entry in unit.tasks)
            newest = max(unit.job.submitted_at for unit in chosen)
            highest = max(unit.job.priority for unit in chosen)
            lost = sum(unit.lost for unit in chosen)
            yield Cleared((highest, lost, moved, -newest, fleet.nodes[row].id), chosen)


def _free_cores(board: Board) -> Ints:
    """Core units free by row; for whole cards only those of empty cards, as no other serves them."""
    question = board.question
    cards = question.with_cores(ALL_ROWS) if question.task.whole else question.usable
    total: Ints = np.where(cards, question.fleet.cores_free, 0).sum(axis=1)
    return total


def _enough(task: TaskShape, free: _Room, units: list[Unit]) -> tuple[Unit, ...]:
    """The first units with which the node holds the task: lowest priority, then least work lost for what
    they give, then largest, then newest."""
    need = _Room(task.cpu, task.memory, task.cards * task.cores)
    sized = [(unit, _size(unit)) for unit in units]
    most = _Room(*(sum(size[part] for _, size in sized) for part in range(3)))
    if any(have + more < wanted for have, more, wanted in zip(free, most, need, strict=True)):
        return ()
    chosen: list[Unit] = []
    for unit, size in sorted(sized, key=_rank):
        if all(have >= wanted for have, wanted in zip(free, need, strict=True)):
            break
        chosen.append(unit)
        free = _Room(*(have + more for have, more in zip(free, size, strict=True)))
    return tuple(chosen)


def _rank(sized: tuple[Unit, _Room]) -> tuple[int, float, int, float, str]:
    unit, size = sized
    per_gain = unit.lost / max(1, size.cores)
    return (unit.job.priority, per_gain, -size.cores, -unit.job.submitted_at, unit.job.id)


def _size(unit: Unit) -> _Room:
    return _Room(
        sum(entry.cpu for entry in unit.tasks),
        sum(entry.memory for entry in unit.tasks),
        sum(part.cores for entry in unit.tasks for part in entry.slices),
    )
