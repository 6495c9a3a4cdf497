"""Stores the reports for lists as workers do, as often as beat schedules them.

Run as `python -m benchmarks.lists.worker` in the platform's environment during the measurement; prints a line
when all reports are stored.
"""

from __future__ import annotations

import sys
import time
from typing import Final

import benchmarks.support.world  # noqa: F401 (it sets Django up)
from allotment.processes.schedule import beat_schedule
from foundation.core import clock
from telemetry.usage.store_reports import store_reports

_EVERY_S: Final[float] = beat_schedule(observe_every_s=1.0, demo=False)["store-reports"]["schedule"]


def main() -> None:
    """Store the reports repeatedly, until the process is terminated."""
    while True:
        store_reports(now=clock.now())
        sys.stdout.write("reports are stored\n")
        sys.stdout.flush()
        time.sleep(_EVERY_S)


if __name__ == "__main__":
    main()
