"""An axis of time: positions of times, bars between them, and the texts below."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

_EDGE: Final = 8.0
TEXT_WIDTH: Final = 16.0
"""The percent of the axis that a text needs on a phone."""


@dataclass(frozen=True, slots=True)
class TimeBar:
    """One period of a row, in percent of the axis; `kind` is the class of its color."""

    kind: str
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A time below the rows, at a position in percent."""

    at: float
    text: str

    @property
    def edge(self) -> str:
        """The end of the axis beyond which the text would run: first, last, or none."""
        return "first" if self.at < _EDGE else "last" if self.at > 100 - _EDGE else ""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """A time axis between two times."""

    begin: datetime
    end: datetime

    def find_place(self, moment: datetime) -> float:
        """Return the position of a time in percent; a time outside the axis is at its end."""
        share = (moment - self.begin) / (self.end - self.begin)
        return round(100 * min(1.0, max(0.0, share)), 3)

    def build_bar(self, kind: str, start: datetime, end: datetime | None) -> TimeBar:
        left, right = self.find_place(start), 100.0 if end is None else self.find_place(end)
        return TimeBar(kind, left, round(max(0.0, right - left), 3))
