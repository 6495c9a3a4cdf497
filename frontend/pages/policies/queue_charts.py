"""The charts of a queue over a chosen range: how long jobs waited, and demand beside the quota by pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from clusters.models import Flavor
from foundation.core.errors import NotFound
from frontend.charts import Chart, ChartLine, time_series
from frontend.shell.page_shell import get_viewer, login_required
from frontend.shell.time_range import TimeRange, read_time_range
from quotas.models import Queue
from quotas.selectors.queues.queue import queue_get
from telemetry.usage.queue_history import DemandPart, WaitPart, queue_demand, queue_waits
from tenants.selectors.tenant import workspace_get

DEFAULT_RANGE: Final = "24h"
_WAITS: Final = "waits"
_DEMAND: Final = "demand-"
_HOUR_S: Final = 3600
_MOST_POOLS: Final = 6


def charts_context(request: HttpRequest, queue: Queue) -> dict[str, Any]:
    """Return the range and the charts of a queue's page: title, note, key and address of each."""
    shown = read_time_range(request, DEFAULT_RANGE)
    names = [(_WAITS, _("Wait time"), _("from submission to first admission"))]
    for row in list(queue.queue_flavors.all())[:_MOST_POOLS]:
        title = _("Demand and quota of %(pool)s") % {"pool": row.flavor.name}
        names.append((f"{_DEMAND}{row.flavor_id}", title, _("in GPUs")))
    place = [queue.workspace.slug, queue.name]
    return {
        "range": shown,
        "chart_every": shown.every_s,
        "queue_charts": [
            (key, title, note, f"{reverse('frontend:ops-queue-chart', args=[*place, key])}?{_query(shown)}")
            for key, title, note in names
        ],
    }


def _query(shown: TimeRange) -> str:
    return urlencode(shown.query, safe=":")


@require_GET
@login_required
def queue_chart(request: HttpRequest, workspace: str, queue: str, kind: str) -> JsonResponse:
    """Answer one chart of a queue as data. Raises: NotFound for another kind."""
    who, shown = get_viewer(request), read_time_range(request, DEFAULT_RANGE)
    found = queue_get(who, workspace_get(viewer=who, slug=workspace), queue)
    if kind == _WAITS:
        return _answer(draw_waits(queue_waits(who, found, shown.start, shown.end), shown))
    flavor = _flavor_of(found, kind)
    return _answer(draw_demand(kind, queue_demand(who, found, flavor, shown.start, shown.end), shown))


def _answer(chart: Chart) -> JsonResponse:
    return JsonResponse(chart.as_json())


def _flavor_of(queue: Queue, kind: str) -> Flavor:
    for row in queue.queue_flavors.all():
        if kind == f"{_DEMAND}{row.flavor_id}":
            return row.flavor
    raise NotFound(f"no chart {kind!r}")


def draw_waits(parts: Sequence[WaitPart], shown: TimeRange) -> Chart:
    """Draw the average and the longest wait, in minutes or in hours."""
    longest = max((part.longest_s for part in parts if part.longest_s is not None), default=0)
    per, unit = (_HOUR_S, "h") if longest >= 3 * _HOUR_S else (60, "min")
    lines = [
        ChartLine(
            name=_("Average"),
            points=[(part.at, None if part.mean_s is None else part.mean_s / per) for part in parts],
            color="used",
        ),
        ChartLine(
            name=_("Longest"),
            points=[(part.at, None if part.longest_s is None else part.longest_s / per) for part in parts],
            color="series-8",
        ),
    ]
    return time_series(_WAITS, lines, unit=unit, title=_("Wait time"), span=(shown.start, shown.end))


def draw_demand(key: str, parts: Sequence[DemandPart], shown: TimeRange) -> Chart:
    """Draw what is allocated, with what pending jobs asked for above it, and the nominal quota."""
    lines = [
        ChartLine(
            name=_("Allocated"),
            points=[(part.at, part.allocated) for part in parts],
            color="allocated",
            area=True,
        ),
        ChartLine(
            name=_("Allocated and pending"),
            points=[(part.at, part.allocated + part.pending) for part in parts],
            color="series-5",
        ),
        ChartLine(
            name=_("Nominal quota"),
            points=[(part.at, part.nominal) for part in parts],
            color="series-8",
            dash="dash",
        ),
    ]
    title = _("Demand and quota")
    return time_series(key, lines, unit="GPU", title=title, span=(shown.start, shown.end))
