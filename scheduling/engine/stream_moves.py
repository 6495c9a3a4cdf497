"""The search for moves of running tasks that make room for tasks of a given shape.

The search clears nodes. Of the nodes that have room for one more task of the shape without some movable
tasks, it takes the one with the fewest tasks to move and places each of them elsewhere by the placement
policy. It accepts the result only if the node then has room and no other room was used for it, so that every
group of moves is a net gain and every moved task has a placement. It stops at the wanted number of openings,
or when the remaining moves clear no node.

The search simulates on the fleet and undoes its changes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduling.engine.model import Flavor
from scheduling.engine.placement.capacity import count_slots
from scheduling.engine.placement.placer import Placer, TaskPlacement
from scheduling.engine.state.fleet import Bools, Fleet, Ints, TaskUsage
from scheduling.engine.state.task_shape import TaskShape


@dataclass(frozen=True, slots=True)
class MovableTask:
    """A running task that may be moved, with its placement; `id` is unique among all movable tasks."""

    id: str
    task: TaskShape
    flavor: Flavor
    placement: TaskPlacement


@dataclass(frozen=True, slots=True)
class StreamMove:
    """A task and its new placement."""

    task: MovableTask
    to: TaskPlacement


@dataclass(frozen=True, slots=True)
class NodeOpening:
    """A group of moves that together make room on the row."""

    row: int
    moves: tuple[StreamMove, ...]


@dataclass(frozen=True, slots=True)
class StreamMovePlan:
    """The openings in the order of execution; `before` is the number of tasks that had room at first."""

    before: int
    openings: tuple[NodeOpening, ...]

    @property
    def after(self) -> int:
        """The number of tasks that have room after the plan."""
        return self.before + len(self.openings)

    @property
    def moves(self) -> tuple[StreamMove, ...]:
        """All moves in order."""
        return tuple(move for opening in self.openings for move in opening.moves)

    @property
    def cores_moved(self) -> int:
        """The core units of cards of the moved tasks."""
        return sum(part.cores for move in self.moves for part in move.task.placement.slices)


def plan_moves(
    placer: Placer,
    movables: Iterable[MovableTask],
    target: tuple[TaskShape, Flavor],
    *,
    moves: int,
    wanted: int | None = None,
) -> StreamMovePlan:
    """Return at most `moves` moves that make room for up to `wanted` (None: any number) tasks of the target.

    Equal arguments on an equal fleet give an equal plan. A task is moved at most once.
    """
    return _MoveSearch(placer, movables, target).run(moves, wanted)


class _MoveSearch:
    """One search; it logs its changes of the fleet and undoes them."""

    def __init__(
        self, placer: Placer, movables: Iterable[MovableTask], target: tuple[TaskShape, Flavor]
    ) -> None:
        self._placer = placer
        self._fleet: Fleet = placer.fleet
        self._board = placer.get_board(*target)
        self._on: defaultdict[int, list[MovableTask]] = defaultdict(list)
        for movable in movables:
            self._on[movable.placement.row].append(movable)
        self._done: list[tuple[int, int, TaskUsage]] = []

    def run(self, budget: int, wanted: int | None) -> StreamMovePlan:
        """Return the plan, with the fleet unchanged."""
        begun = len(self._done)
        before = self._count_slots()
        costs = [cost for row in sorted(self._on) if (cost := self._compute_cost(row)) is not None]
        heapq.heapify(costs)
        openings: list[NodeOpening] = []
        while costs and (wanted is None or len(openings) < wanted):
            number, _, row = heapq.heappop(costs)
            if number > budget:
                break
            opening = self._clear_row(row, budget)
            if opening is not None:
                openings.append(opening)
                budget -= len(opening.moves)
        self._undo_to(begun)
        return StreamMovePlan(int(before.sum()), tuple(openings))

    def _count_slots(self) -> Ints:
        """Return the number of tasks of the target for which each row has room."""
        return np.where(self._board.feasible_rows(), count_slots(self._board.question), 0)

    def _has_room(self, row: int) -> bool:
        return bool(self._board.feasible_rows()[row])

    def _compute_cost(self, row: int) -> tuple[int, int, int] | None:
        """Return (tasks, core units, row) to move for room on the row; None if it has room or cannot have
        it.
        """
        if self._has_room(row):
            return None
        begun = len(self._done)
        chosen = self._choose_tasks(row)
        self._undo_to(begun)
        if chosen is None:
            return None
        return len(chosen), sum(_card_cores(movable) for movable in chosen), row

    def _choose_tasks(self, row: int) -> list[MovableTask] | None:
        """Remove a minimal set of tasks after which the row has room, and return it; None if there is
        none.
        """
        removed: list[MovableTask] = []
        for movable in sorted(self._on[row], key=_removal_order):
            self._remove_task(movable)
            removed.append(movable)
            if self._has_room(row):
                break
        else:
            return None
        chosen = removed[-1:]
        for movable in reversed(removed[:-1]):
            self._place_task(movable.placement, movable.task)
            if not self._has_room(row):
                self._remove_task(movable)
                chosen.append(movable)
        return chosen

    def _clear_row(self, row: int, budget: int) -> NodeOpening | None:
        """Clear a row, or change nothing and return None."""
        if self._has_room(row):
            return None
        begun = len(self._done)
        chosen = self._choose_tasks(row)
        if chosen is None or len(chosen) > budget:
            self._undo_to(begun)
            return None
        allowed: Bools = ~self._board.feasible_rows()
        moves: list[StreamMove] = []
        for movable in sorted(chosen, key=_placement_order):
            placement = self._placer.find_placement(movable.task, movable.flavor, allowed)
            if placement is None:
                self._undo_to(begun)
                return None
            self._place_task(placement, movable.task)
            moves.append(StreamMove(movable, placement))
        # A moved task is not added to its new row, because a task is moved at most once.
        moved = {movable.id for movable in chosen}
        self._on[row] = [movable for movable in self._on[row] if movable.id not in moved]
        return NodeOpening(row, tuple(moves))

    def _remove_task(self, movable: MovableTask) -> None:
        usage = self._usage_of(movable.placement, movable.task)
        self._fleet.remove_usage(movable.placement.row, usage)
        self._done.append((-1, movable.placement.row, usage))

    def _place_task(self, placement: TaskPlacement, task: TaskShape) -> None:
        usage = self._usage_of(placement, task)
        self._fleet.add_usage(placement.row, usage)
        self._done.append((1, placement.row, usage))

    def _usage_of(self, placement: TaskPlacement, task: TaskShape) -> TaskUsage:
        return self._fleet.usage_of(
            placement.row, task.cpu, task.memory, placement.slices, task.extended, placement.zones
        )

    def _undo_to(self, length: int) -> None:
        while len(self._done) > length:
            sign, row, usage = self._done.pop()
            if sign > 0:
                self._fleet.remove_usage(row, usage)
            else:
                self._fleet.add_usage(row, usage)


def _card_cores(movable: MovableTask) -> int:
    return sum(part.cores for part in movable.placement.slices)


def _removal_order(movable: MovableTask) -> tuple[bool, int, int, str]:
    """Return a key: tasks with cards first, because cards are scarce, among them those with fewer cores."""
    return not movable.task.cards, _card_cores(movable), movable.task.cpu, movable.id


def _placement_order(movable: MovableTask) -> tuple[int, int, str]:
    """Return a key: the largest first, because they are hardest to place."""
    return -_card_cores(movable), -movable.task.cpu, movable.id
