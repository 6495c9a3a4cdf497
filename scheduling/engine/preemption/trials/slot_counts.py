"""Free slots for tasks of one shape while candidates are removed and restored.

A search checks hundreds of times whether the preemptor's tasks can be placed. A simulated placement for each
check would cost more than everything else together. Where tasks are equal and ask nothing of each other it is
not needed: the gang fits exactly if the rows have as many slots as it has tasks. Only changed rows are
counted again, on plain numbers; the fleet stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.engine.model import Allocation
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.capacity import count_slots
from scheduling.engine.placement.filters.empty_cards import empty_card_counter
from scheduling.engine.placement.index.question import card_parts
from scheduling.engine.placement.index.row import UNBOUNDED, RowState
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Ints, Rows, count_marked, sum_rows
from scheduling.engine.state.memo import read_fleet_table

# Vetoes that depend on the free amounts of a row alone.
COUNTED_VETOES = frozenset(("pods", "cpu", "memory", "card-cores", "card-memory"))
# The number of shapes whose slot counts a fleet keeps.
CACHED_SHAPES = 4096
# Up to this number, rows are counted faster one by one than as arrays.
FEW_ROWS = 6


def is_countable(board: ScoreBoard) -> bool:
    """Return whether the slots of a row are exactly the tasks of the shape that fit there together."""
    task = board.question.task
    plain = task.pod_affinities is None and not task.extended and not task.derived
    known = all(veto.fixed or veto.name in COUNTED_VETOES for veto in board.vetoes)
    return plain and known and (task.whole or task.cards <= 1)


def is_decisive(board: ScoreBoard) -> bool:
    """Return whether a row takes one more task of the shape exactly if it has a slot.

    That holds if a veto requests every amount that is counted.
    """
    task, fleet = board.question.task, board.question.fleet
    counted = {"cpu": task.cpu, "memory": task.memory, "pods": fleet.pods is not None}
    if task.cards:
        counted |= {"card-cores": True, "card-memory": task.whole or task.card_memory}
    asked = {veto.name for veto in board.vetoes}
    return is_countable(board) and all(name in asked for name, counts in counted.items() if counts)


class ShapeSlots:
    """The slots and the free capacity of all rows for one shape, brought up to date when they are read.

    `amount_per_task` is how much one task takes of what `free_amounts` counts.
    """

    def __init__(self, board: ScoreBoard) -> None:
        self.board, task = board, board.question.task
        self.amount_per_task = task.cards if task.whole else task.cores * task.cards
        # The cards of each row of which the shape could have a part, and the slots of all rows together.
        self.usable_cards: Ints = np.zeros(0, np.int64)
        self.total = 0
        self._counts: Ints = np.zeros(0, np.int64)
        self._seen_changes = self._epoch = -1
        self._counts_singly = is_countable(board) and task.cards > 0
        self._free_cores: Ints = np.zeros(0, np.int64)
        self._seen_cores = self._epoch_of_cores = -1

    def current_counts(self) -> Ints:
        """Return the number of further tasks that each row could take. `[rows]`, read-only."""
        fleet = self.board.question.fleet
        rows: Rows = ALL_ROWS
        if self._epoch == fleet.epoch:
            if self._seen_changes == len(fleet.changed_rows):
                return self._counts
            # `changed_rows` includes every row of which a lasting fact changed.
            rows = fleet.rows_changed_since(self._seen_changes)
        self._seen_changes, self._epoch = len(fleet.changed_rows), fleet.epoch
        # Lasting facts are updated first, because they decide which cards count.
        mask = self.board.lasting_rows()
        if self._counts_singly and not isinstance(rows, slice) and len(rows) <= FEW_ROWS:
            self._count_singly(rows.tolist(), mask)
            return self._counts
        lasting, question = mask[rows], self.board.question
        parts, cards = self._parts_and_cards(rows)
        free = np.where(lasting, np.minimum(count_slots(question, rows, parts), UNBOUNDED), 0)
        if isinstance(rows, slice):
            self._counts, self.usable_cards = free, cards
        else:
            self._counts[rows], self.usable_cards[rows] = free, cards
        self.total = int(self._counts.sum())
        return self._counts

    def free_amounts(self) -> Ints:
        """Return what is free by row: empty cards for shapes of whole cards, core units for shapes of card
        parts. `[rows]`, read-only."""
        fleet = self.board.question.fleet
        if self.board.question.task.whole:
            self.current_counts()
            return self.usable_cards
        self.board.lasting_rows()  # updates lasting facts, which decide which cards count
        if self._epoch_of_cores != fleet.epoch:
            self._free_cores = self._sum_free_cores(ALL_ROWS)
        elif self._seen_cores < len(fleet.changed_rows):
            rows = fleet.rows_changed_since(self._seen_cores)
            self._free_cores[rows] = self._sum_free_cores(rows)
        self._epoch_of_cores, self._seen_cores = fleet.epoch, len(fleet.changed_rows)
        return self._free_cores

    def _sum_free_cores(self, rows: Rows) -> Ints:
        question = self.board.question
        return sum_rows(np.where(question.usable[rows], question.fleet.cores_free[rows], 0))

    def count_up_to(self, needed: int) -> int:
        """Return how many of `needed` tasks have a slot."""
        self.current_counts()
        return min(needed, self.total)

    def _parts_and_cards(self, rows: Rows) -> tuple[Ints, Ints]:
        """Return for each row the card parts that such tasks could take, and the cards that have any."""
        question = self.board.question
        if question.task.whole and question.task.cards:
            empty = np.array(empty_card_counter(question).count_by_row()[rows])
            return empty, empty
        parts = card_parts(question, rows)
        return sum_rows(parts), count_marked(parts > 0)

    def _count_singly(self, rows: list[int], mask: Bools) -> None:
        counts = self._counts
        for row in rows:
            state = self.build_row(row)
            now = state.count_slots() if mask[row] else 0
            self.total += now - int(counts[row])
            counts[row] = now
            self.usable_cards[row] = len(state.fitting_columns())

    def build_row(self, row: int) -> RowState:
        """Return one row at its present state, as an independent copy."""
        return RowState(self.board.question, row)


def get_slot_counts(board: ScoreBoard) -> ShapeSlots:
    """Return the slot counts for a board's shape, shared by all callers."""
    shapes = read_fleet_table(board.question.fleet.memo, "slot counts", CACHED_SHAPES)
    known: ShapeSlots | None = shapes.get(board)
    if known is None:
        known = shapes[board] = ShapeSlots(board)
        if is_decisive(board):
            board.counts = known.current_counts
    return known


