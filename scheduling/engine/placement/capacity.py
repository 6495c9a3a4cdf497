"""This module counts how many tasks of a shape nodes could hold, without placing them.

Counts are upper bounds: they never call something impossible that is possible, which is what a refusal at
submission must be able to rely on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.engine.model import Flavor
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.index.levels import levels_of, topology_labels
from scheduling.engine.placement.index.question import Question, card_parts
from scheduling.engine.placement.index.relations import exclusive_domains
from scheduling.engine.placement.placer import PlacementRule, Placer, placer_for
from scheduling.engine.state.fleet import ALL_ROWS, Fleet, Ints, Rows, sum_rows
from scheduling.engine.state.memo import read_fleet_table, read_memo
from scheduling.engine.state.task_shape import TaskShape

UNBOUNDED = np.iinfo(np.int64).max // 4
# Sums are floating-point numbers, which are exact up to here.
MAX_SUMMED_SLOTS = 1_000_000
# The most boards whose capacity is cached.
MAX_CACHED = 4096


def count_slots(question: Question, rows: Rows = ALL_ROWS, parts: Ints | None = None) -> Ints:
    """Return, for each row, how many tasks could run there at most, by all that a node counts. `[rows]`.

    `parts` is the number of card parts for them on each row, where it is known.
    """
    fleet, task = question.fleet, question.task
    bounds = np.full(fleet.cpu_free[rows].shape, UNBOUNDED, np.int64)
    if task.cpu:
        bounds = np.minimum(bounds, np.maximum(fleet.cpu_free[rows], 0) // task.cpu)
    if task.memory:
        bounds = np.minimum(bounds, np.maximum(fleet.memory_free[rows], 0) // task.memory)
    if task.cards:
        parts = sum_rows(card_parts(question, rows)) if parts is None else parts
        bounds = np.minimum(bounds, parts // task.cards)
    for item in task.extended:
        free = fleet.extended_free.get(item.resource)
        bounds = np.minimum(bounds, 0 if free is None else np.maximum(free[rows], 0) // item.amount)
    if fleet.pods is not None:
        bounds = np.minimum(bounds, np.maximum(fleet.pods[rows] - fleet.used_pods[rows], 0))
    return bounds


def empty_fleet(fleet: Fleet) -> Fleet:
    """Return the fleet with nothing allocated and nothing broken, created once per inventory."""
    return read_memo(fleet.memo, "empty", fleet.copy_empty)


def empty_placer(fleet: Fleet, rule: PlacementRule) -> Placer:
    """Return the placer of the empty fleet."""
    return placer_for(empty_fleet(fleet), rule)


def count_when_empty(
    fleet: Fleet, rule: PlacementRule, task: TaskShape, flavor: Flavor, level: str = ""
) -> int:
    """Return how many tasks of this shape the flavor could hold if it were empty, in one domain of the
    topology level if there is one."""
    placer = empty_placer(fleet, rule)
    board = placer.get_board(task, flavor)
    known = read_fleet_table(placer.fleet.memo, "capacity", MAX_CACHED)
    held: _BoardCapacity = known.setdefault(board, _BoardCapacity(board))
    most = held.count_all()
    if not level:
        return most
    return min(most, held.count_in_one_domain(level, topology_labels((level,), [flavor])))


class _BoardCapacity:
    """The number of tasks of one shape that each feasible row could hold, updated where rows changed."""

    def __init__(self, board: ScoreBoard) -> None:
        self._board = board
        self._bounds: Ints = np.zeros(0, np.int64)
        self._seen: tuple[int, int, int] = (-1, 0, 0)
        self._most = 0

    def count_all(self) -> int:
        """Return how many tasks all rows could hold at most, anti-affinity among themselves included."""
        question = self._board.question
        fleet, elsewhere = question.fleet, question.affinity_version()
        now = (fleet.epoch, elsewhere, len(fleet.changed_rows))
        if now != self._seen:
            anew = now[:2] != self._seen[:2]
            self._count(ALL_ROWS if anew else fleet.rows_changed_since(self._seen[2]))
            self._seen, self._most = now, self._sum_bounds()
        return self._most

    def count_in_one_domain(self, level: str, labels: Sequence[str]) -> int:
        """Return the most tasks that one domain of a level could hold; 0 if no node has the level.

        `count_all` must have been called.
        """
        levels = levels_of(self._board.question.fleet, labels)
        bounds = np.minimum(self._bounds, MAX_SUMMED_SLOTS)
        return int(levels.sum_by_domain(labels.index(level), bounds).max(initial=0))

    def _count(self, rows: Rows) -> None:
        feasible, question = self._board.feasible_rows(), self._board.question
        bounds = np.minimum(count_slots(question, rows), UNBOUNDED // max(len(feasible), 1))
        if isinstance(rows, slice):
            self._bounds = np.where(feasible, bounds, 0)
        else:
            self._bounds[rows] = np.where(feasible[rows], bounds, 0)

    def _sum_bounds(self) -> int:
        bounds = self._bounds
        most = int(bounds.sum())
        for domain in exclusive_domains(self._board.question):
            taken = domain[(domain >= 0) & (bounds > 0)]
            most = min(most, len(np.unique(taken)) + int(bounds[domain < 0].sum()))
        return most
