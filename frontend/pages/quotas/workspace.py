"""The quota of a workspace in all resources, with its users' usage, for its members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.core.sentences import join_sentences
from foundation.sql import row_scope
from frontend.pages.quotas.forecast import forecast_line
from frontend.pages.quotas.page import quota_context, read_nodes
from frontend.pages.quotas.resource_lines import ResourceLine, Use, resource_lines
from frontend.pages.quotas.rows import TITLES
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts import formats
from frontend.texts.gpu_hours import format_gpu_hours
from frontend.texts.queue_rules import ALLOCATION_MODES, SHARING, STRATEGIES, describe_preemption
from quotas.models import FlavorKey
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import NodeQuota
from telemetry.series import pools_now
from telemetry.usage.forecast import workspace_forecasts
from telemetry.usage.recent import RecentUse, recent_use
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolQuota:
    """The quota of the workspace in one pool, and the GPUs that its pending jobs request there."""

    flavor: Flavor
    lines: Sequence[ResourceLine]
    pending: str


@require_GET
@login_required
@row_scope.read_transaction()
def workspace_quota(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the quota of a workspace, read-only; `?resource=` selects that of the tables by queue."""
    who, now = get_viewer(request), clock.now()
    place = workspace_get(viewer=who, slug=workspace)
    set_frame(request, place)
    nodes = read_nodes(request, place, tuple(Resource))
    sees_jobs = permissions.has_permission(who, Permission.JOB_VIEW, place)
    context = {
        **quota_context(request, place, nodes, ops=False),
        "all_resources": _pools(nodes, pools_now(who, place.pk), sees_jobs),
        "sees_jobs": sees_jobs,
        **_describe_sharing(place, nodes),
        "forecasts": [forecast_line(forecast) for forecast in workspace_forecasts(who, place, now=now)],
        **(_recent(who, place, nodes, now) if sees_jobs else {}),
    }
    return render(request, "frontend/quotas/workspace.html", context)


def _pools(nodes: Sequence[NodeQuota], use: Use, sees_jobs: bool) -> list[PoolQuota]:
    """Return one table per pool in which the workspace has, or uses, quota."""
    own = nodes[0] if nodes else None
    available = _find_available(nodes[1:])
    flavors = {row.flavor.pk: row.flavor for row in own.assigned_rows} if own else {}
    titles = list(TITLES)
    found = []
    for flavor in flavors.values():
        rows = [row for row in (own.assigned_rows if own else ()) if row.flavor.pk == flavor.pk]
        rows.sort(key=lambda row: titles.index(row.resource))
        pending = own.pending_flavors.get(flavor.pk, 0) if own else 0
        lines = resource_lines(rows, use, own, sees_jobs=sees_jobs, available=available)
        found.append(PoolQuota(flavor=flavor, lines=lines, pending=formats.format_number(pending)))
    return sorted(found, key=lambda pool: (pool.flavor.name, str(pool.flavor.pk)))


def _find_available(queues: Sequence[NodeQuota]) -> dict[FlavorKey, QuotaRow]:
    """Return the row of the queue with the most available quota, because a job has one queue."""

    def rank(row: QuotaRow) -> tuple[bool, int]:
        return row.available is None, row.available or 0

    found: dict[FlavorKey, QuotaRow] = {}
    for row in (row for queue in queues for row in queue.rows):
        key = row.flavor.pk, row.resource
        found[key] = max(found.get(key, row), row, key=rank)
    return found


def _recent(who: User, place: Tenant, nodes: Sequence[NodeQuota], now: datetime) -> dict[str, Any]:
    recent = recent_use(who, place, now=now)
    names = {row.flavor.pk: row.flavor.name for node in nodes[:1] for row in node.rows}
    return {"means": _means(recent, names), "users": _users(recent), "averages_since": recent.since}


def _means(recent: RecentUse, names: Mapping[Any, str]) -> list[dict[str, Any]]:
    found = [
        {
            "pool": names[flavor],
            "allocated": [formats.format_gpus(mean.allocated) for mean in means],
            "utilization": [formats.format_percent(mean.utilization) for mean in means],
        }
        for flavor, means in recent.means.items()
        if flavor in names
    ]
    return sorted(found, key=lambda line: str(line["pool"]))


def _users(recent: RecentUse) -> list[dict[str, str]]:
    return [
        {
            "name": user.name,
            "held": formats.format_gpus(user.held) if user.held else formats.MISSING,
            "hours": format_gpu_hours(user.core_ms),
            "share": formats.format_percent(100 * user.core_ms / recent.core_ms if recent.core_ms else None),
        }
        for user in recent.users
    ]


def _describe_sharing(workspace: Tenant, nodes: Sequence[NodeQuota]) -> dict[str, Any]:
    """Return the facts of a workspace in the scheduling domain of its quota, and a line per queue."""
    queues = [node.node.queue for node in nodes if node.queue]
    return {
        "sharing_facts": [
            (_("Cohort"), workspace.parent.name if workspace.parent else formats.MISSING),
            *_describe_domain(nodes),
            (_("Namespace"), workspace.slug),
        ],
        "queue_rules": [
            {
                "name": queue.name,
                "strategy": dict(STRATEGIES)[queue.strategy],
                "allocation": dict(ALLOCATION_MODES)[queue.allocation_mode],
                "preemption": join_sentences(describe_preemption(queue)),
            }
            for queue in queues
        ],
    }


def _describe_domain(nodes: Sequence[NodeQuota]) -> list[tuple[str, object]]:
    if not nodes:
        return []
    name, rule = SHARING[nodes[0].node.cell.sharing]
    return [(_("Sharing of unused quota"), _("%(name)s: %(rule)s") % {"name": name, "rule": rule})]
