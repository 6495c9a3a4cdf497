"""Figures as data. This package is the only one that imports plotly.

A figure names colours by their CSS tokens and times in UTC; the browser resolves both, so that one figure
works in both themes and every time zone.
"""

from frontend.charts.bars import Bars, count_bars, group_bars
from frontend.charts.figures import time_series
from frontend.charts.heat import hour_grid
from frontend.charts.hierarchy import FlowBand, Sector, flow_chart, sunburst_chart, treemap_chart
from frontend.charts.model import Chart, ChartLine, Gap
from frontend.charts.timeline import ChartState, state_timeline

__all__ = [
    "Bars",
    "Chart",
    "ChartLine",
    "ChartState",
    "FlowBand",
    "Gap",
    "Sector",
    "count_bars",
    "flow_chart",
    "group_bars",
    "hour_grid",
    "state_timeline",
    "sunburst_chart",
    "time_series",
    "treemap_chart",
]
