"""Turns signals into events for which a loop can wait, so that handlers do no work."""

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
    """Counts the requests to stop, and sleeps until a signal arrives."""

    def __init__(self, wake_end: int) -> None:
        self._wake_end = wake_end
        self.stop_requests = 0

    def sleep_until_signal(self, seconds: float) -> None:
        """Sleep, but wake for a signal: a child that ended, or a request to stop."""
        select.select([self._wake_end], [], [], max(0.0, seconds))
        # Read from the pipe, or the next sleep would return at once.
        with suppress(BlockingIOError):
            while os.read(self._wake_end, 512):
                continue

    def _count(self, signum: int, frame: object) -> None:
        self.stop_requests += 1


def _ignore(signum: int, frame: object) -> None:
    """Do nothing; unlike SIG_IGN, a handler lets the signal wake the loop."""


@contextmanager
def watch_signals() -> Iterator[Signals]:
    """Watch signals until the block ends. Works only in the main thread, like all Python signal handling."""
    read_end, write_end = os.pipe()
    for end in (read_end, write_end):
        os.set_blocking(end, False)
    signals = Signals(read_end)
    handlers: dict[signal.Signals, Handler] = {signal.SIGCHLD: _ignore}
    # SIGHUP is ignored on purpose under nohup; the other two are always handled.
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
