"""The charts of one job: what it uses of its GPUs, over its run or the last hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.errors import NotFound
from frontend import charts
from frontend.charts import Chart, ChartLine, Gap
from frontend.pages.operations.chart_figures import gaps_of
from frontend.shell.page_shell import RANGES, range_label
from scheduling.models import Job
from telemetry.series import Series, SeriesSet, job_series
from tenants.models import User

WHOLE_RUN: Final = "run"
MEASURES: Final = ("utilisation", "memory")
_LINES_MAX: Final = 8
_SHORTEST: Final = timedelta(minutes=1)
_LONGEST: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Span:
    """The stretch of time that the charts show, and the choices: (key, label)."""

    key: str
    start: datetime
    end: datetime
    choices: Sequence[tuple[str, str]]


def span_of(job: Job, asked: str) -> Span:
    """The whole run unless a range is asked for; ranges of an ended job count back from its end."""
    end = job.finished_at or clock.now()
    key = asked if asked in RANGES else WHOLE_RUN
    if key == WHOLE_RUN:
        begin = min(job.admitted_at or job.submitted_at, end - _SHORTEST)
        start = max(begin, end - _LONGEST)
    else:
        start = end - RANGES[key]
    choices = [(WHOLE_RUN, _("Entire run")), *((name, range_label(name)) for name in list(RANGES)[:4])]
    return Span(key, start, end, choices)


def chart_of(viewer: User, job: Job, measure: str, span: Span) -> Chart:
    """One of `MEASURES`.

    Raises: NotFound for another measure or a job out of sight.
    """
    if measure not in MEASURES:
        raise NotFound(f"no chart {measure!r}")
    found = job_series(viewer, job, span.start, span.end)
    gaps = gaps_of(found)
    if measure == "memory":
        return _memory(found, gaps)
    return _utilisation(found, gaps)


def _utilisation(found: SeriesSet, gaps: Sequence[Gap]) -> Chart:
    """The average over all cards, and each card where there are few enough to tell apart."""
    each = [s for s in found.series if s.measure == "utilisation_of_grant" and "/" in s.subject]
    average = found.get("utilisation_of_grant", "average")
    lines = [ChartLine(name=_("average"), points=average.points if average else (), color="used")]
    if 1 < len(each) <= _LINES_MAX:
        lines += [
            ChartLine(name=name, points=one.points, color=f"series-{place % 8 + 1}", dash="dot")
            for place, (one, name) in enumerate(zip(each, _told_apart(each), strict=True))
        ]
    title = _("GPU utilization (% of allocated compute)")
    return charts.time_series(
        "utilisation", lines, unit="%", title=title, gaps=gaps, span=(found.start, found.end)
    )


def _told_apart(each: Sequence[Series]) -> list[str]:
    """The labels without the parts that all of them share: `GPU 3` where task and node are the same."""
    split = [one.label.split(" · ") for one in each]
    if len({len(parts) for parts in split}) > 1:
        return [one.label for one in each]
    differs = [len(set(column)) > 1 for column in zip(*split, strict=True)]
    return [" · ".join(part for part, told in zip(parts, differs, strict=True) if told) for parts in split]


def _memory(found: SeriesSet, gaps: Sequence[Gap]) -> Chart:
    def gib(measure: str) -> list[tuple[datetime, float | None]]:
        series = found.get(measure, "total")
        return [(at, None if v is None else v / 1024) for at, v in (series.points if series else ())]

    return charts.draw_allocation(
        "memory",
        allocated=gib("memory_granted"),
        used=gib("memory_used"),
        unit="GiB",
        title=_("GPU memory"),
        gaps=gaps,
        span=(found.start, found.end),
    )
