"""The cluster overview: allocated, used, idle and free GPUs, and pending jobs."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from clusters.models import BackendKind
from clusters.services.simulated import simulated_speed
from frontend.components.view_models import Chip
from frontend.pages.charts.responses import chart_answer, charts_context
from frontend.pages.operations.cluster_scope import ClusterScope, build_address, ops_frame, scope_of
from frontend.pages.operations.overview import summary
from frontend.pages.operations.overview.gpu_tenants import BY_TENANT, is_by_tenant
from frontend.pages.operations.overview.use_hours import hours_context
from frontend.pages.setup.checklist import read_steps
from frontend.pages.setup.clusters import speed_choices
from frontend.shell.page_shell import get_viewer, operator_required
from frontend.shell.time_range import read_time_range
from frontend.texts import formats
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

DEFAULT_RANGE: Final = "1h"


@require_GET
@operator_required
def show_overview(request: HttpRequest) -> HttpResponse:
    """Show the whole page."""
    scope = scope_of(request)
    ops_frame(request, scope)
    page = _context(request, scope) | {
        "setup": read_steps(get_viewer(request)),
        "simulation": _simulation(get_viewer(request), scope),
        "hours": hours_context(request, scope),
    }
    return render(request, "frontend/operations/overview.html", page)


@require_GET
@operator_required
def overview_live(request: HttpRequest) -> HttpResponse:
    """Render the part that the page refreshes every few seconds: everything but the head."""
    scope = scope_of(request)
    return render(request, "frontend/operations/overview_live.html", _context(request, scope))


@require_GET
@operator_required
def overview_chart(request: HttpRequest, kind: str) -> HttpResponse:
    """Return one chart of the clusters as data."""
    cluster = scope_of(request).cluster_id
    return chart_answer(
        get_viewer(request), "cluster", cluster, kind, read_time_range(request, DEFAULT_RANGE)
    )


def _context(request: HttpRequest, scope: ClusterScope) -> dict[str, object]:
    chosen, query = read_time_range(request, DEFAULT_RANGE), {"cluster": scope.cluster_name}
    by_tenant = is_by_tenant(request)
    found = summary.overview_context(get_viewer(request), scope, by_tenant=by_tenant)
    shown = {"gpus": BY_TENANT} if by_tenant else {}
    return {
        **found,
        "by_tenant": by_tenant,
        "gpu_views": [Chip(label=_("By use")), Chip(label=_("By tenant"), value=BY_TENANT)],
        "facts": _facts(scope, *found["size"]),
        **charts_context("cluster", "frontend:ops-overview-chart", {}, query, chosen),
        "live_url": build_address(reverse("frontend:ops-overview-live"), query | chosen.query | shown),
    }


def _simulation(who: User, scope: ClusterScope) -> dict[str, object] | None:
    """Return the speed of the simulated cluster that is shown, None if there is none or more than one."""
    simulated = [cluster for cluster in scope.clusters if cluster.backend == BackendKind.SIMULATED]
    shown = [cluster for cluster in simulated if scope.cluster in (None, cluster)]
    speed = simulated_speed(shown[0]) if len(shown) == 1 else None
    if speed is None:
        return None
    return {
        "cluster": shown[0].name,
        "speed": f"{speed:g}",
        "speeds": speed_choices(speed),
        "may_edit": permissions.has_permission(who, Permission.CLUSTER_EDIT),
    }


def _facts(scope: ClusterScope, nodes: int, cards: int) -> list[str]:
    clusters = 1 if scope.cluster else len(scope.clusters)
    return [
        ngettext("%(n)s cluster", "%(n)s clusters", clusters) % {"n": clusters},
        ngettext("%(n)s node", "%(n)s nodes", nodes) % {"n": formats.format_number(nodes)},
        ngettext("%(n)s GPU", "%(n)s GPUs", cards) % {"n": formats.format_number(cards)},
    ]
