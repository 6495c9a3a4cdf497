"""Alerts: those that fire and the history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from alerts.delivery.messages import describe_condition, format_value
from alerts.models import Alert, AlertSeverity, AlertState
from alerts.selectors.alerts import list_alerts
from foundation.core import clock
from frontend.components.view_models import Chip
from frontend.pages.alerts.place import AlertSection, enter_place
from frontend.shell.page_shell import login_required

PER_PAGE: Final = 30
_TONES: Final = {
    AlertSeverity.CRITICAL: "failed",
    AlertSeverity.WARNING: "waiting",
    AlertSeverity.INFO: "info",
}
_STATE_TONES: Final = {
    AlertState.PENDING: "info",
    AlertState.FIRING: "failed",
    AlertState.RESOLVED: "done",
}


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One alert in words."""

    alert: Alert
    severity: str
    severity_tone: str
    state: str
    state_tone: str
    condition: str
    value: str
    lasted: timedelta
    suppressed: str


def make_row(alert: Alert) -> AlertRow:
    """Return what tables show of an alert."""
    suppressed = {"silenced": _("Silenced"), "inhibited": _("Inhibited")}
    return AlertRow(
        alert=alert,
        severity=str(AlertSeverity(alert.severity).label),
        severity_tone=_TONES[AlertSeverity(alert.severity)],
        state=str(AlertState(alert.state).label),
        state_tone=_STATE_TONES[AlertState(alert.state)],
        condition=describe_condition(alert),
        value=format_value(alert.metric, alert.value),
        lasted=(alert.resolved_at or clock.now()) - alert.started_at,
        suppressed=suppressed.get(alert.suppressed, "") if alert.state == AlertState.FIRING else "",
    )


def show_alerts(request: HttpRequest, place: AlertSection) -> HttpResponse:
    """Render the alerts that the address's filters leave."""
    rows = list_alerts(place.who, place.tenant)
    asked = request.GET
    shown = _filter_rows(rows, asked.get("state", ""), asked.get("severity", ""))
    page = Paginator(shown, PER_PAGE).get_page(asked.get("page"))
    context = place.make_context(
        page=page,
        rows=[make_row(alert) for alert in page],
        firing=rows.filter(state=AlertState.FIRING).count(),
        states=[
            Chip(label=_("Active")),
            Chip(label=_("History"), value=AlertState.RESOLVED.value),
        ],
        severities=[
            Chip(label=_("All")),
            *(Chip(label=str(each.label), value=each.value) for each in AlertSeverity),
        ],
        filtered=bool(asked.get("severity")),
        silences_url=place.get_url("silences"),
        rules_url=place.get_url("alert-rules"),
        history=asked.get("state") == AlertState.RESOLVED,
    )
    return render(request, "frontend/alerts/alerts.html", context)


def _filter_rows(rows: QuerySet[Alert], state: str, severity: str) -> QuerySet[Alert]:
    if state == AlertState.RESOLVED:
        rows = rows.filter(state=AlertState.RESOLVED)
    else:
        # Firing before pending, then the newest.
        rows = rows.exclude(state=AlertState.RESOLVED).order_by("state", "-started_at", "-pk")
    return rows.filter(severity=severity) if severity in AlertSeverity.values else rows


@login_required
def workspace_alerts(request: HttpRequest, workspace: str) -> HttpResponse:
    """Alerts about a workspace."""
    return show_alerts(request, enter_place(request, workspace, "alerts"))


@login_required
def ops_alerts(request: HttpRequest) -> HttpResponse:
    """Alerts of the platform and of all tenants."""
    return show_alerts(request, enter_place(request, None, "alerts"))
