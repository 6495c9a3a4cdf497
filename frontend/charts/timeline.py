"""The chart of states over time: a bar for each period in which a state was observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import plotly.graph_objects as go
from django.utils.translation import gettext as _

from frontend.charts.figures import Span, draw_gaps
from frontend.charts.model import Chart, Gap, format_utc
from frontend.charts.theme import THEME, css_variable, time_axis

_BAR: Final = 9
_LEAST_ROWS: Final = 3
"""The minimum number of rows of space, so that a single bar keeps its height."""


@dataclass(frozen=True, kw_only=True)
class ChartState:
    """A state that was observed. `stretches`: the sample times of each period, evenly spaced, from start to
    end.
    """

    name: str
    color: str
    stretches: Sequence[Sequence[datetime]]


def state_timeline(
    key: str, states: Sequence[ChartState], *, title: str, nothing: str, gaps: Sequence[Gap], span: Span
) -> Chart:
    """Draw one row per state over one time axis. `nothing` is written where no state was observed.

    The table lists the periods, newest first.
    """
    rows = max(len(states), _LEAST_ROWS)
    shapes, notes = draw_gaps(gaps)
    if not states and nothing:
        notes.append(_note(nothing, {"xref": "paper", "x": 0.5, "yref": "paper", "y": 0.5}))
    for place, state in enumerate(states):
        at = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "y", "y": rows - place - 0.3}
        notes.append(_note(state.name, at))
    figure = go.Figure(
        data=[_bars(state, rows - place - 0.7) for place, state in enumerate(states)],
        layout={
            "template": THEME,
            "margin": {"l": 46, "r": 14, "t": 12, "b": 38, "pad": 0},
            "xaxis": time_axis() | {"range": [format_utc(moment) for moment in span]},
            "yaxis": {"range": [0, rows], "showticklabels": False, "showgrid": False},
            "showlegend": False,
            "shapes": shapes,
            "annotations": notes,
            "uirevision": key,
            "meta": {
                "unit": "",
                "gaps": [[format_utc(gap.start), format_utc(gap.end), gap.cause] for gap in gaps],
                "table": {"head": [title, _("From"), _("To")], "rows": _table(states)},
            },
        },
    )
    return Chart(key=key, figure=figure.to_plotly_json(), summary=_summary(title, states, nothing))


def _bars(state: ChartState, height: float) -> dict[str, Any]:
    at: list[str | None] = []
    for stretch in state.stretches:
        at += [*([None] if at else []), *(format_utc(moment) for moment in stretch)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": state.name,
        "x": at,
        "y": [None if moment is None else height for moment in at],
        "line": {"color": css_variable(state.color), "width": _BAR},
        "hovertemplate": f"{state.name}<extra></extra>",
        "connectgaps": False,
    }


def _note(text: str, place: dict[str, Any]) -> dict[str, Any]:
    return {"text": text, "showarrow": False, "font": {"size": 12, "color": css_variable("ink-2")}, **place}


def _table(states: Sequence[ChartState]) -> list[list[str]]:
    rows = [
        [state.name, format_utc(stretch[0]), format_utc(stretch[-1])]
        for state in states
        for stretch in state.stretches
    ]
    return sorted(rows, key=lambda row: row[1], reverse=True)


def _summary(title: str, states: Sequence[ChartState], nothing: str) -> str:
    if states:
        return f"{title}{_(': ')}" + _(", ").join(state.name for state in states)
    return f"{title}{_(': ')}{nothing}" if nothing else _("%(title)s: no data") % {"title": title}
