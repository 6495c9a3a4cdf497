"""Which moves of running tasks open room for tasks of a given shape.

The search empties nodes: of the nodes that would hold one more task of the shape if some movable
tasks left, it takes the one with the fewest to move, gives each of them another place by the placement
policy, and keeps the result only if the node then has room and no room elsewhere was used up for it. So
every group of moves ends in a net gain, and a moved task always has a place. It stops at the wanted
number of openings or when no node can be opened with the moves that are left.

It is a what-if: it tries on the fleet and leaves it as it was.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduling.engine.model import Flavor
from scheduling.engine.placement.capacity import slots
from scheduling.engine.placement.placer import Placer, TaskPlacement
from scheduling.engine.state.fleet import Bools, Fleet, Ints, TaskUsage
from scheduling.engine.state.task_shape import TaskShape


@dataclass(frozen=True, slots=True)
class Movable:
    """A running task that may be moved, and the place that it has. `id` is its own among all movables."""

    id: str
    task: TaskShape
    flavor: Flavor
    seat: TaskPlacement


@dataclass(frozen=True, slots=True)
class Move:
    """A task and its new place."""

    movable: Movable
    to: TaskPlacement


@dataclass(frozen=True, slots=True)
class Opening:
    """A group of moves that belong together: only all of them open room on the row."""

    row: int
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Openings in the order in which they are to be made; `before` is how many tasks had room at first."""

    before: int
    openings: tuple[Opening, ...]

    @property
    def after(self) -> int:
        """How many tasks have room once the plan is carried out."""
        return self.before + len(self.openings)

    @property
    def moves(self) -> tuple[Move, ...]:
        """All moves in order."""
        return tuple(move for opening in self.openings for move in opening.moves)

    @property
    def cores_moved(self) -> int:
        """Core units of cards held by the tasks that move."""
        return sum(part.cores for move in self.moves for part in move.movable.seat.slices)


def open_room(
    placer: Placer,
    movables: Iterable[Movable],
    target: tuple[TaskShape, Flavor],
    *,
    moves: int,
    wanted: int | None = None,
) -> Plan:
    """Moves, at most so many, that open room for up to `wanted` (None: any number) tasks of the target.

    Equal arguments on an equal fleet give an equal plan. A task is moved at most once.
    """
    return _Search(placer, movables, target).run(moves, wanted)


class _Search:
    """One search; whatever it changes on the fleet it notes and takes back."""

    def __init__(self, placer: Placer, movables: Iterable[Movable], target: tuple[TaskShape, Flavor]) -> None:
        self._placer = placer
        self._fleet: Fleet = placer.fleet
        self._board = placer.board(*target)
        self._on: defaultdict[int, list[Movable]] = defaultdict(list)
        for movable in movables:
            self._on[movable.seat.row].append(movable)
        self._done: list[tuple[int, int, TaskUsage]] = []

    def run(self, budget: int, wanted: int | None) -> Plan:
        """The plan; the fleet is as before."""
        begun = len(self._done)
        before = self._room()
        costs = [cost for row in sorted(self._on) if (cost := self._cost(row)) is not None]
        heapq.heapify(costs)
        openings: list[Opening] = []
        while costs and (wanted is None or len(openings) < wanted):
            number, _, row = heapq.heappop(costs)
            if number > budget:
                break
            opening = self._open(row, budget)
            if opening is not None:
                openings.append(opening)
                budget -= len(opening.moves)
        self._back_to(begun)
        return Plan(int(before.sum()), tuple(openings))

    def _room(self) -> Ints:
        """How many tasks of the target each row has room for."""
        return np.where(self._board.feasible(), slots(self._board.question), 0)

    def _has_room(self, row: int) -> bool:
        return bool(self._board.feasible()[row])

    def _cost(self, row: int) -> tuple[int, int, int] | None:
        """(tasks, core units, row) to move so that the row has room; None where it has, or cannot have."""
        if self._has_room(row):
            return None
        begun = len(self._done)
        leaving = self._leaving(row)
        self._back_to(begun)
        if leaving is None:
            return None
        return len(leaving), sum(_weight(movable) for movable in leaving), row

    def _leaving(self, row: int) -> list[Movable] | None:
        """A set of tasks, none of them needlessly, without which the row has room; they are lifted."""
        lifted: list[Movable] = []
        for movable in sorted(self._on[row], key=_ease):
            self._lift(movable)
            lifted.append(movable)
            if self._has_room(row):
                break
        else:
            return None
        leaving = lifted[-1:]
        for movable in reversed(lifted[:-1]):
            self._put(movable.seat, movable.task)
            if not self._has_room(row):
                self._lift(movable)
                leaving.append(movable)
        return leaving

    def _open(self, row: int, budget: int) -> Opening | None:
        """Open a row, or leave everything as it is and return None."""
        if self._has_room(row):
            return None
        begun = len(self._done)
        leaving = self._leaving(row)
        if leaving is None or len(leaving) > budget:
            self._back_to(begun)
            return None
        allowed: Bools = ~self._board.feasible()
        moves: list[Move] = []
        for movable in sorted(leaving, key=_size):
            seat = self._placer.choose(movable.task, movable.flavor, allowed)
            if seat is None:
                self._back_to(begun)
                return None
            self._put(seat, movable.task)
            moves.append(Move(movable, seat))
        # The arrivals stay: a task is moved once, so they are nobody's movables any more.
        gone = {movable.id for movable in leaving}
        self._on[row] = [movable for movable in self._on[row] if movable.id not in gone]
        return Opening(row, tuple(moves))

    def _lift(self, movable: Movable) -> None:
        hold = self._hold(movable.seat, movable.task)
        self._fleet.remove_usage(movable.seat.row, hold)
        self._done.append((-1, movable.seat.row, hold))

    def _put(self, seat: TaskPlacement, task: TaskShape) -> None:
        hold = self._hold(seat, task)
        self._fleet.add_usage(seat.row, hold)
        self._done.append((1, seat.row, hold))

    def _hold(self, seat: TaskPlacement, task: TaskShape) -> TaskUsage:
        return self._fleet.usage_of(seat.row, task.cpu, task.memory, seat.slices, task.extended, seat.zones)

    def _back_to(self, length: int) -> None:
        while len(self._done) > length:
            sign, row, hold = self._done.pop()
            if sign > 0:
                self._fleet.remove_usage(row, hold)
            else:
                self._fleet.add_usage(row, hold)


def _weight(movable: Movable) -> int:
    return sum(part.cores for part in movable.seat.slices)


def _ease(movable: Movable) -> tuple[bool, int, int, str]:
    """Tasks with cards first, as cards are what is short; among them the lighter."""
    return not movable.task.cards, _weight(movable), movable.task.cpu, movable.id


def _size(movable: Movable) -> tuple[int, int, str]:
    """The largest first: they find a place with most difficulty."""
    return -_weight(movable), -movable.task.cpu, movable.id
