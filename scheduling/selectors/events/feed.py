"""Following events as they are committed.

Keys are given out in order, but transactions end in any order: on PostgreSQL an event may appear below one
that was read already. So a gap between keys stops the reader until it is known whether it will be filled: a
look notes the highest key and the next transaction that could begin; once every transaction that was running
then has ended, whatever is missing below that key was rolled back and never comes. A reader that continues
after the last key it was given therefore misses nothing. SQLite has one writer and no such gaps.
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
    """The highest key there is, 0 without events: where to begin for what happens from now on."""
    return JobEvent.unscoped.aggregate(key=Max("pk"))["key"] or 0


def list_changed_jobs(above: int | None, limit: int) -> QuerySet[JobEvent, tuple[int, int, str]]:
    """The newest events, those above a key if one is given: the key twice, and the path of the workspace."""
    events = JobEvent.unscoped.all() if above is None else JobEvent.unscoped.filter(pk__gt=above)
    return events.order_by("-pk").values_list("pk", "pk", "job__workspace__path")[:limit]


class EventFeed:
    """Reads events above `cursor`, in the order of their keys, never one before another that may yet come."""

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self._settled = cursor
        self._noted: tuple[int, int] | None = None

    def poll_events(self, scope: Q) -> Sequence[JobEvent]:
        """The next events within `scope` (a condition on events), with their job and its workspace.

        Moves the cursor behind everything that was looked at, in the scope or not.
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
        """Remember how far the keys reach and, read after that, which transaction could begin next."""
        if self._noted is None:
            self._noted = (event_latest(), _transactions()[1])

    def _settle(self) -> None:
        """Once all that ran when it was noted has ended, nothing more comes below what was noted."""
        if self._noted is not None and _transactions()[0] >= self._noted[1]:
            self._settled, self._noted = self._noted[0], None


def _transactions() -> tuple[int, int]:
    """The oldest transaction that still runs, and the next one that could begin."""
    if connection.vendor != "postgresql":
        return (0, 0)
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT)
        oldest, following = cursor.fetchone()
    return oldest, following
