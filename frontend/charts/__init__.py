"""Figures as data. This package is the only one that imports plotly.

A figure names colours by their CSS tokens and times in UTC; the browser resolves both, so that one
figure serves both themes and every time zone.
"""

from frontend.charts.figures import allocation, per_card, stacked, time_series
from frontend.charts.model import Chart, Gap, Line

__all__ = ["Chart", "Gap", "Line", "allocation", "per_card", "stacked", "time_series"]
