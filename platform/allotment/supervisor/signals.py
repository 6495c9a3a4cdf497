"""Turns signals into something a loop can wait for, so that no handler does any work."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

Handler = Callable[[int, object], None]
STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Counts the requests to stop, and sleeps until a signal comes."""

    def __init__(self, wake_end: int) -> None:
        self._wake_end = wake_end
        self.stop_requests = 0

    def sleep_until_signal(self, seconds: float) -> None:
        """Sleeps, but wakes for a signal: a child that ended, or a request to stop."""
        select.select([self._wake_end], [], [], max(0.0, seconds))
        # Taken out, or the next sleep would return at once.
        with suppress(BlockingIOError):
            while os.read(self._wake_end, 512):
                continue

    def _count(self, signum: int, frame: object) -> None:
        self.stop_requests += 1


def _ignore(signum: int, frame: object) -> None:
    """A handler, unlike SIG_IGN, lets the signal wake the loop."""


@contextmanager
def watch_signals() -> Iterator[Signals]:
    """Watches signals until the block ends. Only in the main thread, as everywhere in Python."""
    read_end, write_end = os.pipe()
    for end in (read_end, write_end):
        os.set_blocking(end, False)
    signals = Signals(read_end)
    handlers: dict[signal.Signals, Handler] = {signal.SIGCHLD: _ignore}
    # SIGHUP is ignored on purpose under nohup; the other two are asked for by name and always count.
    hup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handlers |= {
        signum: signals._count for signum in STOPPING if not (signum == signal.SIGHUP and hup_ignored)
    }
    before = {signum: signal.signal(signum, handler) for signum, handler in handlers.items()}
    wakeup_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield signals
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for signum, handler in before.items():
            signal.signal(signum, handler)
        os.close(read_end)
        os.close(write_end)
