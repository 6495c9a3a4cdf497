"""Which rows changed since somebody last looked.

Dozens of boards ask that of the same log, each from where it stopped. A log of thousands of entries is
read once, and each of them finds its rows in an array.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# So few entries are sorted faster than they are looked up among all rows.
FEW = 48


class Touches:
    """When each row was last entered in a log, which only grows."""

    def __init__(self, log: list[int], rows: int) -> None:
        self._log = log
        self._last: NDArray[np.int64] = np.full(rows, -1, np.int64)
        self._read = 0

    def since(self, seen: int) -> NDArray[np.int64]:
        """The rows that were entered after the first `seen` entries, each once, ascending."""
        log = self._log
        if len(log) - seen <= FEW:
            return np.array(sorted(set(log[seen:])), np.int64)
        if self._read < len(log):
            # Of entries for the same row the last one stays.
            self._last[log[self._read :]] = np.arange(self._read, len(log))
            self._read = len(log)
        return np.flatnonzero(self._last >= seen)