class FreeSlotCounter:
    """A count of the slots for `needed` tasks of a shape, with some allocations removed."""

    def __init__(self, counted: ShapeSlots, needed: int) -> None:
        self.board, self.needed, self._counted = counted.board, needed, counted
        self.initial_counts = counted.current_counts()
        self.usable_cards = counted.usable_cards
        self.total = counted.total
        if self.fits:
            # Slots beyond the needed number are ignored; with too few slots in all, no row has that many.
            self.total = int(np.minimum(self.initial_counts, needed).sum())
        self._lasting = self.board.lasting_rows()
        self._rows: dict[int, tuple[RowState, int]] = {}

    @property
    def fleet(self) -> Fleet:
        """The fleet whose rows are counted."""
        return self.board.question.fleet

    @property
    def fits(self) -> bool:
        """True if there are enough slots."""
        return self.total >= self.needed

    def remove_tasks(self, tasks: Iterable[Allocation], sign: int = 1) -> None:
        """Remove allocations from the count, or restore them with `sign` -1."""
        changed: dict[int, RowState] = {}
        for task in tasks:
            row = self.fleet.row.get(task.node)
            if row is None or not self._lasting[row]:
                continue
            known = self._rows.get(row)
            if known is None:
                known = self._rows[row] = (self._counted.build_row(row), self._initial_slots(row))
            known[0].apply_task(task, sign)
            changed[row] = known[0]
        for row, state in changed.items():
            slots_now = min(state.count_slots(), self.needed)
            self.total += slots_now - self._rows[row][1]
            self._rows[row] = (state, slots_now)

    def copy_row(self, row: int) -> RowState:
        """Return one row with the removals applied, as an independent copy."""
        known = self._rows.get(row)
        return self._counted.build_row(row) if known is None else known[0].copy()

    def gained_slots(self, row: int) -> int:
        """Return how many more of the needed tasks a row takes because of the removals."""
        known = self._rows.get(row)
        return 0 if known is None else known[1] - self._initial_slots(row)

    def _initial_slots(self, row: int) -> int:
        return min(int(self.initial_counts[row]), self.needed)
