"""Figures of nested amounts, and of amounts that flow from one end to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go
from django.utils.translation import gettext as _

from frontend.charts.model import Chart
from frontend.charts.theme import THEME, css_variable

_INKS: Final = {"lent": "card", "borrowed": "bar"}
"""The colors of texts that are readable on these colors in both themes."""
_LEVELS_MAX: Final = 4
_SECTORS_MAX: Final = 150
"""The maximum number of sectors whose names fit; a level with more sectors in all is shown on a click."""
_SCALE: Final = {
    "colorscale": [[0, css_variable("free")], [1, css_variable("allocated")]],
    "cmin": 0,
    "cmax": 1,
    "showscale": False,
}
"""The color scale of `shade`. Text is readable on each of its colors; a legend of the page shows it."""
Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The head and the rows of the text alternative."""


@dataclass(frozen=True, kw_only=True)
class Sector:
    """A part of its `parent`, which is empty for the whole. The values of parts add up to that of their
    parent.

    `color` is a token; `shade` from 0 to 1 is a position on the color scale instead. `note` is shown below
    the value of a sector on hover.
    """

    key: str
    parent: str
    label: str
    value: float
    color: str
    shade: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class FlowBand:
    """An amount between two ends, which are named by their keys. `color` is a token."""

    source: str
    target: str
    value: float
    color: str


def sunburst_chart(key: str, sectors: Sequence[Sector], *, unit: str, summary: str, table: Table) -> Chart:
    """Draw rings around the whole, one per level; parents come first. A click shows one sector in full."""
    trace = _partition("sunburst", sectors, unit) | {
        "insidetextorientation": "auto",
        "leaf": {"opacity": 1},
    }
    return _chart(key, trace, unit, summary, table)


def treemap_chart(key: str, sectors: Sequence[Sector], *, unit: str, summary: str, table: Table) -> Chart:
    """Draw boxes within boxes, one per level; parents come first. A click shows one box in full."""
    trace = _partition("treemap", sectors, unit) | {
        "tiling": {"pad": 2},
        "domain": {"y": [0, 0.94]},  # the path bar is above the boxes
        "pathbar": {"visible": True, "textfont": {"color": css_variable("ink"), "size": 12}},
        "root": {"color": css_variable("sunken")},
    }
    return _chart(key, trace, unit, summary, table)


def flow_chart(
    key: str,
    ends: Sequence[tuple[str, str, str]],
    flows: Sequence[FlowBand],
    *,
    unit: str,
    summary: str,
    table: Table,
) -> Chart:
    """Draw flows as bands between ends; each end is its key, its label and its color."""
    places = {end[0]: place for place, end in enumerate(ends)}
    trace = {
        "type": "sankey",
        "arrangement": "snap",
        "node": {
            "label": [label for _key, label, _color in ends],
            "color": [css_variable(color) for _key, _label, color in ends],
            "line": {"width": 0},
            "pad": 14,
            "thickness": 14,
            "hovertemplate": f"%{{label}}: %{{value:,.4~r}} {unit}<extra></extra>",
        },
        "link": {
            "source": [places[flow.source] for flow in flows],
            "target": [places[flow.target] for flow in flows],
            "value": [flow.value for flow in flows],
            "color": [css_variable(flow.color) for flow in flows],
            "hovertemplate": f"%{{source.label}} → %{{target.label}}: %{{value:,.4~r}} {unit}<extra></extra>",
        },
        "textfont": {"color": css_variable("ink"), "size": 12, "shadow": "none"},
    }
    return _chart(key, trace, unit, summary, table)


def _partition(kind: str, sectors: Sequence[Sector], unit: str) -> dict[str, Any]:
    return {
        "type": kind,
        "ids": [sector.key for sector in sectors],
        "labels": [sector.label for sector in sectors],
        "parents": [sector.parent for sector in sectors],
        "values": [sector.value for sector in sectors],
        "branchvalues": "total",
        "maxdepth": _count_levels(sectors),
        "sort": False,
        "marker": {
            "colors": [
                css_variable(sector.color) if sector.shade is None else sector.shade for sector in sectors
            ],
            **(_SCALE if any(sector.shade is not None for sector in sectors) else {}),
            "line": {"color": css_variable("card"), "width": 1},
        },
        "textinfo": "label+value",
        "textfont": {"color": [css_variable(_INKS.get(sector.color, "ink")) for sector in sectors]},
        "texttemplate": "%{label}<br>%{value:,.4~r}",
        "hovertemplate": (
            f"%{{label}}: %{{value:,.4~r}} {unit} · %{{percentRoot:.0%}}%{{customdata}}<extra></extra>"
        ),
        "customdata": [f"<br>{sector.note}" if sector.note else "" for sector in sectors],
    }


def _count_levels(sectors: Sequence[Sector]) -> int:
    """Return the number of levels that are drawn at once: at least two, and more as long as they fit."""
    depths: dict[str, int] = {}
    for sector in sectors:
        depths[sector.key] = depths.get(sector.parent, 0) + 1
    sizes = Counter(depths.values())
    fitting = (level for level in range(_LEVELS_MAX, 2, -1) if _fits(sizes, level))
    return next(fitting, 2)


def _fits(sizes: Counter[int], levels: int) -> bool:
    return sum(count for level, count in sizes.items() if level <= levels) <= _SECTORS_MAX


def _chart(key: str, trace: dict[str, Any], unit: str, summary: str, table: Table) -> Chart:
    head, rows = table
    figure = go.Figure(
        data=[trace],
        layout={
            "template": THEME,
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "hovermode": "closest",
            "uirevision": key,
            "meta": {"unit": unit, "gaps": []},
        },
    )
    drawn = figure.to_plotly_json()
    # Set after construction, because plotly would check and copy each cell.
    drawn["layout"]["meta"]["table"] = {"head": list(head), "rows": [list(row) for row in rows]}
    return Chart(key=key, figure=drawn, summary=summary or _("No data"))
