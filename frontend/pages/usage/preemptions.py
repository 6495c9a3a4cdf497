"""The preemptions of a month: their number, rules, beneficiaries and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from foundation.core import clock
from foundation.core.errors import Invalid
from foundation.sql import row_scope
from frontend.components import view_models
from frontend.components.time_zones import zone_options
from frontend.pages.jobs.events.eviction import explain_rule
from frontend.pages.usage.report_page import PER_PAGE
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts import formats
from telemetry.usage.figures import to_hours
from telemetry.usage.periods import Period
from telemetry.usage.preemptions import PreemptedBy, PreemptionRow, UserLosses, preemption_report
from telemetry.usage.report import report_period
from tenants.models import Tenant
from tenants.selectors.tenant import workspace_get

_BY: Final[dict[PreemptedBy, str | Promise]] = {
    PreemptedBy.OWN: gettext_lazy("Jobs of the same workspace"),
    PreemptedBy.OTHER: gettext_lazy("Another tenant"),
    PreemptedBy.UNKNOWN: gettext_lazy("Deleted jobs"),
}


@dataclass(frozen=True, slots=True)
class PreemptionLine:
    """One row of the table, as text."""

    workspace: str
    url: str
    rule: str
    by: str
    count: str
    lost: str


@dataclass(frozen=True, slots=True)
class PreemptedUserLine:
    """The preemptions of one user's jobs, as text."""

    user: str
    count: str
    lost: str


@require_GET
@login_required
@row_scope.read_transaction()
def workspace_preemptions(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the preemptions of one workspace."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    set_frame(request, place)
    usage = reverse("frontend:workspace-usage", args=[place.slug])
    return _render(request, place, view_models.Crumb(label=_("Usage"), url=usage))


@require_GET
@login_required
@row_scope.read_transaction()
def platform_preemptions(request: HttpRequest) -> HttpResponse:
    """Show the preemptions of all workspaces in sight."""
    set_frame(request, label=_("Usage reports"), trail=_("Operations"))
    reports = view_models.Crumb(label=_("Usage reports"), url=reverse("frontend:ops-reports"))
    return _render(request, None, reports)


def _render(request: HttpRequest, place: Tenant | None, crumb: view_models.Crumb) -> HttpResponse:
    problem, now = "", clock.now()
    try:
        asked = request.GET.get
        period = report_period(asked("month", "")[:7], asked("time_zone", "")[:60], now=now)
    except Invalid as error:
        problem, period = error.detail, report_period("", "", now=now)
    report = preemption_report(get_viewer(request), period, tenant=place)
    rows = report.rows
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "place": place,
        "crumbs": [crumb],
        "problem_text": problem,
        "page": page,
        "lines": [_line(row) for row in page.object_list],
        "count": formats.format_number(sum(row.count for row in rows)),
        "lost": _hours(sum(row.lost for row in rows)),
        "users": _user_lines(report.users) if place else (),
        **_month(period),
    }
    return render(request, "frontend/usage/preemptions.html", context)


def _user_lines(users: Sequence[UserLosses]) -> list[PreemptedUserLine]:
    """Return the users of a workspace that lost most."""
    return [
        PreemptedUserLine(row.user, formats.format_number(row.count), _hours(row.lost))
        for row in users[:PER_PAGE]
    ]


def _line(row: PreemptionRow) -> PreemptionLine:
    return PreemptionLine(
        workspace=row.workspace.name,
        url=reverse("frontend:workspace-preemptions", args=[row.workspace.slug]),
        rule=explain_rule(row.rule, {}) or row.rule,
        by=row.tenant.name if row.tenant else str(_BY[row.by]),
        count=formats.format_number(row.count),
        lost=_hours(row.lost),
    )


def _hours(core_ms: int) -> str:
    return formats.format_number(float(to_hours(core_ms)), 1)


def _month(period: Period) -> dict[str, Any]:
    return {
        "month": f"{period.month:%Y-%m}",
        "zone": period.zone.key,
        "zones": zone_options(),
    }
