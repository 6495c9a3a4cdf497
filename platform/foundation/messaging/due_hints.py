"""Handles hints that a task caused in the process where it ran, if nothing prevents it.

A worker that has done the work of one hint often finds the next one due, caused by itself: an observation
releases quota, a cycle allocates it, execution creates the pods. The way over relay and broker takes longer
than most of these steps, and each of them would wait for it; so the worker handles such hints itself, for a
while.

A hint is deleted when a worker takes it. If the process dies meanwhile, the sweep requests the work again, as
for a message that the broker has lost.
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
"""The most seconds of this; then the broker's other messages for this process are handled."""
_SOON: Final = timedelta(seconds=0.1)
"""Hints due within this time are waited for: the way over relay and broker is hardly shorter."""
_own: list[outbox.Topic] = []


def take_up(topics: Iterable[outbox.Topic]) -> None:
    """Set the topics on which this process may work by itself: those of the queues that it reads."""
    _own[:] = topics


@contextmanager
def drain_due_hints() -> Iterator[None]:
    """Work on the hints that are due when the block of a task ends, in this process, the first due first."""
    with outbox.ring_later(_own) as outermost:
        until = time.monotonic() + _LONGEST_S  # from the task's start, like its time limits
        yield
        while outermost and _own and time.monotonic() < until and (due := outbox.due_soon(_own, _SOON)):
            time.sleep(max(0.0, (due - clock.now()).total_seconds()))
            outbox.work_one(_own)
