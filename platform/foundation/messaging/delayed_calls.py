"""Calls that one thread of the process makes later, unless they are cancelled before, as most are."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from math import inf

import structlog

log = structlog.get_logger(__name__)


class DelayedCalls:
    """Makes calls at their time. Calls have to be short: each delays all others.

    Adding and cancelling a call costs next to nothing, whereas `threading.Timer` starts a thread for each.
    The thread starts with the first call, and ends when no call is left.
    """

    def __init__(self) -> None:
        self._keys = itertools.count()
        self.reset_state()

    def reset_state(self) -> None:
        """Reset the state; in the child of a fork the thread does not exist and the lock may be held."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting: dict[int, tuple[float, Callable[[], object]]] = {}
        self._thread: threading.Thread | None = None
        self._wakes_at = inf

    def call_later(self, seconds: float, call: Callable[[], object]) -> int:
        """Schedule `call` after so many seconds; return the key that cancels it."""
        at = time.monotonic() + seconds
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="delayed calls", daemon=True)
                self._thread.start()
            elif at < self._wakes_at:
                self._changed.notify()
            key = next(self._keys)
            self._waiting[key] = (at, call)
        return key

    def cancel_call(self, key: int) -> None:
        """Cancel a call. A call that was already due has ended when this returns."""
        with self._lock:
            self._waiting.pop(key, None)

    def _run(self) -> None:
        with self._lock:
            while self._waiting:
                self._wakes_at = min(at for at, _call in self._waiting.values())
                self._changed.wait(self._wakes_at - time.monotonic())
                self._call_due()
            self._thread = None

    def _call_due(self) -> None:
        now = time.monotonic()
        for key in [key for key, (at, _call) in self._waiting.items() if at <= now]:
            _at, call = self._waiting.pop(key)
            try:
                call()
            except Exception:  # the other calls must still be made
                log.exception("a delayed call failed")


delayed_calls = DelayedCalls()
os.register_at_fork(after_in_child=delayed_calls.reset_state)
