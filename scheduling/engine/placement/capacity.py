"""How many tasks of a shape nodes could hold, counted without placing them.

Counts are upper bounds: they never call something impossible that is possible, which is what a
refusal at submission must be able to rely on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.engine.model import Flavor, TopologyRule
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.index.levels import levels_of, topology_labels
from scheduling.engine.placement.index.question import Question, card_parts
from scheduling.engine.placement.index.relations import exclusive_domains
from scheduling.engine.placement.placer import PlacementRule, Placer, placer_for
from scheduling.engine.state.fleet import ALL_ROWS, Fleet, Ints, Rows
from scheduling.engine.state.shape import TaskShape

PLENTY = np.iinfo(np.int64).max // 4
# Added up as floating-point numbers, which are exact so far.
MANY = 1_000_000
# Boards of which it is kept what they could hold.
KEPT = 4096


def slots(question: Question, rows: Rows = ALL_ROWS, parts: Ints | None = None) -> Ints:
    """For each row how many tasks could stand there at most, by all that a node counts.

    `parts` is how many parts of cards each row has for them, where that is known.
    """
    fleet, task = question.fleet, question.task
    bounds = np.full(fleet.cpu_free[rows].shape, PLENTY, np.int64)
    if task.cpu:
        bounds = np.minimum(bounds, np.maximum(fleet.cpu_free[rows], 0) // task.cpu)
    if task.memory:
        bounds = np.minimum(bounds, np.maximum(fleet.memory_free[rows], 0) // task.memory)
    if task.cards:
        parts = card_parts(question, rows).sum(axis=1) if parts is None else parts
        bounds = np.minimum(bounds, parts // task.cards)
    for item in task.extended:
        free = fleet.extended_free.get(item.resource)
        bounds = np.minimum(bounds, 0 if free is None else np.maximum(free[rows], 0) // item.amount)
    if fleet.pods is not None:
        bounds = np.minimum(bounds, np.maximum(fleet.pods[rows] - fleet.used_pods[rows], 0))
    if task.ports:
        bounds = np.minimum(bounds, 1)
    return bounds


def empty_fleet(fleet: Fleet) -> Fleet:
    """The fleet with nothing held and nothing broken, made once per inventory."""
    known = fleet.memo.get("empty")
    if not isinstance(known, Fleet):
        known = fleet.memo["empty"] = fleet.emptied()
    return known


def empty_placer(fleet: Fleet, rule: PlacementRule) -> Placer:
    """Placement as it would be on the empty fleet."""
    return placer_for(empty_fleet(fleet), rule)


def most_when_empty(
    fleet: Fleet,
    rule: PlacementRule,
    task: TaskShape,
    flavor: Flavor,
    together: Sequence[TopologyRule] = (),
) -> int:
    """How many tasks of this shape the flavor could hold if everything else were gone; where they have to
    stand `together`, in one domain of each of these rules."""
    placer = empty_placer(fleet, rule)
    board, memo = placer.board(task, flavor), placer.fleet.memo
    known = memo.get(_Most)
    if not isinstance(known, _Most) or len(known.of_board) > KEPT:
        known = memo[_Most] = _Most()
    held = known.of_board.setdefault(board, _Held(board))
    domains = (held.in_one_domain(each, topology_labels(each, [flavor])) for each in together)
    return min((held.together(), *domains))


class _Most:
    """What is kept with a fleet: for each board how many of its tasks the rows could hold."""

    follows_fleet = True

    def __init__(self) -> None:
        self.of_board: dict[Board, _Held] = {}


class _Held:
    """How many tasks of one shape each feasible row could hold; looked at again only where rows changed."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._bounds: Ints = np.zeros(0, np.int64)
        self._seen: tuple[int, int, int] = (-1, 0, 0)
        self._most = 0

    def together(self) -> int:
        """How many all rows could hold at most, given that some tasks shun their own like."""
        question = self._board.question
        fleet, elsewhere = question.fleet, question.elsewhere()
        now = (fleet.epoch, elsewhere, len(fleet.touched))
        if now != self._seen:
            self._count(ALL_ROWS if now[:2] != self._seen[:2] else self._changed())
            self._seen, self._most = now, self._summed()
        return self._most

    def in_one_domain(self, rule: TopologyRule, labels: Sequence[str]) -> int:
        """How many the rows of one domain of the rule's level could hold at most; 0 where nobody has it."""
        self.together()
        if rule.level not in labels:
            return 0
        levels = levels_of(self._board.question.fleet, labels)
        bounds = np.minimum(self._bounds, MANY)
        return int(levels.sums(labels.index(rule.level), bounds).max(initial=0))

    def _changed(self) -> Ints:
        return self._board.question.fleet.touched_since(self._seen[2])

    def _count(self, rows: Rows) -> None:
        feasible, question = self._board.feasible(), self._board.question
        bounds = np.minimum(slots(question, rows), PLENTY // max(len(feasible), 1))
        if isinstance(rows, slice):
            self._bounds = np.where(feasible, bounds, 0)
        else:
            self._bounds[rows] = np.where(feasible[rows], bounds, 0)

    def _summed(self) -> int:
        bounds = self._bounds
        most = int(bounds.sum())
        for domain in exclusive_domains(self._board.question):
            taken = domain[(domain >= 0) & (bounds > 0)]
            most = min(most, len(np.unique(taken)) + int(bounds[domain < 0].sum()))
        return most
