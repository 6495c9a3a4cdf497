"""The changes of the last minute, each with the tenant that it concerns.

All open pages of a process share one read of the database, and each selects what its reader may see, so that
many pages cost no more queries than one.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from alerts.selectors.alerts import alert_marks
from alerts.selectors.messages import list_new_messages
from clusters.selectors.cell import cell_marks
from foundation.audit.audit_log import list_recorded
from foundation.sql import row_scope
from scheduling.selectors.events.feed import list_changed_jobs
from telemetry.series.readings.now import newest_tick_ms
from tenants.access.grants import Grant
from tenants.access.permissions import Permission
from tenants.selectors.tenant import tenant_paths

SHARED_FOR_S: Final = 0.7
LATE_S: Final = 5.0
"""A row is noticed if its transaction ends within this time after the write, in seconds."""
_LOGGED_S: Final = 60.0
_BATCH: Final = 5000
_ON_TENANT: Final = {
    "jobs": frozenset({Permission.JOB_VIEW}),
    "changes": frozenset({Permission.TENANT_VIEW}),
    "alerts": frozenset({Permission.JOB_VIEW}),
}
_ON_PLATFORM: Final = {
    "changes": frozenset({Permission.CLUSTER_VIEW, Permission.AUDIT_VIEW}),
    "alerts": frozenset({Permission.CLUSTER_VIEW}),
    "cells": frozenset({Permission.CLUSTER_VIEW}),
    "metrics": frozenset({Permission.CLUSTER_VIEW}),
    "messages": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Change:
    """A change of some kind: at the tenant with that path, or on the platform (None).

    `actor_id` is the user who made the change, if any, or the recipient of a message.
    """

    kind: str
    path: str | None = None
    actor_id: uuid.UUID | None = None

    def is_visible(self, reader_id: uuid.UUID, grants: Iterable[Grant]) -> bool:
        """Return whether a reader with these grants may see the change; readers may see all of their own
        changes.
        """
        if self.actor_id == reader_id:
            return True
        needed = (_ON_PLATFORM if self.path is None else _ON_TENANT)[self.kind]
        return any(grant.points & needed and grant.counts_on(self.path) for grant in grants)


class NewRows:
    """Finds rows that were not there at the last read, by a value that grows with them.

    Transactions end in any order, so a row may appear below one that was read already: rows that are at most
    `LATE_S` old are read again, and known rows are left out.
    """

    def __init__(self) -> None:
        self._began = False
        self._floor: Any = None
        self._known: dict[Any, tuple[Any, float]] = {}

    def find_new(
        self, read: Callable[[Any, int], Iterable[tuple[Any, ...]]], now: float
    ) -> list[tuple[Any, ...]]:
        """Return the new rows of `read(floor, limit)`; a row begins with its growing value and its key."""
        first, self._began = not self._began, True
        rows = list(read(self._floor, 1 if first else _BATCH))
        new = [row for row in rows if row[1] not in self._known]
        self._known |= {key: (value, now) for value, key, *_rest in new}
        old = [key for key, (_value, at) in self._known.items() if first or at < now - LATE_S]
        for key in old:
            value, _at = self._known.pop(key)
            self._floor = value if self._floor is None else max(self._floor, value)
        return [] if first else new


@dataclass(slots=True)
class ChangeLog:
    """Reads changes for all pages of this process, at most once in `SHARED_FOR_S`."""

    _looking: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked_at: float = float("-inf")
    _looks: int = 0
    _log: deque[tuple[int, float, frozenset[Change]]] = field(default_factory=deque)
    _events: NewRows = field(default_factory=NewRows)
    _records: NewRows = field(default_factory=NewRows)
    _messages: NewRows = field(default_factory=NewRows)
    _marks: Mapping[tuple[str, str | None], object] | None = None

    def read_since(self, number: int | None) -> tuple[int, set[Change]]:
        """Return the number of the last read, and the changes that were found after the read with the given
        number.

        While another page reads, the result is that of the read before: a page that waited here would hold a
        connection that the read may need.
        """
        if self._looking.acquire(blocking=False):
            try:
                now = time.monotonic()
                if now - self._looked_at >= SHARED_FOR_S:
                    self._look(now)
            finally:
                self._looking.release()
        with self._lock:
            since = self._looks if number is None else number
            return self._looks, {change for look, _at, found in self._log if look > since for change in found}

    def _look(self, now: float) -> None:
        with row_scope.whole():
            found = frozenset(self._find_changes(now))
        with self._lock:
            self._looked_at = now
            self._looks += 1
            if found:
                self._log.append((self._looks, now, found))
            while self._log and self._log[0][1] < now - _LOGGED_S:
                self._log.popleft()

    def _find_changes(self, now: float) -> Iterable[Change]:
        for _key, _pk, path in self._events.find_new(list_changed_jobs, now):
            yield Change("jobs", path)
        records = self._records.find_new(list_recorded, now)
        paths = tenant_paths({tenant for *_key, tenant, _actor in records if tenant is not None})
        for *_key, tenant, actor in records:
            yield Change("changes", paths.get(tenant), actor)
        for _at, _pk, user in self._messages.find_new(list_new_messages, now):
            yield Change("messages", actor_id=user)
        marks = _read_marks()
        before, self._marks = self._marks, marks
        if before is not None:
            for kind, path in marks.keys() | before.keys():
                if marks.get((kind, path)) != before.get((kind, path)):
                    yield Change(kind, path)


def _read_marks() -> dict[tuple[str, str | None], object]:
    """Return values that differ after every change of their kind at that tenant."""
    marks: dict[tuple[str, str | None], object] = {("alerts", path): m for path, m in alert_marks().items()}
    return marks | {("cells", None): cell_marks(), ("metrics", None): newest_tick_ms()}


log: Final = ChangeLog()
