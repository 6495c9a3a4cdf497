"""Hints that a task caused are handled where it ran, if nothing prevents it.

A worker that has done what one hint asked for often finds the next one due, its own: what was observed frees
quota, a cycle gives it away, execution makes the pods. The way over relay and broker costs more than most of
these steps, and each of them would wait for it; so the worker takes such hints up itself, for a while.

A hint is gone once it is taken up. If the process dies over it, the sweep asks anew, as for a message that
the broker has lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from foundation.core import clock
from foundation.messaging import outbox

_LONGEST_S: Final = 5.0
"""Then what else the broker holds for this process gets its turn."""
_SOON: Final = timedelta(seconds=0.1)
"""What is due within this time is waited for: the way over relay and broker is hardly shorter."""
_own: list[outbox.Topic] = []


def take_up(topics: Iterable[outbox.Topic]) -> None:
    """Say which topics this process may work on by itself: those of the queues that it reads."""
    _own[:] = topics


@contextmanager
def drain_due_hints() -> Iterator[None]:
    """Work on the hints that are due when the block of a task ends, in this process, the first due first."""
    with outbox.ring_later(_own) as outermost:
        until = time.monotonic() + _LONGEST_S  # from the task's own start: its time limits count from there
        yield
        while outermost and _own and time.monotonic() < until and (due := outbox.due_soon(_own, _SOON)):
            time.sleep(max(0.0, (due - clock.now()).total_seconds()))
            outbox.work_one(_own)
