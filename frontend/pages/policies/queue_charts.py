"""The charts of a queue over a chosen range: waiting times, admissions and evictions, and demand beside the
quota by pool.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from clusters.models import Flavor
from foundation.core.errors import NotFound
from frontend.charts import ChartLine, time_series
from frontend.pages.charts.drawing import move_earlier_line
from frontend.pages.policies.queue_address import queue_page_address
from frontend.shell.page_shell import get_viewer, login_required
from frontend.shell.time_range import TimeRange, read_time_range
from quotas.models import Queue
from quotas.selectors.queues.queue import queue_get
from telemetry.usage.queue_history import queue_demand, queue_rates, queue_waits
from tenants.models import User
from tenants.selectors.tenant import workspace_get

DEFAULT_RANGE: Final = "24h"
_WAITS: Final = "waits"
_RATES: Final = "rates"
_DEMAND: Final = "demand-"
_MOST_POOLS: Final = 6


def charts_context(request: HttpRequest, queue: Queue) -> dict[str, Any]:
    """Return the range and the charts of a queue's page: title, note, key and address of each."""
    shown = read_time_range(request, DEFAULT_RANGE)
    names = [
        (_WAITS, _("Wait time"), _("in minutes, from submission to first admission")),
        (_RATES, _("Admissions and evictions"), _("in jobs per hour")),
    ]
    for row in list(queue.queue_flavors.all())[:_MOST_POOLS]:
        title = _("Demand and quota of %(pool)s") % {"pool": row.flavor.name}
        names.append((f"{_DEMAND}{row.flavor_id}", title, _("in GPUs")))
    return {
        "range": shown,
        "chart_every": shown.every_s,
        "queue_charts": [
            (key, title, note, f"{queue_page_address(request, queue, 'chart', key)}?{_query(shown)}")
            for key, title, note in names
        ],
    }


def _query(shown: TimeRange) -> str:
    return urlencode(shown.query, safe=":")


@require_GET
@login_required
def queue_chart(request: HttpRequest, workspace: str, queue: str, kind: str) -> JsonResponse:
    """Return one chart of a queue as data. Raises: NotFound for another kind."""
    who, shown = get_viewer(request), read_time_range(request, DEFAULT_RANGE)
    found = queue_get(who, workspace_get(viewer=who, slug=workspace), queue)
    if kind == _WAITS:
        title, unit, read_lines = _("Wait time"), "min", partial(_wait_lines, who, found)
    elif kind == _RATES:
        title, unit, read_lines = _("Admissions and evictions"), "/h", partial(_rate_lines, who, found)
    else:
        title, unit = _("Demand and quota"), "GPU"
        read_lines = partial(_demand_lines, who, found, _flavor_of(found, kind))
    lines = read_lines(shown.start, shown.end)
    if shown.compare:
        length = shown.end - shown.start
        lines += [move_earlier_line(line, length) for line in read_lines(*shown.before)]
    span = (shown.start, shown.end)
    return JsonResponse(time_series(kind, lines, unit=unit, title=title, span=span).as_json())


def _flavor_of(queue: Queue, kind: str) -> Flavor:
    for row in queue.queue_flavors.all():
        if kind == f"{_DEMAND}{row.flavor_id}":
            return row.flavor
    raise NotFound(f"no chart {kind!r}")


def _wait_lines(viewer: User, queue: Queue, start: datetime, end: datetime) -> list[ChartLine]:
    """Read the average and the longest wait, in minutes."""
    parts = queue_waits(viewer, queue, start, end)
    averages = [(part.at, None if part.mean_s is None else part.mean_s / 60) for part in parts]
    longest = [(part.at, None if part.longest_s is None else part.longest_s / 60) for part in parts]
    return [
        ChartLine(name=_("Average"), points=averages, color="used"),
        ChartLine(name=_("Longest"), points=longest, color="series-8"),
    ]


def _rate_lines(viewer: User, queue: Queue, start: datetime, end: datetime) -> list[ChartLine]:
    """Read the jobs admitted and evicted per hour."""
    parts = queue_rates(viewer, queue, start, end)
    admitted = [(part.at, part.admitted) for part in parts]
    evicted = [(part.at, part.evicted) for part in parts]
    return [
        ChartLine(name=_("Admitted"), points=admitted, color="used"),
        ChartLine(name=_("Evicted"), points=evicted, color="series-8"),
    ]


def _demand_lines(
    viewer: User, queue: Queue, flavor: Flavor, start: datetime, end: datetime
) -> list[ChartLine]:
    """Read the allocated amount, the requests of pending jobs above it, and the nominal quota."""
    parts = queue_demand(viewer, queue, flavor, start, end)
    allocated = [(part.at, part.allocated) for part in parts]
    demand = [(part.at, part.allocated + part.pending) for part in parts]
    nominal = [(part.at, part.nominal) for part in parts]
    return [
        ChartLine(name=_("Allocated"), points=allocated, color="allocated", area=True),
        ChartLine(name=_("Allocated and pending"), points=demand, color="series-5"),
        ChartLine(name=_("Nominal quota"), points=nominal, color="series-8", dash="dash"),
    ]
