"""Marks of what pages show: a mark differs after every change of its kind.

All open pages of a process share one reading, so that many cost no more queries than one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from alerts.selectors.alerts import alerts_mark
from clusters.selectors.cell import cell_marks
from foundation.audit.audit_log import newest_record
from foundation.sql import row_scope
from scheduling.selectors.feed import event_latest
from telemetry.series.now import newest_tick_ms

Marks = Mapping[str, object]

SHARED_FOR_S: Final = 0.7
_READERS: Final[Mapping[str, Callable[[], object]]] = {
    "jobs": event_latest,
    "cells": cell_marks,
    "changes": newest_record,
    "metrics": newest_tick_ms,
    "alerts": alerts_mark,
}


class MarkReader:
    """Reads the marks, at most once in `SHARED_FOR_S` for whoever asks in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._marks: Marks = {}

    def read_marks(self) -> Marks:
        """Return the present marks by kind."""
        with self._lock:
            if time.monotonic() - self._read_at >= SHARED_FOR_S:
                with row_scope.whole():
                    self._marks = {kind: read() for kind, read in _READERS.items()}
                self._read_at = time.monotonic()
            return self._marks


reader: Final = MarkReader()


def list_changed(before: Marks, after: Marks) -> list[str]:
    """The kinds whose mark differs."""
    return [kind for kind, mark in after.items() if mark != before.get(kind)]
