"""Counts repeated denials of a caller, so that no caller fills the audit log.

The first denials of a caller in a minute get a record each: one of an address without an account, and sixty
of a user, whose account identifies the caller. Further denials in that minute are counted, and one more
record holds their number. Each web process counts separately, and writes the number of a minute with the
first request after it.
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
"""The most addresses without an account that get their own records in one minute; the others share one."""
OF_ANONYMOUS: Final = 1
OF_USER: Final = 60


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a denied request: a user, or an address without an account."""

    user_id: uuid.UUID | None = None
    username: str = ""
    address: str = ""

    @property
    def own_records(self) -> int:
        """The number of denials in one minute that get their own records."""
        if self == OTHERS:
            return 0
        return OF_USER if self.user_id else OF_ANONYMOUS


OTHERS: Final = Caller()


@dataclass(frozen=True, slots=True)
class Repeated:
    """The number of denials of one caller in a minute beyond those with their own records."""

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
        """Count a denial and return whether it gets its own record."""
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
