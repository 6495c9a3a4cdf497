"""The cluster overview: allocated, used, idle, waiting, and what fits."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from foundation.core.errors import NotFound
from frontend.pages.operations import chart_figures, summary
from frontend.pages.operations.cluster_scope import ClusterScope, build_address, ops_frame, scope_of
from frontend.shell.page_shell import operator_required, time_range, viewer
from frontend.texts import formats
from telemetry.series import cluster_series

DEFAULT_RANGE: Final = "1h"
# How often a chart asks again, in seconds: about once per point it can gain.
CHART_EVERY: Final = {"1h": 20, "6h": 60, "24h": 300, "7d": 1800, "30d": 3600}


@require_GET
@operator_required
def overview(request: HttpRequest) -> HttpResponse:
    """The whole page."""
    scope = scope_of(request)
    ops_frame(request, scope)
    return render(request, "frontend/operations/overview.html", _context(request, scope))


@require_GET
@operator_required
def overview_live(request: HttpRequest) -> HttpResponse:
    """What the page asks for every few seconds: everything but the head."""
    scope = scope_of(request)
    return render(request, "frontend/operations/overview_live.html", _context(request, scope))


@require_GET
@operator_required
def overview_chart(request: HttpRequest, kind: str) -> HttpResponse:
    """One chart of the clusters as data."""
    figure = chart_figures.CLUSTER_FIGURES.get(kind)
    if figure is None:
        raise NotFound(f"no chart {kind!r}")
    chosen = time_range(request, DEFAULT_RANGE)
    found = cluster_series(viewer(request), scope_of(request).cluster, chosen.start, chosen.end)
    return JsonResponse(figure(found).as_json())


def _context(request: HttpRequest, scope: ClusterScope) -> dict[str, object]:
    chosen = time_range(request, DEFAULT_RANGE)
    query = {"cluster": scope.cluster_name, "range": chosen.key}
    found = summary.overview_context(viewer(request), scope)
    return {
        **found,
        "stale_clusters": scope.stale_clusters,
        "facts": _facts(scope, *found["size"]),
        "range": chosen,
        "ranges": [
            (key, label, build_address(reverse("frontend:ops-overview"), {**query, "range": key}))
            for key, label in chosen.choices
        ],
        "live_url": build_address(reverse("frontend:ops-overview-live"), query),
        "chart_urls": {
            kind: build_address(reverse("frontend:ops-overview-chart", kwargs={"kind": kind}), query)
            for kind in chart_figures.CLUSTER_FIGURES
        },
        "chart_every": CHART_EVERY[chosen.key],
    }


def _facts(scope: ClusterScope, nodes: int, cards: int) -> list[str]:
    clusters = 1 if scope.cluster else len(scope.clusters)
    return [
        ngettext("%(n)s cluster", "%(n)s clusters", clusters) % {"n": clusters},
        ngettext("%(n)s node", "%(n)s nodes", nodes) % {"n": formats.format_number(nodes)},
        ngettext("%(n)s GPU", "%(n)s GPUs", cards) % {"n": formats.format_number(cards)},
    ]
