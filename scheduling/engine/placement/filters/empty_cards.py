"""This module counts unused cards, once for all shapes that ask for whole ones."""

from __future__ import annotations

import numpy as np

from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import ALL_ROWS, Ints, Rows, count_marked
from scheduling.engine.state.memo import read_memo


class EmptyCardCounter:
    """The number of cards of each row that a task could have as a whole, of those a shape accepts."""

    follows_fleet = True

    def __init__(self, question: Question) -> None:
        # This question is separate from that of a board, which is revised when the board is read.
        self._question = Question(question.fleet, question.task, question.flavor)
        self._counts: Ints = np.zeros(0, np.int64)
        self._seen = self._epoch = -1

    def count_by_row(self) -> Ints:
        """Return the counts, `[rows]`; the array must not be written to."""
        fleet = self._question.fleet
        if self._epoch != fleet.epoch:
            self._counts = self._count(ALL_ROWS)
        elif self._seen < len(fleet.changed_rows):
            rows = fleet.rows_changed_since(self._seen)
            self._counts[rows] = self._count(rows)
        self._epoch, self._seen = fleet.epoch, len(fleet.changed_rows)
        return self._counts

    def _count(self, rows: Rows) -> Ints:
        self._question.revise_rows(rows)
        return count_marked(self._question.fitting(rows))


def empty_card_counter(question: Question) -> EmptyCardCounter:
    """Return the counter for a shape of whole cards, shared by all shapes that accept the same cards."""
    key = ("empty cards", *question.accepted)
    return read_memo(question.fleet.memo, key, lambda: EmptyCardCounter(question))
