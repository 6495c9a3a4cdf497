"""How many tasks of a shape nodes could hold, counted without placing them.

Counts are upper bounds: they never call something impossible that is possible, which is what a
refusal at submission must be able to rely on.
"""

from __future__ import annotations

import numpy as np

from scheduling.engine.model import Flavor
from scheduling.engine.placement.placer import PlacementRule, Placer, placer_for
from scheduling.engine.placement.question import Question, card_parts
from scheduling.engine.placement.relations import exclusive_domains
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Ints, Rows

PLENTY = np.iinfo(np.int64).max // 4


def slots(question: Question, rows: Rows = ALL_ROWS, parts: Ints | None = None) -> Ints:
    """For each row how many tasks could stand there at most, by all that a node counts.

    `parts` are the rows' `card_parts`, where they are known.
    """
    fleet, task = question.fleet, question.task
    bounds = np.full(fleet.cpu_free[rows].shape, PLENTY, np.int64)
    if task.cpu:
        bounds = np.minimum(bounds, np.maximum(fleet.cpu_free[rows], 0) // task.cpu)
    if task.memory:
        bounds = np.minimum(bounds, np.maximum(fleet.memory_free[rows], 0) // task.memory)
    if task.cards:
        parts = card_parts(question, rows) if parts is None else parts
        bounds = np.minimum(bounds, parts.sum(axis=1) // task.cards)
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


def most_when_empty(fleet: Fleet, rule: PlacementRule, task: TaskShape, flavor: Flavor) -> int:
    """How many tasks of this shape the flavor could hold if everything else were gone."""
    placer = empty_placer(fleet, rule)
    key = ("most", rule, task)
    known = placer.fleet.memo.get(key)
    if not isinstance(known, int):
        board = placer.board(task, flavor)
        known = _together(board.question, board.feasible())
        placer.fleet.memo[key] = known
    return known


def _together(question: Question, feasible: Bools) -> int:
    """How many tasks the feasible rows could hold at most, given that some shun their own like."""
    bounds = np.where(feasible, np.minimum(slots(question), PLENTY // max(len(feasible), 1)), 0)
    most = int(bounds.sum())
    for domain in exclusive_domains(question):
        taken = domain[(domain >= 0) & (bounds > 0)]
        most = min(most, len(np.unique(taken)) + int(bounds[domain < 0].sum()))
    return most
