"""Placement without queues and quota: tasks arrive one by one and take the best place or none.

What a packing study needs, by the very scores, predicates and tie rules that a cycle uses. Nothing is
undone here, so no snapshot is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from scheduling.engine.builtin import resolve_config
from scheduling.engine.model import Flavor, Node, PlacementRules, Request
from scheduling.engine.placement.capacity import slots
from scheduling.engine.placement.index.workload import TaskWorkload
from scheduling.engine.placement.matrix import ScoreMatrix, servable
from scheduling.engine.placement.placer import Placer, TaskPlacement
from scheduling.engine.placement.scores.devices import slices
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import TaskShape, resolve_shape
from scheduling.engine.stream_moves import Movable, Plan, open_room

NO_RULES = PlacementRules()


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A request made ready for many placements. `index` is its row in the score matrix, if it has one."""

    task: TaskShape
    index: int | None


# A row of the fleet, and the columns of its cards that a task was given.
Place = tuple[int, tuple[int, ...]]


class PlacementStream:
    """Nodes of one flavor that fill up as tasks arrive.

    Shapes that a column can answer for are placed by a score matrix, others by their boards; both
    give the same places. `workload` is what a learning policy takes for usual.

    Raises:
        ConfigError: when the configuration names what does not exist.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        flavor: Flavor,
        config: EngineConfig,
        workload: TaskWorkload | None = None,
    ) -> None:
        self._fleet = Fleet(nodes)
        self._flavor = flavor
        self._placer = Placer(self._fleet, resolve_config(config).rule, workload or TaskWorkload())
        self._matrix: ScoreMatrix | None = self._placer.matrix(flavor.policy)

    @property
    def fleet(self) -> Fleet:
        """The nodes with all that is held on them."""
        self.settle()
        return self._fleet

    def settle(self) -> None:
        """Book what was placed; whoever kept the fleet has to ask for that before looking at it."""
        if self._matrix is not None:
            self._matrix.settle()

    def expect(self, requests: Iterable[Request], rules: PlacementRules = NO_RULES) -> list[Asked]:
        """Make requests ready together, which is much cheaper than one by one."""
        listed = list(requests)
        tasks = {request: resolve_shape(request, rules, self._flavor) for request in dict.fromkeys(listed)}
        if self._matrix is not None:
            self._matrix.expect((task, self._flavor) for task in tasks.values() if self._servable(task))
        known = {request: self._asked(task) for request, task in tasks.items()}
        return [known[request] for request in listed]

    def place(self, request: Request, rules: PlacementRules = NO_RULES) -> TaskPlacement | None:
        """Give one task a node and cards, which it then holds; None when nothing takes it."""
        asked = self._asked(resolve_shape(request, rules, self._flavor))
        place = self.put(asked)
        return None if place is None else self.seat(asked, place)

    def put(self, asked: Asked) -> Place | TaskPlacement | None:
        """As `place`, for a request made ready before, and without the particulars of the seat."""
        matrix, index = self._matrix, asked.index
        if matrix is None or index is None:
            return self._by_board(asked.task)
        row = matrix.best(index)
        return None if row is None else (row, matrix.take(index, row))

    def seat(self, asked: Asked, place: Place | TaskPlacement) -> TaskPlacement:
        """The particulars of a place that was given to a request."""
        return place if isinstance(place, TaskPlacement) else self._seat(asked.task, *place)

    def by_lot(self, asked: Asked, draw: int) -> TaskPlacement | None:
        """Place a task on any node that takes it, and sliced on any card, as a large drawn number says."""
        self.settle()
        board = self._placer.board(asked.task, self._flavor)
        rows = np.flatnonzero(board.feasible())
        if not len(rows):
            return None
        draw, chosen = divmod(draw, len(rows))
        row, task = int(rows[chosen]), asked.task
        fitting = np.flatnonzero(board.question.fitting(slice(row, row + 1))[0]).tolist()
        first = draw % max(1, len(fitting) - task.cards + 1) if task.cards and not task.whole else 0
        columns = tuple(fitting[first : first + task.cards])
        return self._held(task, self._seat(task, row, columns))

    def learn(self, workload: TaskWorkload) -> None:
        """Learn from this work and from the fleet as it is now; scores anew if that made a change."""
        if self._flavor.policy not in self._placer.rule.learning_policies:
            return
        self.settle()
        before = self._placer.grid_score(self._flavor.policy)
        self._placer.learn(workload)
        score = self._placer.grid_score(self._flavor.policy)
        if self._matrix is not None and score is not None and score != before:
            self._matrix.relearn(score)

    def leave(self, asked: Asked, seat: TaskPlacement) -> None:
        """A task that was placed gives its place back."""
        task = asked.task
        self._fleet.remove_usage(
            seat.row,
            self._fleet.usage_of(seat.row, task.cpu, task.memory, seat.slices, task.extended, seat.zones),
        )

    def move(self, asked: Asked, seat: TaskPlacement, to: TaskPlacement) -> None:
        """A task that was placed changes its place for one that has room."""
        self.leave(asked, seat)
        self._held(asked.task, to)

    def room(self, request: Request) -> int:
        """How many tasks of a request could be placed now, at most."""
        self.settle()
        board = self._placer.board(resolve_shape(request, NO_RULES, self._flavor), self._flavor)
        return int(slots(board.question)[board.feasible()].sum())

    def open_room(
        self, held: Mapping[str, tuple[Asked, TaskPlacement]], request: Request, *, moves: int
    ) -> Plan:
        """What moves of held tasks would open for tasks of a request; nothing is moved."""
        self.settle()
        movables = [Movable(name, asked.task, self._flavor, seat) for name, (asked, seat) in held.items()]
        target = resolve_shape(request, NO_RULES, self._flavor)
        return open_room(self._placer, movables, (target, self._flavor), moves=moves)

    def _asked(self, task: TaskShape) -> Asked:
        if self._matrix is None or not self._servable(task):
            return Asked(task, None)
        return Asked(task, self._matrix.index(task, self._flavor))

    def _servable(self, task: TaskShape) -> bool:
        return servable(task, self._fleet) and self._placer.uses_grid_score(task, self._flavor)

    def _by_board(self, task: TaskShape) -> TaskPlacement | None:
        self.settle()
        seat = self._placer.choose(task, self._flavor)
        return None if seat is None else self._held(task, seat)

    def _held(self, task: TaskShape, seat: TaskPlacement) -> TaskPlacement:
        self._fleet.add_usage(
            seat.row,
            self._fleet.usage_of(seat.row, task.cpu, task.memory, seat.slices, task.extended, seat.zones),
        )
        return seat

    def _seat(self, task: TaskShape, row: int, columns: tuple[int, ...]) -> TaskPlacement:
        return TaskPlacement(row, self._fleet.nodes[row].id, slices(self._fleet, task, row, columns), columns)
