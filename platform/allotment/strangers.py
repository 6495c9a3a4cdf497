"""Counts what is denied to callers without an account, so that none of them fills the audit.

Of each address the first denial in a minute is written down as it is. What follows in that minute is
counted, and one more record holds the number. Each web process counts for itself, and the number of a minute
is written with the next request after it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

WINDOW_S: Final = 60
ADDRESSES_MAX: Final = 50
"""So many addresses have records of their own in one minute; the others are counted together."""
OTHERS: Final = ""


@dataclass(frozen=True, slots=True)
class Repeated:
    """How often one address (or all others together) was denied something after its first time."""

    address: str
    minute: datetime
    number: int


class StrangerDenials:
    """The denials of the present minute by address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._window = 0
        self._number: Counter[str] = Counter()

    def is_first(self, address: str, now: datetime) -> bool:
        """Count a denial; whether it is the address's first in this minute and has a record of its own."""
        with self._lock:
            self._window = int(now.timestamp()) // WINDOW_S
            if address not in self._number and len(self._number) >= ADDRESSES_MAX:
                self._number[OTHERS] += 1
                return False
            self._number[address] += 1
            return self._number[address] == 1

    def due(self, now: datetime) -> list[Repeated]:
        """What was counted in a minute that is over; it is handed out once."""
        window = int(now.timestamp()) // WINDOW_S
        if window == self._window or not self._number:
            return []
        with self._lock:
            counted, began, self._number = self._number, self._window * WINDOW_S, Counter()
            self._window = window
        return list(_repeated(counted, datetime.fromtimestamp(began, UTC)))


def _repeated(counted: Counter[str], minute: datetime) -> Iterator[Repeated]:
    for address, number in sorted(counted.items()):
        # The first of an address stands in a record of its own, of all others together none does.
        more = number if address == OTHERS else number - 1
        if more:
            yield Repeated(address, minute, more)
