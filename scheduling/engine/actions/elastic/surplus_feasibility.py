"""This module computes for which pending jobs the surplus may be enough, for all queues of a cell at once.

Nearly all pending jobs of a full cell cannot be helped by surplus, and asking that job by job costs more than
the rest of the action.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.engine.gang.bounds import FreedAmounts, SlotBounds
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.state.fleet import Bools

NOTHING = FreedAmounts(*np.zeros((3, 0), np.int64))


class SurplusFeasibility:
    """The effect of several amounts of freed capacity, numbered from 0, in the state at the beginning.

    Later decisions only take capacity, so an amount that is not enough then is not enough later.
    """

    def __init__(self, bounds: SlotBounds, amounts: Sequence[FreedAmounts]) -> None:
        self._bounds = bounds
        self._size = len(amounts)
        self._number_of_row = np.repeat(np.arange(len(amounts)), [len(number.rows) for number in amounts])
        columns = zip(NOTHING, *amounts, strict=True)
        self._freed = FreedAmounts(*(np.concatenate(column) for column in columns))
        self._known: dict[tuple[ScoreBoard, int], Bools] = {}

    def may_suffice(self, board: ScoreBoard, needed: int, number: int) -> bool:
        """Return False if the tasks find too few slots even with this amount freed."""
        known = self._known.get((board, needed))
        if known is None:
            known = self._known[board, needed] = self._compute(board, needed)
        return bool(known[number])

    def _compute(self, board: ScoreBoard, needed: int) -> Bools:
        more = self._bounds.count_gained_slots(board, needed, self._freed)
        if more is None:
            return np.ones(self._size, np.bool_)
        gained = np.bincount(self._number_of_row, more, self._size)
        enough: Bools = self._bounds.count_slots(board, needed) + gained >= needed
        return enough
