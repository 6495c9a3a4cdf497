"""Counts what callers are denied over and over, so that none of them fills the audit.

The first denials of a caller in a minute are written down as they are: one of an address without an
account, and sixty of a user, who answers for them. What follows in that minute is counted, and one more
record holds the number. Each web process counts for itself, and writes the number of a minute with the next
request after it.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

WINDOW_S: Final = 60
ADDRESSES_MAX: Final = 50
"""So many addresses without an account have records of their own in one minute; the others share one."""
OF_STRANGER: Final = 1
OF_USER: Final = 60


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever is denied something: a user, or an address without an account."""

    user_id: uuid.UUID | None = None
    username: str = ""
    address: str = ""

    @property
    def own_records(self) -> int:
        """Return how many denials in one minute get records of their own."""
        if self == OTHERS:
            return 0
        return OF_USER if self.user_id else OF_STRANGER


OTHERS: Final = Caller()


@dataclass(frozen=True, slots=True)
class Repeated:
    """The number of denials of one caller in a minute beyond the records of its own."""

    caller: Caller
    minute: datetime
    number: int


class DenialCounts:
    """The denials of the present minute by caller."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._window = 0
        self._number: Counter[Caller] = Counter()
        self._addresses = 0

    def is_recorded(self, caller: Caller, now: datetime) -> bool:
        """Count a denial; whether it is to have a record of its own."""
        with self._lock:
            self._window = int(now.timestamp()) // WINDOW_S
            if caller.user_id is None and caller not in self._number:
                if self._addresses >= ADDRESSES_MAX:
                    caller = OTHERS
                else:
                    self._addresses += 1
            self._number[caller] += 1
            return self._number[caller] <= caller.own_records

    def take_finished_counts(self, now: datetime) -> list[Repeated]:
        """Return the counts of minutes that are over; each count is returned once."""
        window = int(now.timestamp()) // WINDOW_S
        if window == self._window or not self._number:
            return []
        with self._lock:
            counted, began = self._number, self._window * WINDOW_S
            self._number, self._addresses, self._window = Counter(), 0, window
        return list(_repeated(counted, datetime.fromtimestamp(began, UTC)))


def _repeated(counted: Counter[Caller], minute: datetime) -> Iterator[Repeated]:
    for caller, number in counted.items():
        if number > caller.own_records:
            yield Repeated(caller, minute, number - caller.own_records)
