"""How many more tasks of one shape find a place while candidates are taken away and put back.

A search looks hundreds of times whether there is room. Seating a gang for each look would cost more than
everything else together, and where the tasks are alike and ask nothing of each other it is not needed:
the gang fits exactly when the rows have as many slots as it has tasks. Only rows that were touched are
counted again, on plain numbers; the fleet stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from scheduling.engine.model import Allocation
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.capacity import slots
from scheduling.engine.placement.question import card_parts
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Ints, Rows

# Vetoes whose answer follows from the amounts that are free on a row.
COUNTED = frozenset(("pods", "cpu", "memory", "card-cores", "card-memory"))
PLENTY = 2**31
# Shapes of which the slots are kept with a fleet.
KEPT = 4096
# So few rows are counted faster one by one than as arrays.
FEW = 6


def countable(board: Board) -> bool:
    """Whether the slots of each row tell exactly how many tasks of the shape fit there together."""
    task, fleet = board.question.task, board.question.fleet
    plain = task.relations is None and not task.ports and not task.extended and not task.derived
    loose = fleet.zones is None or not task.aligned
    known = all(veto.fixed or veto.name in COUNTED for veto in board.vetoes)
    return plain and loose and known and (task.whole or task.cards <= 1)


class Slots:
    """The slots of all rows for one shape, brought up to date on `now`."""

    def __init__(self, board: Board) -> None:
        self.board = board
        # Cards of each row of which the shape could have a part, and the slots of all rows together.
        self.cards: Ints = np.zeros(0, np.int64)
        self.total = 0
        self._counts: Ints = np.zeros(0, np.int64)
        self._seen = self._epoch = -1
        self._plain = countable(board) and board.question.task.cards > 0
        # Rows that were looked at one by one, as they are until somebody touches them.
        self._rows: dict[int, Row] = {}
        self._rows_at = (-1, 0)

    def now(self) -> Ints:
        """How many more tasks each row could take. `[rows]`, not to be written to."""
        fleet = self.board.question.fleet
        rows: Rows = ALL_ROWS
        if self._epoch == fleet.epoch:
            if self._seen == len(fleet.touched):
                return self._counts
            # Rows of which something lasting changed are among those that were touched.
            rows = fleet.touched_since(self._seen)
        self._seen, self._epoch = len(fleet.touched), fleet.epoch
        # What lasts is brought up to date first: the cards that count are part of it.
        mask = self.board.lasting()
        if self._plain and not isinstance(rows, slice) and len(rows) <= FEW:
            self._count_singly(rows.tolist(), mask)
            return self._counts
        lasting, question = mask[rows], self.board.question
        parts = card_parts(question, rows)
        free = np.where(lasting, np.minimum(slots(question, rows, parts), PLENTY), 0)
        cards = np.count_nonzero(parts, axis=1)
        if isinstance(rows, slice):
            self._counts, self.cards = free, cards
        else:
            self._counts[rows], self.cards[rows] = free, cards
        self.total = int(self._counts.sum())
        return self._counts

    def left(self, needed: int) -> int:
        """How many of so many tasks find seats."""
        self.now()
        return min(needed, self.total)

    def _count_singly(self, rows: list[int], mask: Bools) -> None:
        counts = self._counts
        for row in rows:
            state = self._kept(row)
            now = state.slots() if mask[row] else 0
            self.total += now - int(counts[row])
            counts[row] = now
            self.cards[row] = state.open_cards()

    def row(self, row: int) -> Row:
        """One row as it is now, to go its own way."""
        return self._kept(row).copy()

    def _kept(self, row: int) -> Row:
        fleet, (epoch, seen) = self.board.question.fleet, self._rows_at
        self._rows_at = fleet.epoch, len(fleet.touched)
        if epoch != fleet.epoch:
            self._rows.clear()
        elif seen < len(fleet.touched) and self._rows:
            for touched in self._rows.keys() & fleet.touched_since(seen).tolist():
                del self._rows[touched]
        known = self._rows.get(row)
        if known is None:
            known = self._rows[row] = Row(self.board, row)
        return known


class _Shelf:
    """The slots that are kept with a fleet from cycle to cycle."""

    follows_fleet = True

    def __init__(self) -> None:
        self.slots: dict[Board, Slots] = {}


def slots_of(board: Board) -> Slots:
    """The slots for a board's shape; the same for all who ask."""
    memo = board.question.fleet.memo
    shelf = memo.get(_Shelf)
    if not isinstance(shelf, _Shelf) or len(shelf.slots) > KEPT:
        shelf = memo[_Shelf] = _Shelf()
    known = shelf.slots.get(board)
    if known is None:
        known = shelf.slots[board] = Slots(board)
    return known


