"""An index of the log of changed rows: the rows that changed since a reader's last position.

Dozens of score boards read the same log, each from its own position. A log of thousands of entries is
indexed once, so that each board finds its rows in an array.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Up to this number, sorting the entries is faster than a scan of all rows.
FEW = 48


class RowChangeLog:
    """The position at which each row was last entered in a log that only grows."""

    def __init__(self, log: list[int], rows: int) -> None:
        self._log = log
        self._last: NDArray[np.int64] = np.full(rows, -1, np.int64)
        self._read = 0
        # The last result, and the part of the log that it is about.
        self._span = (0, 0)
        self._rows: NDArray[np.int64] = np.zeros(0, np.int64)

    def rows_since(self, seen: int) -> NDArray[np.int64]:
        """Return the rows that were entered after the first `seen` entries, each once, ascending.

        The array must not be written to: the next reader from the same position gets it, too.
        """
        log = self._log
        if (seen, len(log)) != self._span:
            self._span, self._rows = (seen, len(log)), self._find_rows(seen)
        return self._rows

    def _find_rows(self, seen: int) -> NDArray[np.int64]:
        log = self._log
        if len(log) - seen <= FEW:
            return np.array(sorted(set(log[seen:])), np.int64)
        if self._read < len(log):
            # Where a row has several entries, numpy assigns the last.
            self._last[log[self._read :]] = np.arange(self._read, len(log))
            self._read = len(log)
        return np.flatnonzero(self._last >= seen)
