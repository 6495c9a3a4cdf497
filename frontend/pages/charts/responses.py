"""The view data of a page's charts, and the response of a chart's address."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.http import JsonResponse
from django.urls import reverse

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from frontend.pages.charts.definitions import CHARTS, ChartDefinition
from frontend.pages.charts.drawing import draw_chart
from frontend.pages.charts.gpu_choice import (
    NO_CHOICE,
    GpuChoice,
    chosen_query,
    narrow_chart,
    narrow_query,
    read_chosen_lines,
)
from frontend.shell.time_range import TimeRange, format_moment
from telemetry.series import SeriesQuery, read_series

_SHORTEST: Final = timedelta(minutes=1)


def chart_answer(
    viewer: Actor,
    level: str,
    pk: uuid.UUID | None,
    key: str,
    shown: TimeRange,
    choice: GpuChoice = NO_CHOICE,
) -> JsonResponse:
    """Return one chart of a subject as data; `choice` are the GPUs of a job that have lines of their own.

    Raises: NotFound for a chart that the level does not have; else as `read_series`.
    """
    chart = next((chart for chart in CHARTS[level] if chart.key == key), None)
    if chart is None:
        raise NotFound(f"no chart {key!r}")
    chart = narrow_chart(chart, choice)
    query = narrow_query(chart, series_query(chart, level, pk, shown.start, shown.end), choice)
    found = read_series(viewer, query)
    before = None
    if shown.compare and not chart.stacked:
        start, end = shown.before
        # The same step gives both lines the same times.
        before = read_series(viewer, series_query(chart, level, pk, start, end, found.step_s))
    drawn = draw_chart(
        chart,
        found,
        (shown.start, shown.end),
        before,
        beside=read_chosen_lines(viewer, chart, query, choice, found.step_s),
        chosen=bool(choice.value),
    )
    file = chosen_query(chart, query, choice) or query
    return JsonResponse(replace(drawn, csv=csv_address(replace(file, step=None))).as_json())


def series_query(
    chart: ChartDefinition,
    level: str,
    pk: uuid.UUID | None,
    start: datetime,
    end: datetime,
    step: int | None = None,
) -> SeriesQuery:
    """Return the request for the series that a chart draws."""
    return SeriesQuery(
        level=level,
        pk=pk,
        start=start,
        end=max(end, start + _SHORTEST),
        step=step,
        points=chart.points,
        measures=chart.needed if chart.measures else (),
        lines=() if chart.measures else chart.needed,
        statistic=chart.statistic or None,
    )


def csv_address(query: SeriesQuery) -> str:
    """Return the address of the same series as a file."""
    asked = {
        "level": query.level,
        "id": str(query.pk or ""),
        "start": format_moment(query.start),
        "end": format_moment(query.end),
        "measure": ",".join(query.measures),
        "lines": ",".join(query.lines),
        "statistic": query.statistic or "",
        "groupBy": query.group_by or "",
        "gpu": str(query.gpu or ""),
    }
    named = urlencode({key: value for key, value in asked.items() if value}, safe=":,")
    return f"{reverse('metrics-series-export')}?{named}"


def charts_context(
    level: str,
    url_name: str,
    arguments: Mapping[str, Any],
    query: Mapping[str, str],
    shown: TimeRange,
    *,
    name: str = "kind",
) -> dict[str, Any]:
    """Return the template's values for the charts of a level: the range, and each chart's address.

    `url_name` is the view of one chart, whose key is its parameter `name`. `charts` has the definitions with
    their addresses in order, `chart_urls` the addresses by key.
    """
    text = urlencode({key: value for key, value in {**query, **shown.query}.items() if value}, safe=":")
    listed = [
        (chart, f"{reverse(url_name, kwargs={**arguments, name: chart.key})}?{text}")
        for chart in CHARTS[level]
    ]
    return {
        "range": shown,
        "charts": listed,
        "chart_urls": {chart.key.replace("-", "_"): address for chart, address in listed},
        "chart_every": shown.every_s,
    }
