"""Alerts: firing ones and the history."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from alerts.delivery.messages import describe_condition, format_value
from alerts.metrics.subject_names import name_subject
from alerts.models import Alert, AlertSeverity, AlertState
from alerts.selectors.alerts import COLUMNS, list_alerts
from alerts.selectors.notify_status import NotifyStatus, read_notify_status
from foundation.core import clock
from foundation.web.listing import filter_rows, sort_rows
from frontend.components.view_models import Chip
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.pages.alerts.metric_words import name_subject_kind
from frontend.pages.alerts.place import AlertSection, enter_place
from frontend.shell.page_shell import login_required
from frontend.texts.firing import SEVERITY_TONES

_STATE_TONES: Final = {
    AlertState.PENDING: "info",
    AlertState.FIRING: "failed",
    AlertState.RESOLVED: "done",
}
_NOTIFY_TONES: Final = {
    NotifyStatus.SENT: "running",
    NotifyStatus.PARTIAL: "waiting",
    NotifyStatus.FAILED: "failed",
    NotifyStatus.PENDING: "info",
}


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One alert as text."""

    alert: Alert
    severity: str
    severity_tone: str
    state: str
    state_tone: str
    kind: str
    condition: str
    value: str
    lasted: timedelta
    notified: str
    notified_tone: str
    cluster: str

    @property
    def id(self) -> uuid.UUID:
        return self.alert.pk

    @property
    def title(self) -> str:
        return name_subject(self.alert.metric, self.alert.label)

    @property
    def url(self) -> str:
        return self.alert.path


ALERTS: Final = ListDeclaration(
    key="alerts",
    title=gettext_lazy("Alerts"),
    columns=(
        ListColumn(
            key="subject",
            label=gettext_lazy("Resource"),
            sort="subject_name",
            text=lambda row: row.title,
        ),
        ListColumn(
            key="rule",
            label=gettext_lazy("Rule"),
            sort="rule_name",
            shown=False,
            text=lambda row: row.alert.rule_name,
        ),
        ListColumn(key="kind", label=gettext_lazy("Resource type"), shown=False, text=lambda row: row.kind),
        ListColumn(
            key="condition",
            label=gettext_lazy("Condition"),
            shown=False,
            text=lambda row: row.condition,
        ),
        ListColumn(
            key="tenant",
            label=gettext_lazy("Tenant"),
            shown=False,
            text=lambda row: row.alert.tenant.name if row.alert.tenant else "",
        ),
        ListColumn(
            key="cluster",
            label=gettext_lazy("Cluster"),
            shown=False,
            text=lambda row: row.cluster,
        ),
        ListColumn(
            key="severity", label=gettext_lazy("Severity"), sort="severity", text=lambda row: row.severity
        ),
        ListColumn(key="state", label=gettext_lazy("State"), text=lambda row: row.state),
        ListColumn(key="value", label=gettext_lazy("Value"), number=True, text=lambda row: row.value),
        ListColumn(
            key="since",
            label=gettext_lazy("Since"),
            sort="started_at",
            text=lambda row: row.alert.started_at,
        ),
        ListColumn(
            key="fired",
            label=gettext_lazy("Fired at"),
            sort="fired_at",
            shown=False,
            text=lambda row: row.alert.fired_at,
        ),
        ListColumn(
            key="lasted",
            label=gettext_lazy("Duration"),
            number=True,
            text=lambda row: round(row.lasted.total_seconds()),
        ),
        ListColumn(key="notified", label=gettext_lazy("Notifications"), text=lambda row: row.notified),
        ListColumn(
            key="resolved",
            label=pgettext_lazy("column", "Resolved"),
            shown=False,
            text=lambda row: row.alert.resolved_at,
        ),
    ),
    filters={
        "subject_name": FilterField(label=gettext_lazy("Resource")),
        "rule_name": FilterField(label=gettext_lazy("Rule")),
        "cluster": FilterField(label=gettext_lazy("Cluster")),
        "severity": FilterField(
            label=gettext_lazy("Severity"), choices=[(each.value, each.label) for each in AlertSeverity]
        ),
        "state": FilterField(
            label=gettext_lazy("State"), choices=[(each.value, each.label) for each in AlertState]
        ),
        "started_at": FilterField(label=gettext_lazy("Since")),
    },
    fields=COLUMNS,
    parameters=("severity",),
)


