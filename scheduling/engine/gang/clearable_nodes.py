"""Which nodes are cheapest to clear for a waiting job, counted without placing anything.

Taking up movable jobs in the order of their priority and age opens a node by chance only; on a large fleet
the chance is small. Here the nodes that lack least are asked which of the units that stand on them alone
would have to move so that one more task of the shape fits, and whether those can be expected to find room
elsewhere; the cheapest nodes come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from scheduling.engine.gang.bounds import SlotCounts
from scheduling.engine.gang.moves import MovableUnit
from scheduling.engine.model import DeviceSlice
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.index.row import Row
from scheduling.engine.preemption.slot_counts import is_countable
from scheduling.engine.state.fleet import Bools, Ints

# Nodes that one search looks at, and sets of them that it names.
NODES_SEEN = 128
SETS_NAMED = 32

WithinBounds = Callable[[Sequence[MovableUnit]], bool]
CanEvict = Callable[[MovableUnit], bool]
"""Whether a unit could leave for good, so that it needs no other place."""


class MovableUnits(Protocol):
    """Who may move for a job."""

    def units_only_on(self, node: str) -> Sequence[MovableUnit]:
        """Units of which all tasks stand on a node, the cheapest first (`rank_unit`)."""

    def max_freeable(self, node: str, *, whole: bool) -> int:
        """How many cards or core units become free there at most."""


class ClearableRow(NamedTuple):
    """A row and what would have to move from it.

    `cost` orders rows: few cards that need another place first, where some could leave for good; then low
    priorities, then little work lost, then few cards, then new jobs.
    """

    cost: tuple[int, int, float, int, float, str]
    row: int
    units: tuple[MovableUnit, ...]


def find_clearable_sets(
    counted: SlotCounts,
    needed: int,
    movable: MovableUnits,
    within_bounds: WithinBounds,
    relocation: RelocationCapacity | None,
    can_evict: CanEvict | None = None,
    rows_known: dict[int, ClearableRow | None] | None = None,
) -> Iterator[tuple[MovableUnit, ...]]:
    """Sets of units to take up together, cheapest first, with which so many tasks of the shape have room.

    `within_bounds` says whether so many may move, and `relocation`, if given, whether they can be expected to
    find room elsewhere. Units that `can_evict` accepts could leave for good. `rows_known` keeps what it takes
    to clear each row, for further searches of the same shape in the same state.
    """
    short = needed - counted.slots.count_up_to(needed)
    hopeful = _hopeful(counted, find_nearest_rows(counted, needed), movable)
    if len(hopeful) < short:
        return
    rows_known = {} if rows_known is None else rows_known
    for row in hopeful:
        if row not in rows_known:
            rows_known[row] = _clearable(counted, row, movable, can_evict)
    cleared = sorted([node for row in hopeful if (node := rows_known[row])], key=lambda node: node.cost)
    known: set[tuple[int, ...]] = set()
    for start in range(min(SETS_NAMED, len(cleared) - short + 1)):
        chosen = _chosen(cleared[start:], short, within_bounds, relocation)
        rows = tuple(node.row for node in chosen)
        if not chosen:
            return
        if rows not in known:
            known.add(rows)
            yield _units(chosen)


def find_nearest_rows(counted: SlotCounts, needed: int) -> list[int]:
    """The rows that lack least for one more task of the shape, first those that lack least."""
    rows = np.flatnonzero(counted.board.lasting() & (counted.slots.current_counts() < needed))
    lacks = _lacks(counted)[rows] if counted.amount_per_task else -counted.board.question.fleet.cpu_free[rows]
    found: list[int] = rows[np.lexsort((rows, lacks))][:NODES_SEEN].tolist()
    return found


def _lacks(counted: SlotCounts) -> Ints:
    """How many cards or core units each row lacks for one task more. `[rows]`."""
    lacks: Ints = (counted.slots.current_counts() + 1) * counted.amount_per_task - counted.free_amounts()
    return lacks


class RelocationCapacity:
    """Whether tasks that leave can find room elsewhere, counted without looking where.

    Whole cards are counted by how many of them are empty on how many nodes, parts of cards by how many core
    units are free on how many cards. Nodes differ in more than that, so it is a bound.
    """

    def __init__(self, counted: SlotCounts, needed: int, rows: Bools) -> None:
        """`rows` are those on which tasks that leave may stand."""
        question = counted.board.question
        self._fleet, self._whole, self._each = question.fleet, question.task.whole, counted.amount_per_task
        fleet, open_to = self._fleet, rows & question.fleet.ready & question.fleet.schedulable
        usable = question.usable & open_to[:, None]
        amounts = np.where(open_to, counted.free_amounts(), 0) if self._whole else fleet.cores_free[usable]
        self._room = dict(enumerate(np.bincount(np.maximum(amounts, 0)).tolist()))
        # The waiting tasks take what there is before anybody moves.
        for _ in range(min(needed, int(counted.slots.current_counts().sum())) if self._each else 0):
            _fill(self._room, self._each)
        self._free: Ints = counted.free_amounts()

    def can_relocate(self, cleared: Sequence[ClearableRow]) -> bool:
        """Whether all tasks that leave these rows find room, when a waiting task takes one place on each."""
        room, sizes = dict(self._room), list[int]()
        for node in cleared:
            parts = [part for unit in node.units for task in unit.tasks for part in task.slices]
            before = self._before(node.row, parts)
            after = [was + freed for was, freed in before]
            for (was, _), then in zip(before, after, strict=True):
                room[was] = room.get(was, 0) - 1
                room[then] = room.get(then, 0) + 1
            place = min((then for then in after if then >= self._each), default=None)
            if place is not None and self._each:
                room[place] -= 1
                room[place - self._each] = room.get(place - self._each, 0) + 1
            sizes += self._sizes(node.units)
        return all(_fill(room, size) for size in sorted(sizes, reverse=True))

    def _before(self, row: int, parts: Sequence[DeviceSlice]) -> list[tuple[int, int]]:
        """What is free where something leaves a row, and how much leaves there: the node, or each card."""
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


def _fill(room: dict[int, int], size: int) -> bool:
    """Take so much of the place that has least of those that have enough; False where none has."""
    place = min((free for free, number in room.items() if free >= size and number > 0), default=None)
    if place is None:
        return False
    room[place] -= 1
    room[place - size] = room.get(place - size, 0) + 1
    return True


class FreedCoreBound:
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

    def add_unit(self, unit: MovableUnit) -> bool:
        """The same with one more mover gone."""
        for task in unit.tasks if self._each else ():
            row = self._row.get(task.node)
            if row is not None:
                before = self._free[row]
                self._free[row] += sum(part.cores for part in task.slices)
                self._room += self._free[row] // self._each - before // self._each
        return self._room >= self._tasks


def _chosen(
    cleared: Sequence[ClearableRow], short: int, within: WithinBounds, shelter: RelocationCapacity | None
) -> list[ClearableRow]:
    """The cheapest rows that can be cleared together, one for each task that is short; none if too few."""
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


def _clearable(
    counted: SlotCounts, row: int, movable: MovableUnits, gives: CanEvict | None
) -> ClearableRow | None:
    node = counted.board.question.fleet.nodes[row].id
    units = _enough(Row(counted.board.question, row), movable.units_only_on(node), gives)
    if not units:
        return None
    moved = sum(map(_cards, units))
    stay = 0 if gives is None else sum(_cards(unit) for unit in units if not gives(unit))
    newest = max(unit.job.submitted_at for unit in units)
    highest = max(unit.job.priority for unit in units)
    lost = sum(unit.eviction_cost for unit in units)
    return ClearableRow((stay, highest, lost, moved, -newest, node), row, units)


def _hopeful(counted: SlotCounts, rows: Sequence[int], movable: MovableUnits) -> Sequence[int]:
    """Those of the rows that could hold one task more, as far as cards tell: most could not."""
    board = counted.board
    if not counted.amount_per_task or not is_countable(board):
        return rows
    nodes, whole = board.question.fleet.nodes, board.question.task.whole
    lacks = zip(rows, _lacks(counted)[rows].tolist(), strict=True)
    return [row for row, lack in lacks if movable.max_freeable(nodes[row].id, whole=whole) >= lack]


def _enough(state: Row, units: Sequence[MovableUnit], gives: CanEvict | None) -> tuple[MovableUnit, ...]:
    """The first units without which the row holds one task more: those that could leave for good, then those
    that are cheapest (`rank_unit`); none of them needlessly."""
    aim, chosen = state.slots() + 1, list[MovableUnit]()
    for unit in units if gives is None else sorted(units, key=lambda unit: not gives(unit)):
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


def _cards(unit: MovableUnit) -> int:
    """The cards that a unit takes, one for each task without any."""
    return sum(len(task.slices) or 1 for task in unit.tasks)


def _book(state: Row, unit: MovableUnit, sign: int) -> None:
    for task in unit.tasks:
        state.book(task, sign)


def rank_unit(unit: MovableUnit) -> tuple[int, float, int, float, str]:
    """The sort key of units on one node: lowest priority, then least work lost for what they give, then
    largest, then newest."""
    cores = unit.part.cores
    per_gain = unit.eviction_cost / max(1, cores)
    return (unit.job.priority, per_gain, -cores, -unit.job.submitted_at, unit.job.id)
