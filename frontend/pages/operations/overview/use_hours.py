"""Allocation and utilization of the last days by hour, of the clusters or of one pool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.utils.translation import get_language, gettext_lazy
from django.views.decorators.http import require_GET

from clusters.models import Flavor
from clusters.selectors.capacity import list_card_pools
from foundation.core import clock
from foundation.core.errors import Invalid, NotFound
from frontend.charts import hour_grid
from frontend.components.time_zones import zone_options
from frontend.pages.operations.cluster_scope import ClusterScope, scope_of
from frontend.shell.page_shell import get_viewer, operator_required
from telemetry.series import SeriesSet, cluster_series, pool_series
from telemetry.usage.periods import read_zone
from tenants.models import User

DAYS: Final = 7
_STEP_S: Final = 1_800
"""Half an hour, because the hours of some time zones begin in the middle of those of UTC."""
KINDS: Final = {
    "allocated": ("cores_allocated", gettext_lazy("Allocated"), "allocated"),
    "used": ("utilisation", gettext_lazy("GPU utilization"), "used"),
}
"""The measure of the series, the title and the color of each grid."""


@dataclass(frozen=True, slots=True)
class HoursChoice:
    """The pool, None for all, and the time zone of the grids."""

    pool: Flavor | None
    zone: ZoneInfo


def hours_context(request: HttpRequest, scope: ClusterScope) -> dict[str, object]:
    """Return the choices of the page and the addresses of its grids."""
    pools = _pools(get_viewer(request), scope)
    choice = _choice(request, pools)
    query = {
        "cluster": scope.cluster_name,
        "pool": str(choice.pool.pk) if choice.pool else "",
        "time_zone": choice.zone.key,
    }
    text = urlencode({key: value for key, value in query.items() if value})
    address = {kind: f"{reverse('frontend:ops-overview-hours', args=[kind])}?{text}" for kind in KINDS}
    return {
        "hours_urls": address,
        "pools": [(str(pool.pk), _name(pool, pools)) for pool in pools],
        "pool": query["pool"],
        "zone": choice.zone.key,
        "zones": zone_options(),
        "cluster": scope.cluster_name,
    }


@require_GET
@operator_required
def overview_hours(request: HttpRequest, kind: str) -> JsonResponse:
    """Return one grid as data. Raises: NotFound for another kind."""
    if kind not in KINDS:
        raise NotFound(f"no chart {kind!r}")
    scope = scope_of(request)
    choice = _choice(request, _pools(get_viewer(request), scope))
    measure, title, color = KINDS[kind]
    now = clock.now()
    today = now.astimezone(choice.zone).date()
    days = [today - timedelta(days=past) for past in range(DAYS - 1, -1, -1)]
    start = datetime(days[0].year, days[0].month, days[0].day, tzinfo=choice.zone)
    viewer = get_viewer(request)
    if choice.pool is None:
        found = cluster_series(viewer, scope.cluster, start, now, _STEP_S)
    else:
        found = pool_series(viewer, choice.pool, start, now, _STEP_S)
    chinese = (get_language() or "").startswith("zh")
    names = [f"{day.month}月{day.day}日" if chinese else f"{day:%b} {day.day}" for day in days]
    rates = _by_hour(found, measure, days, choice.zone)
    return JsonResponse(hour_grid(f"ops-hours-{kind}", names, rates, title=str(title), color=color).as_json())


def _by_hour(
    found: SeriesSet, measure: str, days: Sequence[date], zone: ZoneInfo
) -> list[list[float | None]]:
    """Return the mean of each hour of each day, None for one without data."""
    line = next(line for line in found.series if line.measure == measure)
    known: defaultdict[tuple[date, int], list[float]] = defaultdict(list)
    for at, value in line.points:
        if value is not None:
            local = at.astimezone(zone)
            known[local.date(), local.hour].append(value)
    return [
        [sum(values) / len(values) if (values := known.get((day, hour))) else None for hour in range(24)]
        for day in days
    ]


def _choice(request: HttpRequest, pools: Sequence[Flavor]) -> HoursChoice:
    """Read the choices of the address: all pools and UTC if one of them cannot be read."""
    named = request.GET.get("pool", "")
    pool = next((one for one in pools if str(one.pk) == named), None)
    try:
        zone = read_zone(request.GET.get("time_zone", "")[:60] or "UTC")
    except Invalid:
        zone = read_zone("UTC")
    return HoursChoice(pool, zone)


def _pools(who: User, scope: ClusterScope) -> list[Flavor]:
    rows = list_card_pools(viewer=who)
    return [flavor for flavor in rows if scope.cluster_id in (None, flavor.cluster_id)]


def _name(pool: Flavor, pools: Sequence[Flavor]) -> str:
    twice = sum(one.name == pool.name for one in pools) > 1
    return f"{pool.name} ({pool.cluster.name})" if twice else pool.name