class Row:
    """The free amounts of one row as plain numbers, and what one shape makes of them."""

    __slots__ = (
        "_columns",
        "_full",
        "_task",
        "_usable",
        "cores",
        "cpu",
        "holders",
        "memory",
        "of_cards",
        "pods",
        "sole",
    )

    def __init__(self, board: Board, row: int) -> None:
        question, fleet = board.question, board.question.fleet
        self._task, self._columns = question.task, fleet.columns[row]
        self._usable: list[bool] = question.usable[row].tolist()
        self._full: tuple[list[int], list[int]] = (
            fleet.card_cores[row].tolist(),
            fleet.card_memory[row].tolist(),
        )
        self.cpu, self.memory = int(fleet.cpu_free[row]), int(fleet.memory_free[row])
        self.pods = PLENTY if fleet.pods is None else int(fleet.pods[row] - fleet.used_pods[row])
        self.cores: list[int] = fleet.cores_free[row].tolist()
        self.of_cards: list[int] = fleet.card_memory_free[row].tolist()
        self.holders: list[int] = fleet.holders[row].tolist()
        self.sole: list[int] = fleet.exclusive[row].astype(int).tolist()

    def copy(self) -> Row:
        """The row as it is now, to go its own way."""
        twin = object.__new__(Row)
        twin._task, twin._columns = self._task, self._columns
        twin._usable, twin._full = self._usable, self._full
        twin.cpu, twin.memory, twin.pods = self.cpu, self.memory, self.pods
        twin.cores, twin.of_cards = list(self.cores), list(self.of_cards)
        twin.holders, twin.sole = list(self.holders), list(self.sole)
        return twin

    def book(self, task: Allocation, sign: int) -> None:
        """A task leaves (`sign` 1) or comes back (-1)."""
        columns = self._columns
        self.cpu += sign * task.cpu
        self.memory += sign * task.memory
        self.pods += sign
        for part in task.slices:
            column = columns.get(part.device)
            if column is not None:
                self.cores[column] += sign * part.cores
                self.of_cards[column] += sign * part.memory
                self.holders[column] -= sign
                self.sole[column] -= sign * part.exclusive

    def slots(self) -> int:
        """How many tasks of the shape stand here together."""
        task = self._task
        found = self.pods
        if task.cpu:
            found = min(found, self.cpu // task.cpu)
        if task.memory:
            found = min(found, self.memory // task.memory)
        if task.cards and found > 0:
            found = min(found, self._empty() // task.cards if task.whole else self._parts())
        return max(0, found)

    def open_cards(self) -> int:
        """On how many cards a task of the shape, which asks for cards, could have a part."""
        return self._empty() if self._task.whole else sum(parts > 0 for parts in self._parts_of_cards())

    def _empty(self) -> int:
        cards = zip(self._usable, self.holders, self.cores, self.of_cards, *self._full, strict=True)
        return sum(
            can and not holders and cores == all_cores and memory == all_memory
            for can, holders, cores, memory, all_cores, all_memory in cards
        )

    def _parts(self) -> int:
        return sum(self._parts_of_cards())

    def _parts_of_cards(self) -> Iterator[int]:
        task = self._task
        for can, sole, cores, memory in zip(self._usable, self.sole, self.cores, self.of_cards, strict=True):
            if not can or sole > 0 or cores < task.cores:
                continue
            parts = cores // task.cores
            if task.card_memory:
                parts = min(parts, memory // task.card_memory)
            yield max(0, parts)


class Seats:
    """Whether `needed` tasks of a shape find their places, with some allocations thought away."""

    def __init__(self, counted: Slots, needed: int) -> None:
        self.board, self.needed, self._counted = counted.board, needed, counted
        self.counts = counted.now()
        self.empty = counted.cards
        self.total = counted.total
        if self.fit:
            # On no row do more count than are needed; where all together do not suffice none has as many.
            self.total = int(np.minimum(self.counts, needed).sum())
        self._lasting = self.board.lasting()
        self._rows: dict[int, tuple[Row, int]] = {}

    @property
    def fleet(self) -> Fleet:
        """The fleet that is counted over."""
        return self.board.question.fleet

    @property
    def fit(self) -> bool:
        """Whether there are enough."""
        return self.total >= self.needed

    def leave(self, tasks: Iterable[Allocation], sign: int = 1) -> None:
        """These are gone, or back again with `sign` -1."""
        changed: dict[int, Row] = {}
        for task in tasks:
            row = self.fleet.row.get(task.node)
            if row is None or not self._lasting[row]:
                continue
            known = self._rows.get(row)
            if known is None:
                known = self._rows[row] = (self._counted.row(row), self._at_first(row))
            known[0].book(task, sign)
            changed[row] = known[0]
        for row, state in changed.items():
            slots_now = min(state.slots(), self.needed)
            self.total += slots_now - self._rows[row][1]
            self._rows[row] = (state, slots_now)

    def at(self, row: int) -> Row:
        """One row with what is thought away; changing it changes nothing here."""
        known = self._rows.get(row)
        return self._counted.row(row) if known is None else known[0].copy()

    def more(self, row: int) -> int:
        """How many more of the needed tasks one row takes by what is thought away."""
        known = self._rows.get(row)
        return 0 if known is None else known[1] - self._at_first(row)

    def _at_first(self, row: int) -> int:
        return min(int(self.counts[row]), self.needed)
