"""How many more tasks of one shape find a place while candidates are taken away and put back.

A search looks hundreds of times whether there is room. Seating a gang for each look would cost more than
everything else together, and where the tasks are alike and ask nothing of each other it is not needed:
the gang fits exactly when the rows have as many slots as it has tasks. Only rows that were touched are
counted again, on plain numbers; the fleet stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.engine.model import Allocation
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.capacity import slots
from scheduling.engine.placement.filters.empty import empty_cards
from scheduling.engine.placement.index.question import card_parts
from scheduling.engine.placement.index.row import PLENTY, Row
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Ints, Rows

# Vetoes whose answer follows from the amounts that are free on a row.
COUNTED = frozenset(("pods", "cpu", "memory", "card-cores", "card-memory"))
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


def decisive(board: Board) -> bool:
    """Whether a row takes one more task of the shape exactly if it has a slot: all that is counted is
    asked for by a veto, too."""
    task, fleet = board.question.task, board.question.fleet
    counted = {"cpu": task.cpu, "memory": task.memory, "pods": fleet.pods is not None}
    if task.cards:
        counted |= {"card-cores": True, "card-memory": task.whole or task.card_memory}
    asked = {veto.name for veto in board.vetoes}
    return countable(board) and all(name in asked for name, counts in counted.items() if counts)


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
        parts, cards = self._on_cards(rows)
        free = np.where(lasting, np.minimum(slots(question, rows, parts), PLENTY), 0)
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

    def _on_cards(self, rows: Rows) -> tuple[Ints, Ints]:
        """Parts of cards that each row has for such tasks, and cards of which it has any."""
        question = self.board.question
        if question.task.whole and question.task.cards:
            empty = np.array(empty_cards(question).now()[rows])
            return empty, empty
        parts = card_parts(question, rows)
        return parts.sum(axis=1), np.count_nonzero(parts, axis=1)

    def _count_singly(self, rows: list[int], mask: Bools) -> None:
        counts = self._counts
        for row in rows:
            state = self.row(row)
            now = state.slots() if mask[row] else 0
            self.total += now - int(counts[row])
            counts[row] = now
            self.cards[row] = len(state.fitting())

    def row(self, row: int) -> Row:
        """One row as it is now, to go its own way."""
        return Row(self.board.question, row)


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
        if decisive(board):
            board.counts = known.now
    return known


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