def make_row(alert: Any) -> AlertRow:
    """Return the table row of an alert of `list_alerts`."""
    notified = read_notify_status(alert)
    return AlertRow(
        alert=alert,
        severity=str(AlertSeverity(alert.severity).label),
        severity_tone=SEVERITY_TONES[AlertSeverity(alert.severity)],
        state=str(AlertState(alert.state).label),
        state_tone=_STATE_TONES[AlertState(alert.state)],
        kind=name_subject_kind(alert.metric),
        condition=describe_condition(alert),
        value=format_value(alert.metric, alert.value),
        lasted=(alert.resolved_at or clock.now()) - alert.started_at,
        notified=str(notified.label) if notified else "",
        notified_tone=_NOTIFY_TONES.get(notified, "done") if notified else "",
        cluster=alert.cluster_name or "",
    )


def show_alerts(request: HttpRequest, place: AlertSection) -> HttpResponse:
    """Render the alerts that match the filters of the address."""
    rows = list_alerts(place.who, place.tenant)
    listing = read_list(request, ALERTS, {"state": AlertState.values, "severity": AlertSeverity.values})
    state, severity = listing.query.get("state", ""), listing.query.get("severity", "")
    return answer_list(
        request,
        listing,
        _order(filter_rows(_filter_rows(rows, state, severity), listing.conditions), listing.sort),
        lambda alerts: [make_row(alert) for alert in alerts],
        template="frontend/alerts/alerts.html",
        context=lambda: _context(place, rows, history=state == AlertState.RESOLVED),
    )


def _context(place: AlertSection, rows: QuerySet[Alert], *, history: bool) -> dict[str, Any]:
    none = EmptyList(
        _("No active alerts"),
        _("Create a rule to be notified when a condition is met."),
        place.get_url("alert-rules"),
        _("Rules"),
        "bell",
    )
    if history:
        none = EmptyList(_("No resolved alerts"), _("Resolved alerts are kept for 90 days."), icon="history")
    return place.make_context(
        firing=rows.filter(state=AlertState.FIRING).count(),
        states=[
            Chip(label=pgettext("alerts", "Active")),
            Chip(label=_("History"), value=AlertState.RESOLVED.value),
        ],
        severities=[
            Chip(label=_("All")),
            *(Chip(label=str(each.label), value=each.value) for each in AlertSeverity),
        ],
        silences_url=place.get_url("silences"),
        history=history,
        row="frontend/alerts/alert_row.html",
        menu="frontend/alerts/alert_menu.html",
        empty_list=none,
    )


def _order(rows: QuerySet[Alert], sort: str) -> QuerySet[Alert]:
    return sort_rows(rows, sort, COLUMNS) if sort else rows


def _filter_rows(rows: QuerySet[Alert], state: str, severity: str) -> QuerySet[Alert]:
    if state == AlertState.RESOLVED:
        rows = rows.filter(state=AlertState.RESOLVED)
    else:
        # The default order: firing before pending, then the newest first.
        rows = rows.exclude(state=AlertState.RESOLVED).order_by("state", "-started_at", "-pk")
    return rows.filter(severity=severity) if severity in AlertSeverity.values else rows


@login_required
def workspace_alerts(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show alerts about a workspace."""
    return show_alerts(request, enter_place(request, workspace, "alerts"))


@login_required
def ops_alerts(request: HttpRequest) -> HttpResponse:
    """Show alerts of the platform and of all tenants."""
    return show_alerts(request, enter_place(request, None, "alerts"))
