"""This module finds the nodes that are cheapest to clear for a pending job, by counting.

Releasing movable jobs in the order of their priority and age frees one node by chance only, and on a large
fleet the chance is small. Therefore the nodes that lack least are examined: which of the units that run on
such a node alone would have to move so that one more task fits, and whether these units can be expected to
fit elsewhere. The cheapest nodes come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scheduling.engine.gang.moves import MovableUnit
from scheduling.engine.model import DeviceSlice
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.index.row import RowState
from scheduling.engine.preemption.trials.slot_counts import ShapeSlots, is_countable
from scheduling.engine.state.fleet import Bools, Ints

# The most nodes that one search examines, and the most sets of nodes that it yields.
NODES_SEEN = 128
MAX_SETS = 32

WithinBounds = Callable[[Sequence[MovableUnit]], bool]
CanEvict = Callable[[MovableUnit], bool]
"""Decides whether a unit may be evicted, so that it needs no other place."""


class MovableUnits(NamedTuple):
    """The units that may move for a job, by node: those whose tasks all run there, in the order of
    `rank_unit`, and how many cards, or core units for a shape of parts, become free there at most."""

    only_on: Callable[[str], Sequence[MovableUnit]]
    max_freeable: Callable[[str], int]


class ClearableRow(NamedTuple):
    """A row and the units that would be evicted from it.

    `cost` orders rows by: cards that need another place, highest priority, eviction cost in GPU-seconds,
    cards, and the submission time of the newest job, latest first.
    """

    cost: tuple[int, int, float, int, float, str]
    row: int
    units: tuple[MovableUnit, ...]


def find_clearable_sets(
    counted: ShapeSlots,
    needed: int,
    movable: MovableUnits,
    within_bounds: WithinBounds,
    relocation: RelocationCapacity | None,
    can_evict: CanEvict | None = None,
    rows_known: dict[int, ClearableRow | None] | None = None,
) -> Iterator[tuple[MovableUnit, ...]]:
    """Yield sets of units to release together, cheapest first, after which the tasks of the shape have enough
    slots.

    `within_bounds` decides whether these units may move together, and `relocation`, if given, whether they
    can be expected to fit elsewhere. Units that `can_evict` accepts may be evicted and need no other place.
    `rows_known` caches the units to clear from each row, for further searches of the same shape in the same
    state.
    """
    short = needed - counted.count_up_to(needed)
    candidates = _rows_worth_clearing(counted, find_nearest_rows(counted, needed), movable)
    if len(candidates) < short:
        return
    rows_known = {} if rows_known is None else rows_known
    for row in candidates:
        if row not in rows_known:
            rows_known[row] = _clear_row(counted, row, movable, can_evict)
    cleared = sorted([node for row in candidates if (node := rows_known[row])], key=lambda node: node.cost)
    yielded: set[tuple[int, ...]] = set()
    for start in range(min(MAX_SETS, len(cleared) - short + 1)):
        chosen = _choose_rows(cleared[start:], short, within_bounds, relocation)
        rows = tuple(node.row for node in chosen)
        if not chosen:
            return
        if rows not in yielded:
            yielded.add(rows)
            yield _units(chosen)


def find_nearest_rows(counted: ShapeSlots, needed: int) -> list[int]:
    """Return the rows that lack least for one more task of the shape, those that lack least first."""
    rows = np.flatnonzero(counted.board.lasting_rows() & (counted.current_counts() < needed))
    lacks = (
        _shortfall_by_row(counted)[rows]
        if counted.amount_per_task
        else -counted.board.question.fleet.cpu_free[rows]
    )
    found: list[int] = rows[np.lexsort((rows, lacks))][:NODES_SEEN].tolist()
    return found


def _shortfall_by_row(counted: ShapeSlots) -> Ints:
    """Return how many cards or core units each row lacks for one more task, `[rows]`."""
    lacks: Ints = (counted.current_counts() + 1) * counted.amount_per_task - counted.free_amounts()
    return lacks


class RelocationCapacity:
    """Counts whether released tasks can be placed elsewhere, without deciding where.

    Whole cards are counted as nodes by their number of empty cards, parts of cards as cards by their free
    core units. Nodes differ in more than that, so the result is an upper bound.
    """

    def __init__(self, counted: ShapeSlots, needed: int, rows: Bools) -> None:
        """`rows` are the rows on which released tasks may be placed, `[rows]`."""
        question = counted.board.question
        self._fleet, self._whole, self._each = question.fleet, question.task.whole, counted.amount_per_task
        fleet, open_to = self._fleet, rows & question.fleet.ready & question.fleet.schedulable
        usable = question.usable & open_to[:, None]
        amounts = np.where(open_to, counted.free_amounts(), 0) if self._whole else fleet.cores_free[usable]
        self._capacity = dict(enumerate(np.bincount(np.maximum(amounts, 0)).tolist()))
        # The pending tasks take the free capacity before anything moves.
        for _ in range(min(needed, int(counted.current_counts().sum())) if self._each else 0):
            _fill_tightest(self._capacity, self._each)
        self._free: Ints = counted.free_amounts()

    def can_relocate(self, cleared: Sequence[ClearableRow]) -> bool:
        """Return whether all tasks of these rows fit elsewhere once each row has one pending task."""
        capacity, sizes = dict(self._capacity), list[int]()
        for node in cleared:
            parts = [part for unit in node.units for task in unit.tasks for part in task.slices]
            before = self._free_before(node.row, parts)
            after = [was + freed for was, freed in before]
            for (was, _), then in zip(before, after, strict=True):
                capacity[was] = capacity.get(was, 0) - 1
                capacity[then] = capacity.get(then, 0) + 1
            place = min((then for then in after if then >= self._each), default=None)
            if place is not None and self._each:
                capacity[place] -= 1
                capacity[place - self._each] = capacity.get(place - self._each, 0) + 1
            sizes += self._sizes(node.units)
        return all(_fill_tightest(capacity, size) for size in sorted(sizes, reverse=True))

    def _free_before(self, row: int, parts: Sequence[DeviceSlice]) -> list[tuple[int, int]]:
        """Return pairs of the free and the freed amount: one for the node, or one for each card."""
        if self._whole:
            return [(max(0, int(self._free[row])), sum(part.exclusive for part in parts))]
        freed: Counter[int] = Counter()
        for part in parts:
            column = self._fleet.columns[row].get(part.device)
            if column is not None:
                freed[column] += part.cores
        return [(max(0, int(self._fleet.cores_free[row, at])), cores) for at, cores in freed.items()]

    def _sizes(self, units: Sequence[MovableUnit]) -> list[int]:
        tasks = [task for unit in units for task in unit.tasks]
        if self._whole:
            return [size for task in tasks if (size := sum(part.exclusive for part in task.slices))]
        return [part.cores for task in tasks for part in task.slices]


def _fill_tightest(capacity: dict[int, int], size: int) -> bool:
    """Take `size` from the smallest place that has enough; the result is False if none has."""
    place = min((free for free, number in capacity.items() if free >= size and number > 0), default=None)
    if place is None:
        return False
    capacity[place] -= 1
    capacity[place - size] = capacity.get(place - size, 0) + 1
    return True


class FreedCoreBound:
    """An upper bound of the slots of a shape after the units added so far have left.

    Core units of cards are summed by node, whichever card they are on.
    """

    def __init__(self, board: ScoreBoard, tasks: int) -> None:
        question = board.question
        self._row, self._tasks = question.fleet.row, tasks
        self._each = 0 if question.task.derived else question.task.cards * question.task.cores
        mine = np.where(question.usable & question.members[:, None], question.fleet.cores_free, 0)
        self._free: list[int] = mine.sum(axis=1).tolist()
        self._capacity = sum(free // self._each for free in self._free) if self._each else tasks

    def add_unit(self, unit: MovableUnit) -> bool:
        """Add a unit that leaves, and return whether the tasks could fit."""
        for task in unit.tasks if self._each else ():
            row = self._row.get(task.node)
            if row is not None:
                before = self._free[row]
                self._free[row] += sum(part.cores for part in task.slices)
                self._capacity += self._free[row] // self._each - before // self._each
        return self._capacity >= self._tasks


def _choose_rows(
    cleared: Sequence[ClearableRow], short: int, within: WithinBounds, shelter: RelocationCapacity | None
) -> list[ClearableRow]:
    """Return the cheapest rows that can be cleared together, one per missing slot; none if too few."""
    chosen: list[ClearableRow] = []
    for node in cleared:
        more = [*chosen, node]
        if within(_units(more)) and (shelter is None or shelter.can_relocate(more)):
            chosen = more
            if len(chosen) == short:
                return chosen
    return []


def _units(cleared: Sequence[ClearableRow]) -> tuple[MovableUnit, ...]:
    return tuple(unit for node in cleared for unit in node.units)


def _clear_row(
    counted: ShapeSlots, row: int, movable: MovableUnits, gives: CanEvict | None
) -> ClearableRow | None:
    """Return the units to clear from a row, with their cost; None if clearing it does not help."""
    node = counted.board.question.fleet.nodes[row].id
    units = _units_to_clear(RowState(counted.board.question, row), movable.only_on(node), gives)
    if not units:
        return None
    moved = sum(map(_cards_of, units))
    needing_place = 0 if gives is None else sum(_cards_of(unit) for unit in units if not gives(unit))
    newest = max(unit.job.submitted_at for unit in units)
    highest = max(unit.job.priority for unit in units)
    lost = sum(unit.eviction_cost for unit in units)
    return ClearableRow((needing_place, highest, lost, moved, -newest, node), row, units)


def _rows_worth_clearing(counted: ShapeSlots, rows: Sequence[int], movable: MovableUnits) -> Sequence[int]:
    """Keep the rows that could hold one more task by their cards alone; most rows could not."""
    board = counted.board
    if not counted.amount_per_task or not is_countable(board):
        return rows
    nodes = board.question.fleet.nodes
    lacks = zip(rows, _shortfall_by_row(counted)[rows].tolist(), strict=True)
    return [row for row, lack in lacks if movable.max_freeable(nodes[row].id) >= lack]


def _units_to_clear(
    state: RowState, units: Sequence[MovableUnit], gives: CanEvict | None
) -> tuple[MovableUnit, ...]:
    """Return the units without which the row holds one more task, none of them needlessly.

    Units that may be evicted come first, then those that are first by `rank_unit`.
    """
    aim, chosen = state.count_slots() + 1, list[MovableUnit]()
    for unit in units if gives is None else sorted(units, key=lambda unit: not gives(unit)):
        _apply_unit(state, unit, 1)
        chosen.append(unit)
        if state.count_slots() >= aim:
            break
    else:
        return ()
    for unit in chosen[-2::-1]:
        _apply_unit(state, unit, -1)
        if state.count_slots() >= aim:
            chosen.remove(unit)
        else:
            _apply_unit(state, unit, 1)
    return tuple(chosen)


def _cards_of(unit: MovableUnit) -> int:
    """Return the cards that a unit holds; a task without cards counts as one."""
    return sum(len(task.slices) or 1 for task in unit.tasks)


def _apply_unit(state: RowState, unit: MovableUnit, sign: int) -> None:
    for task in unit.tasks:
        state.apply_task(task, sign)


def rank_unit(unit: MovableUnit) -> tuple[int, float, int, float, str]:
    """Return the sort key of units on one node: lowest priority, then lowest cost per core unit, then
    largest, then newest."""
    cores = unit.part.cores
    per_gain = unit.eviction_cost / max(1, cores)
    return (unit.job.priority, per_gain, -cores, -unit.job.submitted_at, unit.job.id)
