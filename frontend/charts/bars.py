"""Bars per day: stacked amounts over dates that are the same for every reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import plotly.graph_objects as go
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from frontend.charts.model import Chart
from frontend.charts.theme import THEME, css_variable, value_axis
from frontend.texts.formats import format_number


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A named part of every day's bar. None is a day without data."""

    name: str
    values: Sequence[float | None]
    color: str


def count_bars(
    key: str, names: Sequence[str], counts: Sequence[int], colors: Sequence[str], *, unit: str, title: str
) -> Chart:
    """Draw one bar per name, as tall as its count. The table has the same numbers."""
    figure = go.Figure(
        data=[
            {
                "type": "bar",
                "name": title,
                "x": list(names),
                "y": list(counts),
                "marker": {"color": [css_variable(color) for color in colors], "line": {"width": 0}},
                "hovertemplate": f"%{{y:,}} {unit}<extra></extra>",
            }
        ],
        layout={
            "template": THEME,
            "bargap": 0.12,
            "hovermode": "closest",
            "xaxis": {"type": "category", "fixedrange": True, "automargin": True},
            "yaxis": value_axis("", None) | {"rangemode": "tozero"},
            "showlegend": False,
            "uirevision": key,
            "meta": {
                "unit": unit,
                "gaps": [],
                "table": {
                    "head": [title, unit],
                    "rows": [[name, f"{count:,}"] for name, count in zip(names, counts, strict=True)],
                },
            },
        },
    )
    facts = [f"{name} {count:,}" for name, count in zip(names, counts, strict=True) if count]
    return Chart(key=key, figure=figure.to_plotly_json(), summary=f"{title}{_(': ')}" + _(", ").join(facts))


def group_bars(key: str, names: Sequence[str], parts: Sequence[Bars], *, unit: str, title: str) -> Chart:
    """Draw a group of bars per name, one bar for each part. The table has the same numbers."""
    figure = go.Figure(
        data=[
            {
                "type": "bar",
                "name": part.name,
                "x": list(names),
                "y": list(part.values),
                "marker": {"color": css_variable(part.color), "line": {"width": 0}},
                "hovertemplate": f"%{{y:,.4~r}} {unit}",
            }
            for part in parts
        ],
        layout={
            "template": THEME,
            "barmode": "group",
            "bargap": 0.3,
            "xaxis": {"type": "category", "fixedrange": True},
            "yaxis": value_axis(unit, None) | {"rangemode": "tozero"},
            "showlegend": True,
            "uirevision": key,
            "meta": {
                "unit": unit,
                "gaps": [],
                "table": {
                    "head": [title, *(part.name for part in parts)],
                    "rows": [
                        [name, *map(_amount, values)]
                        for name, *values in zip(names, *(part.values for part in parts), strict=True)
                    ],
                },
            },
        },
    )
    facts = [
        f"{name} {_amount(value)} {part.name}"
        for part in parts
        for name, value in zip(names, part.values, strict=True)
    ]
    return Chart(key=key, figure=figure.to_plotly_json(), summary=f"{title}{_(': ')}" + _(", ").join(facts))


def _amount(value: float | None) -> str:
    return format_number(value, 1).removesuffix(".0")


def daily_bars(
    key: str, days: Sequence[date], parts: Sequence[Bars], *, unit: str, title: str, digits: int = 2
) -> Chart:
    """Stack the parts of each day. Dates are written as they are and not moved to the reader's zone; amounts
    have `digits` decimal places.
    """
    dates = [day.isoformat() for day in days]
    day = "%-m月%-d日" if (get_language() or "").startswith("zh") else "%b %-d"
    figure = go.Figure(
        data=[
            {
                "type": "bar",
                "name": part.name,
                "x": dates,
                "y": list(part.values),
                "marker": {"color": css_variable(part.color), "line": {"width": 0}},
                "hovertemplate": f"%{{y:,.{digits}f}} {unit}",
            }
            for part in parts
        ],
        layout={
            "template": THEME,
            "barmode": "stack",
            "bargap": 0.25,
            "xaxis": {
                "type": "date",
                "tickformat": day,
                "hoverformat": day,
                "nticks": 10,
                "fixedrange": True,
            },
            "yaxis": value_axis(unit, None),
            "showlegend": True,
            "uirevision": key,
            "meta": {"unit": unit, "gaps": []},
        },
    )
    sums = [f"{part.name} {sum(value or 0 for value in part.values):,.{digits}f} {unit}" for part in parts]
    return Chart(key=key, figure=figure.to_plotly_json(), summary=f"{title}{_(': ')}" + _(", ").join(sums))
