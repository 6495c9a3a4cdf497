"""The time limit of a forecast, and its progress."""

from __future__ import annotations

import math
from collections.abc import Callable


class OutOfTimeError(Exception):
    """The time for the futures is over."""


class ForecastClock:
    """The time limit of a forecast; without a stopwatch or a budget there is none.

    Each of the first `fewest` futures has a slot of the budget, and the remaining time of earlier slots.
    `report` gets the part that is done, 0 to 1.
    """

    def __init__(
        self,
        stopwatch: Callable[[], float] | None,
        budget_s: float | None,
        report: Callable[[float], None] | None,
        *,
        futures: int,
        fewest: int,
    ) -> None:
        self._stopwatch = stopwatch if budget_s is not None else None
        self._budget_s = budget_s or 0.0
        self._begun = stopwatch() if stopwatch else 0.0
        self._slot_s = math.inf
        self._report, self._futures, self._fewest, self._done = report, futures, fewest, 0

    def begin_future(self, done: int) -> None:
        """Begin the slot of the next future after `done` futures."""
        slots = self._fewest + 1
        self._slot_s = self._budget_s * (done + 1) / slots if done < self._fewest else math.inf
        self._done = done

    def check_budget(self) -> None:
        """Report the part that is done. Raises: OutOfTimeError once the budget is used up."""
        spent = self._stopwatch() - self._begun if self._stopwatch else 0.0
        if self._report is not None:
            used = spent / self._budget_s if self._budget_s else 0.0
            self._report(min(1.0, max(used, self._done / self._futures)))
        if self._stopwatch and spent > self._budget_s:
            raise OutOfTimeError

    @property
    def slot_is_over(self) -> bool:
        """Return whether the time of the current future is over."""
        return self._stopwatch is not None and self._stopwatch() - self._begun > self._slot_s
