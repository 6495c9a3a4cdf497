"""The result of a selector of series."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

Point = tuple[datetime, float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart.

    `measure` is the measure (`utilisation`, `memory_used`, …) and `subject` its subject: a device
    or `task/device` id, `average`, `total`, or empty. `key` joins the two and is unique in an answer.
    A point is the mean of the bucket that starts at its time; None is a gap, never a zero. `estimated`: at
    least one point was computed from another measure.
    """

    measure: str
    label: str
    unit: str  # cards | percent | MiB | W | °C
    points: tuple[Point, ...]
    subject: str = ""
    estimated: bool = False

    @property
    def key(self) -> str:
        return f"{self.measure}:{self.subject}" if self.subject else self.measure


@dataclass(frozen=True, slots=True)
class SeriesGap:
    """A time without readings; `end` is None while it lasts. `message` is the cluster's own message."""

    cluster_id: uuid.UUID
    cluster: str
    start: datetime
    end: datetime | None
    cause: str
    message: str


@dataclass(frozen=True, slots=True)
class SeriesSet:
    """All lines of one chart page, with the same times. `omitted` counts lines beyond the limit."""

    start: datetime
    end: datetime
    step_s: int
    series: tuple[Series, ...]
    gaps: tuple[SeriesGap, ...] = ()
    omitted: int = 0

    def get(self, measure: str, subject: str = "") -> Series | None:
        """Return the line of one measure and subject, or None."""
        return next((s for s in self.series if s.measure == measure and s.subject == subject), None)
