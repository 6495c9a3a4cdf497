"""The one place that reads the time, so that tests can stop it here."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from django.utils import timezone


def now() -> datetime:
    """Return the current time, aware and in UTC."""
    return timezone.now()


def start_work_stopwatch(*, most_wall_per_work: float) -> Callable[[], float]:
    """Return a stopwatch of the CPU seconds of the calling thread since now.

    A budget in CPU time holds on a busy machine as on an idle one. So that every budget ends at some time,
    the stopwatch never runs slower than wall time divided by `most_wall_per_work`.
    """
    cpu, wall = time.thread_time(), time.monotonic()

    def read_seconds() -> float:
        return max(time.thread_time() - cpu, (time.monotonic() - wall) / most_wall_per_work)

    return read_seconds
