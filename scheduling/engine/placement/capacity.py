"""How many tasks of a shape nodes could hold, counted without placing them.

Counts are upper bounds: they never call something impossible that is possible, which is what a
refusal at submission must be able to rely on.
"""

from __future__ import annotations

import numpy as np

from scheduling.engine.model import Flavor
from scheduling.engine.placement.placer import PlacementRule, Placer, placer_for
from scheduling.engine.placement.question import Question
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.state.fleet import ALL_ROWS, Fleet, Ints

PLENTY = np.iinfo(np.int64).max // 4


def slots(question: Question) -> Ints:
    """For each row how many tasks its CPU, memory and cards could hold at most."""
    fleet, task = question.fleet, question.task
    bounds = np.full(len(fleet), PLENTY, np.int64)
    if task.cpu:
        bounds = np.minimum(bounds, np.maximum(fleet.cpu_free, 0) // task.cpu)
    if task.memory:
        bounds = np.minimum(bounds, np.maximum(fleet.memory_free, 0) // task.memory)
    if task.cards:
        bounds = np.minimum(bounds, card_parts(question).sum(axis=1) // task.cards)
    return bounds


def card_parts(question: Question) -> Ints:
    """For each card how many tasks could have a part of it. `[rows, cards]`."""
    fleet, task = question.fleet, question.task
    fitting = question.fitting(ALL_ROWS)
    if task.whole:
        return fitting.astype(np.int64)
    parts: Ints = fleet.cores_free // task.cores
    if task.card_memory:
        parts = np.minimum(parts, fleet.card_memory_free // task.card_memory)
    return np.where(fitting, parts, 0)


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
        known = int(np.minimum(slots(board.question), PLENTY // max(len(fleet), 1))[board.feasible()].sum())
        placer.fleet.memo[key] = known
    return known
