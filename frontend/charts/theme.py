"""The look of every figure: tokens for colours, thin lines, no frame."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from django.utils.translation import get_language

_AXIS = {
    "gridcolor": "var(--line)",
    "linecolor": "var(--line)",
    "zeroline": False,
    "ticks": "",
    "tickfont": {"color": "var(--ink-3)", "size": 11},
    "automargin": False,
}

THEME = go.layout.Template(
    layout={
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "var(--sans)", "color": "var(--ink-2)", "size": 12},
        "margin": {"l": 46, "r": 14, "t": 30, "b": 38, "pad": 0},
        "hovermode": "x unified",
        "hoverlabel": {
            "bgcolor": "var(--card)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--ink)", "size": 12},
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "xanchor": "left",
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        # Invisible ticks keep the labels away from the axis, where they would touch the zero of the other
        # axis.
        "xaxis": {**_AXIS, "showgrid": False, "ticks": "outside", "ticklen": 5, "tickcolor": "rgba(0,0,0,0)"},
        "yaxis": {**_AXIS, "rangemode": "tozero", "nticks": 5, "fixedrange": True},
        "colorway": [f"var(--series-{n})" for n in range(1, 9)],
    }
)


def css_variable(name: str) -> str:
    """Return the CSS variable of a colour; plotly accepts it and the browser resolves it per theme."""
    return f"var(--{name})"


def time_axis() -> dict[str, Any]:
    """Return the ticks of a time axis, finer when zoomed in; the date is shown once per day below hours."""
    day = "%-m月%-d日" if (get_language() or "").startswith("zh") else "%b %-d"
    return {
        "type": "date",
        "hoverformat": f"{day} %H:%M:%S",
        "nticks": 8,
        "showspikes": True,
        "spikemode": "across",
        "spikesnap": "cursor",
        "spikethickness": 1,
        "spikedash": "solid",
        "spikecolor": "var(--line-strong)",
        "tickformatstops": [
            {"dtickrange": [None, 60_000], "value": f"%H:%M:%S\n{day}"},
            {"dtickrange": [60_000, 86_400_000], "value": f"%H:%M\n{day}"},
            {"dtickrange": [86_400_000, None], "value": day},
        ],
    }


def value_axis(unit: str, top: float | None) -> dict[str, Any]:
    """Return the ticks of the value axis. Percent always runs from 0 to 100, so charts can be compared."""
    axis: dict[str, Any] = {"tickformat": ",~r", "separatethousands": True}
    if unit == "%":
        marks = [0, 25, 50, 75, 100]
        axis |= {"range": [0, 102], "tickvals": marks, "ticktext": [f"{mark} %" for mark in marks]}
    elif top is not None:
        axis |= {"range": [0, top * 1.05]}
    return axis
