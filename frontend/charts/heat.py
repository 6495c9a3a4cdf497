"""Rates by day and hour as a grid of colours."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
from django.utils.translation import gettext as _

from frontend.charts.model import Chart
from frontend.charts.theme import THEME, css_variable

_HOURS = [f"{hour:02}" for hour in range(24)]


def hour_grid(
    key: str, days: Sequence[str], rates: Sequence[Sequence[float | None]], *, title: str, color: str
) -> Chart:
    """Draw one row per day with its 24 hours, in percent. None is an hour without data and stays empty.

    `color` is the token of 100 %. The table has the same numbers.
    """
    figure = go.Figure(
        data=[
            {
                "type": "heatmap",
                "name": title,
                "x": _HOURS,
                "y": list(days),
                "z": [list(row) for row in rates],
                "zmin": 0,
                "zmax": 100,
                "colorscale": [[0, css_variable("free")], [1, css_variable(color)]],
                "colorbar": {
                    "thickness": 8,
                    "outlinewidth": 0,
                    "tickvals": [0, 50, 100],
                    "ticktext": ["0 %", "50 %", "100 %"],
                    "tickfont": {"color": css_variable("ink-3"), "size": 11},
                },
                "xgap": 2,
                "ygap": 2,
                "hoverongaps": False,
                "hovertemplate": "%{y}, %{x}:00: %{z:.0f} %<extra></extra>",
            }
        ],
        layout={
            "template": THEME,
            "hovermode": "closest",
            "margin": {"l": 62, "r": 10, "t": 8, "b": 30},
            "xaxis": {
                "type": "category",
                "fixedrange": True,
                "tickvals": _HOURS[::3],
                "ticktext": [f"{hour}:00" for hour in _HOURS[::3]],
            },
            "yaxis": {
                "type": "category", "fixedrange": True, "autorange": "reversed", "nticks": len(days),
                "rangemode": "normal",
            },
            "uirevision": key,
            "meta": {
                "unit": "%",
                "gaps": [],
                "table": {
                    "head": [_("Day"), *(f"{hour}:00" for hour in _HOURS)],
                    "rows": [
                        [day, *(_cell(rate) for rate in row)] for day, row in zip(days, rates, strict=True)
                    ],
                },
            },
        },
    )  # fmt: skip
    return Chart(key=key, figure=figure.to_plotly_json(), summary=_summary(title, days, rates))


def _cell(rate: float | None) -> str:
    return "\u2013" if rate is None else f"{rate:.0f} %"


def _summary(title: str, days: Sequence[str], rates: Sequence[Sequence[float | None]]) -> str:
    known = [
        (rate, f"{day} {hour}:00")
        for day, row in zip(days, rates, strict=True)
        for hour, rate in zip(_HOURS, row, strict=True)
        if rate is not None
    ]
    if not known:
        return f"{title}{_(': ')}" + _("No data")
    (low, low_at), (high, high_at) = min(known), max(known)
    words = {"low": f"{low:.0f} %", "low_at": low_at, "high": f"{high:.0f} %", "high_at": high_at}
    return f"{title}{_(': ')}" + _("lowest %(low)s (%(low_at)s), highest %(high)s (%(high_at)s)") % words
