"""The input and the output of a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple


class Point(NamedTuple):
    """One sample; None is a time without data."""

    at: datetime
    value: float | None


class Gap(NamedTuple):
    """A period without data and its cause, as text for users."""

    start: datetime
    end: datetime
    cause: str


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """A named series over time. `color` is a token (`used`, `allocated`, `series-3`); times are aware.

    `area`: the area below the line is filled. `earlier`: values of the previous period, moved to this one.
    `opacity`: of the bar, where lines are stacked. `measured`: if false, gaps in the data don't break the
    line.
    """

    name: str
    points: Sequence[tuple[datetime, float | None]]
    color: str = "series-1"
    dash: str = "solid"
    area: bool = False
    earlier: bool = False
    opacity: float = 1
    measured: bool = True


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure ready for the page. `summary` is its text alternative, `csv` the address of its numbers."""

    key: str
    figure: dict[str, Any]
    summary: str
    csv: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the response of a chart's address."""
        return {"figure": self.figure, "summary": self.summary, "csv": self.csv}


def format_utc(moment: datetime) -> str:
    """Write an aware time as the browser expects it; the trailing Z marks it for conversion."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def with_gaps(points: Sequence[tuple[datetime, float | None]], gaps: Sequence[Gap]) -> list[Point]:
    """Drop points inside gaps and break the line there, so that no line is drawn across a gap."""
    shown = [Point(at, value) for at, value in points if not any(gap.start < at < gap.end for gap in gaps)]
    shown += [Point(gap.start, None) for gap in gaps]
    return sorted(shown, key=lambda point: (point.at, point.value is None))
