"""For which jobs what others can spare may be enough, told for all queues of a cell at once.

Nearly all jobs that wait in a full cell cannot be helped by surplus. To ask that job by job costs more than
the rest of the action.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.engine.gang.bounds import FreedAmounts, SlotBounds
from scheduling.engine.placement.board import Board
from scheduling.engine.state.fleet import Bools

NOTHING = FreedAmounts(*np.zeros((3, 0), np.int64))


class SurplusFeasibility:
    """What several lots of freed amounts, numbered from 0, could do as the snapshot stood at first.

    What is taken since can only make it less: a lot without hope then has none later.
    """

    def __init__(self, bounds: SlotBounds, lots: Sequence[FreedAmounts]) -> None:
        self._bounds = bounds
        self._size = len(lots)
        self._lot = np.repeat(np.arange(len(lots)), [len(lot.rows) for lot in lots])
        columns = zip(NOTHING, *lots, strict=True)
        self._freed = FreedAmounts(*(np.concatenate(column) for column in columns))
        self._known: dict[tuple[Board, int], Bools] = {}

    def may_suffice(self, board: Board, needed: int, lot: int) -> bool:
        """False where so many tasks find too few seats even with a lot freed."""
        known = self._known.get((board, needed))
        if known is None:
            known = self._known[board, needed] = self._judged(board, needed)
        return bool(known[lot])

    def _judged(self, board: Board, needed: int) -> Bools:
        more = self._bounds.count_gained_slots(board, needed, self._freed)
        if more is None:
            return np.ones(self._size, np.bool_)
        gained = np.bincount(self._lot, more, self._size)
        enough: Bools = self._bounds.count_slots(board, needed) + gained >= needed
        return enough
