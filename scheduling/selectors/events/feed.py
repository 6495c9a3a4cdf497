"""Reads events in the order of their keys as they are committed.

Keys are assigned in order, but transactions end in any order: on PostgreSQL an event may appear with a lower
key than one that was read already. So a gap between keys stops the reader until it is known whether it will
be filled: the reader records the highest key and the next transaction id; once every transaction that ran
then has ended, keys that are missing below the recorded one were rolled back. So a reader that continues
after its last key misses no event. SQLite has one writer and no such gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.db import connection
from django.db.models import Max, Q, QuerySet

from scheduling.models import JobEvent

_BATCH: Final = 500
_SNAPSHOT: Final = (
    "SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint FROM pg_current_snapshot() s"
)


def event_latest() -> int:
    """Return the highest key, 0 without events: a reader of new events begins after it."""
    return JobEvent.unscoped.aggregate(key=Max("pk"))["key"] or 0


def list_changed_jobs(above: int | None, limit: int) -> QuerySet[JobEvent, tuple[int, int, str]]:
    """Return the newest events, above a key if one is given, as (key, key, path of the workspace)."""
    events = JobEvent.unscoped.all() if above is None else JobEvent.unscoped.filter(pk__gt=above)
    return events.order_by("-pk").values_list("pk", "pk", "job__workspace__path")[:limit]


class EventFeed:
    """Reads events above `cursor` in the order of their keys; it waits for events with lower keys."""

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self._settled = cursor
        self._noted: tuple[int, int] | None = None

    def poll_events(self, scope: Q) -> Sequence[JobEvent]:
        """Return the next events within `scope` (a condition on events), with their job and its workspace.

        The cursor moves behind all events that were read, within the scope or not.
        """
        self._settle()
        keys = JobEvent.unscoped.filter(pk__gt=self.cursor).order_by("pk").values_list("pk", flat=True)
        until = self.cursor
        for key in keys[:_BATCH]:
            if key != until + 1 and key > self._settled:
                self._note()
                break
            until = key
        if until == self.cursor:
            return ()
        events = JobEvent.unscoped.filter(scope, pk__gt=self.cursor, pk__lte=until)
        found = list(events.select_related("job__workspace").order_by("pk"))
        self.cursor = until
        return found

    def _note(self) -> None:
        """Record the highest key and, read after it, the next transaction id."""
        if self._noted is None:
            self._noted = (event_latest(), _transactions()[1])

    def _settle(self) -> None:
        """Mark keys up to the recorded one as complete if all transactions that ran then have ended."""
        if self._noted is not None and _transactions()[0] >= self._noted[1]:
            self._settled, self._noted = self._noted[0], None


def _transactions() -> tuple[int, int]:
    """Return the ids of the oldest running transaction and of the next one; zeros on SQLite."""
    if connection.vendor != "postgresql":
        return (0, 0)
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT)
        oldest, following = cursor.fetchone()
    return oldest, following
