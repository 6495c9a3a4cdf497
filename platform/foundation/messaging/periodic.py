"""Celery's scheduler of periodic tasks, which reports an outage of the broker in one line."""

from __future__ import annotations

from typing import Any

import structlog
from celery.beat import PersistentScheduler, ScheduleEntry, SchedulingError
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)


class OutageTolerantScheduler(PersistentScheduler):  # type: ignore[misc]
    """Sends periodic tasks as Celery's own scheduler does. A task that the broker does not accept is sent
    again in its next period, and the log has one line for it instead of a stack trace."""

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send the task of `entry`; errors are logged, so that the other tasks are sent."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            outage = isinstance(error.__context__, OperationalError)
            log.warning("could not send a periodic task", error=str(error), exc_info=not outage)
