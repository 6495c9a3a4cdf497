"""Which nodes are cheapest to clear for a waiting job, counted without placing anything.

Taking up movable jobs in the order of their priority and age opens a node by chance only; on a large fleet
the chance is small. Here the nodes that lack least are asked which of the units that stand on them alone
would have to move so that one more task of the shape fits, and whether those can be expected to find room
elsewhere; the cheapest nodes come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from scheduling.engine.gang.bounds import Counted
from scheduling.engine.gang.moves import Unit
from scheduling.engine.placement.board import Board
from scheduling.engine.preemption.seats import Row
from scheduling.engine.state.fleet import Ints

# Nodes that one search looks at, and sets of them that it names.
NODES_SEEN = 128
SETS_NAMED = 32

Bound = Callable[[Sequence[Unit]], bool]
StandingOn = Callable[[str], list[Unit]]


class Cleared(NamedTuple):
    """A row and what would have to move from it.

    `cost` orders rows: low priorities first, then little work lost, then few cards, then new jobs.
    """

    cost: tuple[int, float, int, float, str]
    row: int
    units: tuple[Unit, ...]


def openings(
    counted: Counted, needed: int, standing_on: StandingOn, within: Bound, *, apart: bool = True
) -> Iterator[tuple[Unit, ...]]:
    """Sets of units to take up together, cheapest first, with which so many tasks of the shape have room.

    `standing_on` names the units that stand on a node alone, `within` says whether so many may move. With
    `apart` a set is named only if its tasks can be expected to find room elsewhere.
    """
    slots = counted.slots.now()
    short = needed - int(np.minimum(slots, needed).sum())
    lacking = nearest(counted, needed)
    cleared = sorted(_clearable(counted.board, lacking, standing_on), key=lambda node: node.cost)
    shelter = Shelter(counted, needed) if apart and counted.board.question.task.whole else None
    known: set[tuple[int, ...]] = set()
    for start in range(min(SETS_NAMED, len(cleared) - short + 1)):
        chosen = _chosen(cleared[start:], short, within, shelter)
        rows = tuple(node.row for node in chosen)
        if not chosen:
            return
        if rows not in known:
            known.add(rows)
            yield _units(chosen)


def nearest(counted: Counted, needed: int) -> Iterator[int]:
    """The rows that lack least for one more task of the shape, first those that lack least."""
    slots, free, fleet = counted.slots.now(), counted.free(), counted.board.question.fleet
    lacks: Ints = (slots + 1) * counted.each - free if counted.each else -fleet.cpu_free
    rows = np.flatnonzero(counted.board.lasting() & (slots < needed))
    return islice(iter(rows[np.lexsort((rows, lacks[rows]))].tolist()), NODES_SEEN)


class Shelter:
    """Whether tasks with whole cards can find room, counted by how many cards are empty on how many nodes.

    Nodes differ in more than that, so it is a bound, and speaks of one flavor's cards alone.
    """

    def __init__(self, counted: Counted, needed: int) -> None:
        self._each = counted.each
        self._free: Ints = np.where(counted.board.lasting(), counted.free(), 0)
        slots = counted.slots.now()
        # The waiting tasks take what there is before anybody moves.
        taken = np.minimum(slots, np.maximum(needed - np.cumsum(slots) + slots, 0))
        self._free = self._free - taken * self._each
        self._nodes: list[int] = np.bincount(self._free).tolist()

    def holds(self, cleared: Sequence[Cleared]) -> bool:
        """Whether all tasks that leave these rows find room, when a waiting task takes one place on each."""
        nodes, sizes = dict(enumerate(self._nodes)), list[int]()
        for node in cleared:
            moved = [
                sum(part.exclusive for part in task.slices) for unit in node.units for task in unit.tasks
            ]
            before = int(self._free[node.row])
            after = max(0, before + sum(moved) - self._each)
            nodes[before] -= 1
            nodes[after] = nodes.get(after, 0) + 1
            sizes += moved
        most = max(nodes, default=0)
        for size in sorted((size for size in sizes if size), reverse=True):
            room = next((cards for cards in range(size, most + 1) if nodes.get(cards)), None)
            if room is None:
                return False
            nodes[room] -= 1
            nodes[room - size] = nodes.get(room - size, 0) + 1
        return True


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


def _chosen(cleared: Sequence[Cleared], short: int, within: Bound, shelter: Shelter | None) -> list[Cleared]:
    """The cheapest rows that can be cleared together, one for each task that is short; none if too few."""
    chosen: list[Cleared] = []
    for node in cleared:
        more = [*chosen, node]
        if within(_units(more)) and (shelter is None or shelter.holds(more)):
            chosen = more
            if len(chosen) == short:
                return chosen
    return []


def _units(cleared: Sequence[Cleared]) -> tuple[Unit, ...]:
    return tuple(unit for node in cleared for unit in node.units)


def _clearable(board: Board, rows: Iterator[int], standing_on: StandingOn) -> Iterator[Cleared]:
    nodes = board.question.fleet.nodes
    for row in rows:
        units = _enough(Row(board, row), standing_on(nodes[row].id))
        if units:
            moved = sum(len(entry.slices) or 1 for unit in units for entry in unit.tasks)
            newest = max(unit.job.submitted_at for unit in units)
            highest = max(unit.job.priority for unit in units)
            lost = sum(unit.lost for unit in units)
            yield Cleared((highest, lost, moved, -newest, nodes[row].id), row, units)


def _enough(state: Row, units: list[Unit]) -> tuple[Unit, ...]:
    """The first units without which the row holds one task more: lowest priority, then least work lost for
    what they give, then largest, then newest; none of them needlessly."""
    aim, chosen = state.slots() + 1, list[Unit]()
    for unit in sorted(units, key=_rank):
        _book(state, unit, 1)
        chosen.append(unit)
        if state.slots() >= aim:
            break
    else:
        return ()
    for unit in chosen[-2::-1]:
        _book(state, unit, -1)
        if state.slots() >= aim:
            chosen.remove(unit)
        else:
            _book(state, unit, 1)
    return tuple(chosen)


def _book(state: Row, unit: Unit, sign: int) -> None:
    for task in unit.tasks:
        state.book(task, sign)


def _rank(unit: Unit) -> tuple[int, float, int, float, str]:
    cores = sum(part.cores for entry in unit.tasks for part in entry.slices)
    per_gain = unit.lost / max(1, cores)
    return (unit.job.priority, per_gain, -cores, -unit.job.submitted_at, unit.job.id)
