"""The kinds of chart the console draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import plotly.graph_objects as go
from django.utils.translation import gettext as _

from frontend.charts.model import Chart, ChartLine, Gap, format_utc, with_gaps
from frontend.charts.theme import THEME, css_variable, time_axis, value_axis

Samples = Sequence[tuple[datetime, float | None]]
Span = tuple[datetime, datetime]


def time_series(
    key: str,
    lines: Sequence[ChartLine],
    *,
    unit: str,
    title: str,
    gaps: Sequence[Gap] = (),
    span: Span | None = None,
    top: float | None = None,
) -> Chart:
    """Lines over one time axis. `unit` is written behind values, `top` fixes the value axis."""
    traces = [_line(line, unit, gaps) for line in lines]
    return _chart(key, traces, lines, unit=unit, title=title, gaps=gaps, span=span, top=top)


def draw_allocation(
    key: str,
    *,
    allocated: Samples,
    used: Samples,
    unit: str,
    title: str,
    borrowed: Samples = (),
    capacity: float | None = None,
    gaps: Sequence[Gap] = (),
    span: Span | None = None,
) -> Chart:
    """Allocation as an area, utilisation as a line over it: two facts that are never added.

    `allocated` includes `borrowed`, which is drawn as the striped top of the area.
    """
    lines = [
        ChartLine(name=_("allocated"), points=allocated, color="allocated"),
        ChartLine(name=_("used"), points=used, color="used"),
    ]
    own = _without(allocated, borrowed)
    traces = [_area(ChartLine(name=_("allocated"), points=allocated, color="allocated"), unit, gaps)]
    if borrowed:
        lines.insert(1, ChartLine(name=_("borrowed"), points=borrowed, color="borrowed"))
        traces = [_base(own, gaps), _borrowed_band(allocated, borrowed, unit, gaps)]
        traces.append(_line(lines[0], unit, gaps))
    traces.append(_line(lines[-1], unit, gaps))
    return _chart(key, traces, lines, unit=unit, title=title, gaps=gaps, span=span, top=capacity)


def draw_stacked(
    key: str,
    lines: Sequence[ChartLine],
    *,
    unit: str,
    title: str,
    gaps: Sequence[Gap] = (),
    span: Span | None = None,
    top: float | None = None,
) -> Chart:
    """Parts of one whole, stacked (waiting cards per flavor, for instance). Only for amounts that add up."""
    traces = [_area(line, unit, gaps, stack="one") for line in lines]
    return _chart(key, traces, lines, unit=unit, title=title, gaps=gaps, span=span, top=top)


def per_card(
    key: str,
    cards: Mapping[str, Samples],
    *,
    unit: str,
    title: str,
    gaps: Sequence[Gap] = (),
    span: Span | None = None,
    top: float | None = None,
) -> Chart:
    """One thin line per card. After eight cards the colours repeat with dashes."""
    dashes = ("solid", "dot", "dash", "dashdot")
    lines = [
        ChartLine(name=name, points=points, color=f"series-{i % 8 + 1}", dash=dashes[i // 8 % 4])
        for i, (name, points) in enumerate(cards.items())
    ]
    return time_series(key, lines, unit=unit, title=title, gaps=gaps, span=span, top=top)


def _hover(unit: str) -> str:
    return "%{y:,.4~r}" + (f" {unit}" if unit else "")


def _samples(points: Samples, gaps: Sequence[Gap]) -> dict[str, Any]:
    broken = with_gaps(points, gaps)
    return {"x": [format_utc(point.at) for point in broken], "y": [point.value for point in broken]}


def _line(line: ChartLine, unit: str, gaps: Sequence[Gap]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": line.name,
        **_samples(line.points, gaps),
        "line": {"color": css_variable(line.color), "width": 1.75, "dash": line.dash},
        "hovertemplate": _hover(unit),
        "connectgaps": False,
    }


def _area(line: ChartLine, unit: str, gaps: Sequence[Gap], stack: str = "") -> dict[str, Any]:
    trace = _line(line, unit, gaps)
    if stack:
        # Stacked traces cannot break; the opaque shape of the gap covers what is drawn across it.
        return trace | {"stackgroup": stack, "stackgaps": "interpolate", "line": trace["line"] | {"width": 1}}
    return trace | {"fill": "tozeroy", "fillcolor": css_variable(f"{line.color}-area")}


def _base(own: Samples, gaps: Sequence[Gap]) -> dict[str, Any]:
    """The area below the borrowed band; it has no entry of its own in legend and hover."""
    return {
        "type": "scatter",
        "mode": "lines",
        **_samples(own, gaps),
        "line": {"width": 0, "color": css_variable("allocated")},
        "fill": "tozeroy",
        "fillcolor": css_variable("allocated-area"),
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"helper": True},
    }


def _borrowed_band(allocated: Samples, borrowed: Samples, unit: str, gaps: Sequence[Gap]) -> dict[str, Any]:
    """The band from own allocation up to all of it; hover shows the borrowed amount, not the sum."""
    amounts = dict(borrowed)
    trace = _samples(allocated, gaps)
    values = [amounts.get(at) for at, _value in with_gaps(allocated, gaps)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _("borrowed"),
        **trace,
        "customdata": values,
        "line": {"width": 0, "color": css_variable("borrowed")},
        "fill": "tonexty",
        "fillcolor": "rgba(0,0,0,0)",
        "fillpattern": {
            "shape": "/",
            "fgcolor": css_variable("borrowed"),
            "bgcolor": css_variable("borrowed-stripe"),
            "size": 7,
        },
        "hovertemplate": "%{customdata:,.4~r}" + (f" {unit}" if unit else ""),
        "meta": {"values": "customdata"},
    }


def _without(allocated: Samples, borrowed: Samples) -> list[tuple[datetime, float | None]]:
    amounts = {at: value or 0 for at, value in borrowed}
    return [(at, None if value is None else value - amounts.get(at, 0)) for at, value in allocated]


def _chart(
    key: str,
    traces: Sequence[dict[str, Any]],
    lines: Sequence[ChartLine],
    *,
    unit: str,
    title: str,
    gaps: Sequence[Gap],
    span: Span | None,
    top: float | None,
) -> Chart:
    axis = time_axis() | ({"range": [format_utc(span[0]), format_utc(span[1])]} if span else {})
    figure = go.Figure(
        data=list(traces),
        layout={
            "template": THEME,
            "xaxis": axis,
            "yaxis": value_axis(unit, top),
            "showlegend": len(lines) > 1,
            "shapes": [_gap_shape(gap) for gap in gaps],
            "annotations": [_gap_note(gap) for gap in gaps],
            # A constant revision keeps the reader's zoom when fresh numbers arrive.
            "uirevision": key,
            "meta": {
                "unit": unit,
                "gaps": [[format_utc(gap.start), format_utc(gap.end), gap.cause] for gap in gaps],
            },
        },
    )
    return Chart(key=key, figure=figure.to_plotly_json(), summary=_summary(title, lines, unit, gaps))


def _gap_shape(gap: Gap) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": format_utc(gap.start),
        "x1": format_utc(gap.end),
        "y0": 0,
        "y1": 1,
        "layer": "above",
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
    """The chart in one sentence: the last value of each line, and how many gaps there are."""
    facts = []
    for line in lines[:8]:
        known = [value for _at, value in line.points if value is not None]
        if known:
            facts.append(f"{line.name} {known[-1]:,.4g} {unit}".rstrip())
    text = f"{title}: " + _(", ").join(facts) if facts else _("%(title)s: no data") % {"title": title}
    if gaps:
        text += _("; gaps without data: %(count)s") % {"count": len(gaps)}
    return text
