"""The chart of series over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

import plotly.graph_objects as go
from django.utils.translation import gettext as _

from frontend.charts.model import Chart, ChartLine, Gap, Point, format_utc, with_gaps
from frontend.charts.theme import THEME, css_variable, time_axis, value_axis

Samples = Sequence[tuple[datetime, float | None]]
Span = tuple[datetime, datetime]
_EARLIER_OPACITY: Final = 0.6


def time_series(
    key: str,
    lines: Sequence[ChartLine],
    *,
    unit: str,
    title: str,
    gaps: Sequence[Gap] = (),
    span: Span | None = None,
    top: float | None = None,
    legend: bool = False,
    stacked_s: int = 0,
) -> Chart:
    """Draw lines, and areas below those that have one, over one time axis from `span[0]` to `span[1]`.

    `unit` is written after values, `top` fixes the value axis, `legend` names even a single line. Where a
    line has no value, neither the line nor its area is drawn. With `stacked_s`, the seconds of a bucket,
    lines are drawn as stacked bars.
    """
    if stacked_s:
        traces = [_bar(line, unit, gaps, stacked_s) for line in lines]
    else:
        traces = [_area(line, gaps) for line in lines if line.area]
        traces += [_line(line, unit, gaps if line.measured and not line.earlier else ()) for line in lines]
    if any(line.earlier for line in lines):
        traces.append(_earlier_entry())
    shapes, notes = draw_gaps(gaps)
    axis = time_axis() | ({"range": [format_utc(span[0]), format_utc(span[1])]} if span else {})
    figure = go.Figure(
        data=traces,
        layout={
            "template": THEME,
            "xaxis": axis,
            "yaxis": value_axis(unit, top),
            "showlegend": legend or len(lines) > 1,
            "barmode": "stack",
            "shapes": shapes,
            "annotations": notes,
            # A constant revision keeps the reader's zoom when fresh numbers arrive.
            "uirevision": key,
            "meta": {
                "unit": unit,
                "gaps": [[format_utc(gap.start), format_utc(gap.end), gap.cause] for gap in gaps],
            },
        },
    )
    return Chart(key=key, figure=figure.to_plotly_json(), summary=_summary(title, lines, unit, gaps))


def _hover(unit: str) -> str:
    return "%{y:,.4~r}" + (f" {unit}" if unit else "")


def _segments(points: Iterable[Point]) -> Iterator[list[Point]]:
    """Split a line where it has no value."""
    for known, run in groupby(points, key=lambda point: point.value is not None):
        if known:
            yield list(run)


def _line(line: ChartLine, unit: str, gaps: Sequence[Gap]) -> dict[str, Any]:
    points = with_gaps(line.points, gaps)
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "name": line.name,
        "x": [format_utc(point.at) for point in points],
        "y": [point.value for point in points],
        "line": {"color": css_variable(line.color), "width": 1.75, "dash": line.dash},
        "hovertemplate": _hover(unit),
        "connectgaps": False,
    }
    alone = {segment[0].at for segment in _segments(points) if len(segment) == 1}
    if alone:  # a value without neighbours would not be drawn as a line
        sizes = [4 if point.at in alone and point.value is not None else 0 for point in points]
        trace |= {"mode": "lines+markers", "marker": {"size": sizes, "color": css_variable(line.color)}}
    if line.earlier:
        trace |= {"opacity": _EARLIER_OPACITY, "showlegend": False}
        trace["line"] |= {"dash": "dash", "width": 1.25}
    return trace


def _bar(line: ChartLine, unit: str, gaps: Sequence[Gap], seconds: int) -> dict[str, Any]:
    points = with_gaps(line.points, gaps)
    return {
        "type": "bar",
        "name": line.name,
        "x": [format_utc(point.at) for point in points],
        "y": [point.value for point in points],
        "width": seconds * 1000,
        "offset": 0,
        "opacity": line.opacity,
        "marker": {"color": css_variable(line.color), "line": {"width": 0}},
        "hovertemplate": _hover(unit),
    }


def _earlier_entry() -> dict[str, Any]:
    """Return the one entry of the legend for all lines of the previous period."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _("previous period"),
        "x": [None],
        "y": [None],
        "line": {"color": css_variable("ink-3"), "width": 1.25, "dash": "dash"},
        "hoverinfo": "skip",
        "meta": {"helper": True},
    }


def _area(line: ChartLine, gaps: Sequence[Gap]) -> dict[str, Any]:
    """Return the area below a line: one closed shape per stretch with values.

    `tozeroy` works for a line without gaps, but joins the stretches on both sides of a gap.
    """
    at: list[str | None] = []
    values: list[float | None] = []
    for segment in _segments(with_gaps(line.points, gaps)):
        if at:
            at.append(at[-1])
            values.append(None)
        ends = (segment[0].at, *(point.at for point in segment), segment[-1].at)
        at += [format_utc(moment) for moment in ends]
        values += [0, *(point.value for point in segment), 0]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": at,
        "y": values,
        "fill": "toself",
        "fillcolor": css_variable(f"{line.color}-area"),
        "line": {"width": 0, "color": css_variable(line.color)},
        "connectgaps": False,
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"helper": True},
    }


def draw_gaps(gaps: Iterable[Gap]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the shapes of gaps and their labels."""
    shown = list(gaps)
    return [_gap_shape(gap) for gap in shown], [_gap_note(gap) for gap in shown]


def _gap_shape(gap: Gap) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": format_utc(gap.start),
        "x1": format_utc(gap.end),
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "fillcolor": css_variable("no-data"),
        "line": {"width": 0},
    }


def _gap_note(gap: Gap) -> dict[str, Any]:
    return {
        "xref": "x",
        "yref": "paper",
        "x": format_utc(gap.start + (gap.end - gap.start) / 2),
        "y": 0.5,
        "text": _("No data"),
        "showarrow": False,
        "textangle": -90,
        "font": {"size": 11, "color": css_variable("ink-3")},
        "hovertext": gap.cause,
    }


def _summary(title: str, lines: Sequence[ChartLine], unit: str, gaps: Sequence[Gap]) -> str:
    """Return the chart in one sentence: the last value of each line, and the number of gaps."""
    facts = []
    for line in [line for line in lines if not line.earlier][:8]:
        known = [value for _at, value in line.points if value is not None]
        if known:
            facts.append(f"{line.name} {known[-1]:,.4g} {unit}".rstrip())
    text = f"{title}{_(': ')}" + _(", ").join(facts) if facts else _("%(title)s: no data") % {"title": title}
    if gaps:
        text += _("; gaps without data: %(count)s") % {"count": len(gaps)}
    return text
