"""A circuit breaker: calls to a cluster that does not answer become rare, so that few callers wait for it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from clusters.backends.base import BackendUnavailable

FAILURES: Final = 5  # failures in a row that open it
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0


class CircuitBreaker:
    """Counts failures in a row; while open, it refuses calls at once, and lets one call through per pause.

    Safe to share among threads. `clock` gives seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._failures = 0
        self._subjects: set[str] = set()
        self._pause_s = FIRST_PAUSE_S
        self._open_until = 0.0

    def check_closed(self) -> None:
        """Raises: BackendUnavailable while it is open; the one call let through starts the next pause."""
        with self._guard:
            if self._failures < FAILURES:
                return
            wait_s = self._open_until - self._clock()
            if wait_s > 0:
                raise BackendUnavailable(
                    f"{self._failures} calls in a row failed; the next is tried in {wait_s:.0f} s"
                )
            self._hold_back()

    def record_success(self) -> None:
        """Record that the cluster answered, with any answer."""
        with self._guard:
            self._failures, self._pause_s = 0, FIRST_PAUSE_S
            self._subjects.clear()

    def record_failure(self, subject: str = "") -> None:
        """Record that the cluster did not answer, or could not.

        `subject` names what the call was about and what may be the cause, such as a namespace: its failures
        in a row count once, so that no subject opens the breaker for the others.
        """
        with self._guard:
            if subject in self._subjects:
                return
            if subject:
                self._subjects.add(subject)
            self._failures += 1
            if self._failures >= FAILURES:
                self._hold_back()

    def _hold_back(self) -> None:
        # Jitter: workers that lost the same cluster at once must not all retry at once.
        self._open_until = self._clock() + self._pause_s * random.uniform(0.5, 1.0)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
