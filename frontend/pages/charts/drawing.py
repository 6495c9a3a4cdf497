"""Draws a chart from the series that were read for it.

Allocation is what the ledger reserved, utilization what was measured. They share a chart as an area and a
line, and are never combined into one number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from django.utils.translation import gettext as _

from frontend.charts import Chart, ChartLine, ChartState, Gap, state_timeline, time_series
from frontend.pages.charts.definitions import ChartDefinition, LineDefinition, StateWord
from frontend.texts.formats import MISSING
from telemetry.series import Series, SeriesGap, SeriesSet

Samples = tuple[tuple[datetime, float | None], ...]
_DASHES: Final = ("solid", "dot", "dash", "dashdot")
_COLORS: Final = 8
_CHOSEN_MOST: Final = 8


def draw_chart(
    chart: ChartDefinition,
    found: SeriesSet,
    span: tuple[datetime, datetime],
    before: SeriesSet | None = None,
    *,
    beside: Sequence[ChartLine] = (),
    chosen: bool = False,
) -> Chart:
    """Draw a chart over `span`; the lines of `before`, the previous period, are dashed.

    `beside`: further lines. `chosen`: the subjects of `found` were selected, so that even a single one is
    drawn.
    """
    if chart.words is not None:
        return _draw_states(chart, chart.words, found, span)
    lines = [*_lines(chart, found, chosen=chosen), *beside]
    if before is not None:
        length = span[1] - span[0]
        lines += [move_earlier_line(line, length) for line in _lines(chart, before)]
    return time_series(
        chart.key,
        lines,
        unit=chart.unit,
        title=str(chart.title),
        gaps=describe_gaps(found, span),
        span=span,
        top=_peak(chart, found),
        legend=any(one.estimated for one in found.series),
        stacked_s=found.step_s if chart.stacked else 0,
    )


def _draw_states(
    chart: ChartDefinition, words: Mapping[int, StateWord], found: SeriesSet, span: tuple[datetime, datetime]
) -> Chart:
    points = found.series[0].points if found.series else ()
    states = [
        ChartState(
            name=str(each.word),
            color=each.color,
            stretches=_find_stretches(points, bit, timedelta(seconds=found.step_s), span[1]),
        )
        for bit, each in words.items()
    ]
    return state_timeline(
        chart.key,
        [state for state in states if state.stretches],
        title=str(chart.title),
        nothing=_("None") if any(value is not None for _at, value in points) else "",
        gaps=describe_gaps(found, span),
        span=span,
    )


def _find_stretches(points: Samples, bit: int, step: timedelta, end: datetime) -> list[list[datetime]]:
    """Return the times of each run of buckets with a bit, and the end of its last bucket."""
    found: list[list[datetime]] = []
    for is_set, run in groupby(points, key=lambda point: point[1] is not None and int(point[1]) & bit != 0):
        moments = [at for at, _value in run]
        if is_set:
            found.append([*moments, min(moments[-1] + step, max(end, moments[-1]))])
    return found


def _lines(chart: ChartDefinition, found: SeriesSet, *, chosen: bool = False) -> list[ChartLine]:
    lines = [_line(chart, line, found) for line in chart.lines]
    each = [one for one in found.series if one.measure == chart.each and _is_single(one)]
    most = max(chart.each_most, _CHOSEN_MOST) if chosen else chart.each_most
    if len(each) > most or (chart.lines and len(each) == 1 and not chosen):
        return lines
    return lines + [
        ChartLine(
            name=name,
            points=_points(one, chart.per),
            color=f"series-{place % _COLORS + 1}",
            # Beside an average every line is dotted; without one, the first eight lines differ by colour.
            dash="dot" if chart.lines else _DASHES[place // _COLORS % len(_DASHES)],
        )
        for place, (one, name) in enumerate(zip(each, distinguish_labels(each), strict=True))
    ]


def _is_single(one: Series) -> bool:
    return one.subject not in ("average", "total")


def _line(chart: ChartDefinition, line: LineDefinition, found: SeriesSet) -> ChartLine:
    series = found.get(line.measure, line.subject)
    points = _points(series, chart.per) if series else ()
    name = str(line.name)
    if chart.measures and len(chart.lines) > 1 and all(value is None for _at, value in points):
        name = f"{name}{_(': ')}{MISSING}"  # not measured, or not supported
    if series is not None and series.estimated:
        name = _("%(line)s, estimated from power") % {"line": name}
    return ChartLine(name=name, points=points, color=line.color, area=line.area, opacity=line.opacity)


def move_earlier_line(line: ChartLine, length: timedelta) -> ChartLine:
    """Return a line of the previous period, which is `length` earlier, moved to this period."""
    return ChartLine(
        name=_("%(line)s, previous period") % {"line": line.name},
        points=tuple((at + length, value) for at, value in line.points),
        color=line.color,
        earlier=True,
    )


def _points(series: Series, per: float) -> Samples:
    return tuple((at, None if value is None else value / per) for at, value in series.points)


def _peak(chart: ChartDefinition, found: SeriesSet) -> float | None:
    series = found.get(chart.top) if chart.top else None
    points = _points(series, chart.per) if series else ()
    return max((value for _at, value in points if value), default=None)


def distinguish_labels(each: Sequence[Series]) -> list[str]:
    """Return the labels without the parts that all of them share: `GPU 3` if task and node are the same."""
    split = [one.label.split(" · ") for one in each]
    if len({len(parts) for parts in split}) > 1 or len(split) == 1:
        return [one.label for one in each]
    differs = [len(set(column)) > 1 for column in zip(*split, strict=True)]
    return [" · ".join(part for part, named in zip(parts, differs, strict=True) if named) for parts in split]


def describe_gaps(found: SeriesSet, span: tuple[datetime, datetime]) -> list[Gap]:
    """Return the gaps inside the span with their cause as text; the time before all readings is a gap."""
    start, end = span[0], min(span[1], found.end)
    gaps = [
        Gap(max(gap.start, start), min(gap.end or end, end), _cause(gap))
        for gap in found.gaps
        if (gap.end is None or gap.end > start) and gap.start < end
    ]
    first = min([*_known(found.series), *(gap.start for gap in found.gaps)], default=end)
    # One missing bucket at the edge results from the alignment of buckets.
    if first - found.start > timedelta(seconds=2 * found.step_s):
        gaps.insert(0, Gap(start, first, _("Before the first sample")))
    return gaps


def _known(series: Iterable[Series]) -> list[datetime]:
    return [at for one in series for at, value in one.points if value is not None]


def _cause(gap: SeriesGap) -> str:
    if gap.cause == "unreachable":
        said = _("Cluster %(cluster)s unreachable") % {"cluster": gap.cluster}
        return f"{said}{_(': ')}{gap.message}" if gap.message else said
    if gap.cause == "platform":
        return _("Allotment was not running")
    return _("Cluster %(cluster)s returned no metrics") % {"cluster": gap.cluster}
