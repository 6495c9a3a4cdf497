"""Placement without queues and quota: each arriving task gets the best placement or none.

Packing studies use it with the same scores, predicates and tie rules as a cycle. Nothing is undone, so there
is no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduling.engine.builtin import resolve_config
from scheduling.engine.model import ANYWHERE, Flavor, Node, PlacementRules, Request, TaskWorkload
from scheduling.engine.placement.capacity import count_slots
from scheduling.engine.placement.matrix import ScoreMatrix
from scheduling.engine.placement.placer import Placer, TaskPlacement, describe_placement
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import TaskShape, resolve_shape


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRequest:
    """A request prepared for many placements; `index` is its row in the score matrix, if it has one."""

    task: TaskShape
    index: int | None


# A row of the fleet, and the columns of the cards that were allocated to a task.
RowAndCards = tuple[int, tuple[int, ...]]


class PlacementStream:
    """The nodes of one flavor, on which arriving tasks are placed.

    Shapes of CPU, memory and cards alone are placed by a score matrix, others by their score boards; both
    give the same placements. `workload` is the workload mix of a learning policy.

    Raises:
        ConfigError: when the configuration names plug-ins that do not exist.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        flavor: Flavor,
        config: EngineConfig,
        workload: TaskWorkload | None = None,
    ) -> None:
        self.fleet = Fleet(nodes)
        self._flavor = flavor
        self._placer = Placer(self.fleet, resolve_config(config).rule, workload or TaskWorkload())
        self._matrix: ScoreMatrix | None = self._placer.find_matrix(flavor.policy)

    def prepare_requests(self, requests: Iterable[Request]) -> list[PreparedRequest]:
        """Prepare requests together, which is much cheaper than one by one."""
        listed = list(requests)
        tasks = {request: resolve_shape(request, ANYWHERE, self._flavor) for request in dict.fromkeys(listed)}
        if self._matrix is not None:
            self._matrix.add_shapes(
                (task, self._flavor)
                for task in tasks.values()
                if self._placer.can_use_matrix(task, self._flavor)
            )
        known = {request: self._prepare(task) for request, task in tasks.items()}
        return [known[request] for request in listed]

    def place_task(self, request: Request, rules: PlacementRules = ANYWHERE) -> TaskPlacement | None:
        """Allocate node and cards to one task, and return the placement; None if no node fits."""
        prepared = self._prepare(resolve_shape(request, rules, self._flavor))
        place = self.place_prepared(prepared)
        return None if place is None else self.describe_placement(prepared, place)

    def place_prepared(self, prepared: PreparedRequest) -> RowAndCards | TaskPlacement | None:
        """Place a prepared request like `place_task`; return row and cards alone where a matrix does it."""
        matrix, index = self._matrix, prepared.index
        if matrix is None or index is None:
            return self._place_by_board(prepared.task)
        row = matrix.find_best_node(index)
        return None if row is None else (row, matrix.place_task(index, row))

    def describe_placement(
        self, prepared: PreparedRequest, place: RowAndCards | TaskPlacement
    ) -> TaskPlacement:
        """Return the whole placement of a prepared request."""
        if isinstance(place, TaskPlacement):
            return place
        return describe_placement(self.fleet, prepared.task, *place)

    def place_randomly(self, prepared: PreparedRequest, draw: int) -> TaskPlacement | None:
        """Place a task on a random feasible node and card, by a large random number `draw`."""
        board = self._placer.get_board(prepared.task, self._flavor)
        rows = np.flatnonzero(board.feasible_rows())
        if not len(rows):
            return None
        draw, chosen = divmod(draw, len(rows))
        row, task = int(rows[chosen]), prepared.task
        fitting = np.flatnonzero(board.question.fitting(slice(row, row + 1))[0]).tolist()
        first = draw % max(1, len(fitting) - task.cards + 1) if task.cards and not task.whole else 0
        columns = tuple(fitting[first : first + task.cards])
        return self._change_usage(task, describe_placement(self.fleet, task, row, columns))

    def learn_workload(self, workload: TaskWorkload) -> None:
        """Let a learning policy learn from the workload and the present fleet; score again on a change."""
        if self._flavor.policy not in self._placer.rule.learning_policies:
            return
        self._placer.learn_workload(workload)
        self._matrix = self._placer.find_matrix(self._flavor.policy)

    def release_task(self, prepared: PreparedRequest, placement: TaskPlacement) -> None:
        """Release the placement of a task."""
        self._change_usage(prepared.task, placement, -1)

    def count_slots(self, request: Request) -> int:
        """Return an upper bound for the number of tasks of a request that can be placed now."""
        board = self._placer.get_board(resolve_shape(request, ANYWHERE, self._flavor), self._flavor)
        return int(count_slots(board.question)[board.feasible_rows()].sum())

    def _prepare(self, task: TaskShape) -> PreparedRequest:
        if self._matrix is None or not self._placer.can_use_matrix(task, self._flavor):
            return PreparedRequest(task, None)
        return PreparedRequest(task, self._matrix.ensure_shape(task, self._flavor))

    def _place_by_board(self, task: TaskShape) -> TaskPlacement | None:
        placement = self._placer.find_placement(task, self._flavor)
        return None if placement is None else self._change_usage(task, placement)

    def _change_usage(self, task: TaskShape, placement: TaskPlacement, sign: int = 1) -> TaskPlacement:
        row, extended = placement.row, task.extended + placement.extended
        cards = self.fleet.find_card_usages(row, placement.slices)
        self.fleet.change_usage(row, task.cpu, task.memory, cards, extended, sign)
        return placement
