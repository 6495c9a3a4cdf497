"""The alerts, rules, channels and silences that a viewer may see."""

from __future__ import annotations

import uuid
from typing import Final, TypeVar

from django.db.models import Case, Count, Max, Model, OuterRef, Q, QuerySet, Subquery, When
from django.utils.translation import gettext as _

from alerts.metrics.catalogue import METRICS
from alerts.metrics.subject_names import build_shown_label
from alerts.models import Alert, AlertRule, AlertSeverity, AlertState, NotificationChannel, Silence
from alerts.selectors.notify_status import with_notify_facts
from alerts.services.access import require_alert_view, require_view
from clusters.models import Cluster
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.web.listing import Column, ColumnKind
from tenants.access import permissions
from tenants.models import Tenant

Row = TypeVar("Row", bound=Model)


COLUMNS: Final = {
    "state": Column("state"),
    "severity": Column("severity"),
    "metric": Column("metric"),
    "rule_name": Column("rule_name"),
    "subject_name": Column("label", shown="shown_label"),
    "cluster": Column("cluster_name"),
    "started_at": Column("started_at", ColumnKind.TIME),
    "fired_at": Column("fired_at", ColumnKind.TIME),
}
"""The columns by which a list of alerts can be filtered."""
RULE_COLUMNS: Final = {
    "name": Column("name"),
    "metric": Column("metric"),
    "severity": Column("severity"),
    "firing": Column("firing", ColumnKind.NUMBER),
}
CHANNEL_COLUMNS: Final = {"name": Column("name"), "kind": Column("kind")}
SILENCE_COLUMNS: Final = {"ends_at": Column("ends_at", ColumnKind.TIME), "subject": Column("subject")}


def list_alerts(viewer: Actor, tenant: Tenant | None) -> QuerySet[Alert]:
    """Return the alerts of a tenant's subjects, or all without a tenant; newest first, including pending
    ones.

    They have the fields of `read_notify_status`, and the `cluster_name` of alerts about one cluster.
    Conditions can compare `shown_label`, the label in the active language. Alerts about quota are left out
    for viewers who may not see quota. Raises: NotFound, PermissionDenied.
    """
    clusters = Cluster.unscoped.filter(pk=OuterRef("cluster_id")).values("name")
    rows = with_notify_facts(_visible_alerts(viewer, tenant), tenant)
    rows = rows.alias(shown_label=build_shown_label("label"))
    return rows.annotate(cluster_name=Subquery(clusters)).order_by("-started_at", "-pk")


def _visible_alerts(viewer: Actor, tenant: Tenant | None) -> QuerySet[Alert]:
    require_alert_view(viewer, tenant)
    rows = Alert.unscoped.select_related("rule", "tenant")
    if tenant is None:
        return rows
    seen = permissions.permissions_on(viewer, tenant)
    hidden = [metric.name for metric in METRICS if metric.permission not in seen]
    return rows.filter(tenant__path__startswith=tenant.path).exclude(metric__in=hidden)


def count_firing(
    viewer: Actor, tenant: Tenant | None, *, cluster_id: uuid.UUID | None = None
) -> dict[AlertSeverity, int]:
    """Count the firing alerts of `list_alerts` by severity; a severity without alerts is 0.

    With a cluster only those of its own subjects: the cluster, its nodes, GPUs and pools.
    Raises: NotFound, PermissionDenied.
    """
    firing = _visible_alerts(viewer, tenant).filter(state=AlertState.FIRING).order_by()
    if cluster_id is not None:
        firing = firing.filter(cluster_id=cluster_id)
    counts = dict(firing.values_list("severity").annotate(count=Count("pk")))
    return {severity: counts.get(severity, 0) for severity in AlertSeverity}


def list_firing(viewer: Actor, tenant: Tenant | None, *, limit: int) -> list[Alert]:
    """Return the firing alerts of `list_alerts`: the most severe first, then the newest.

    Raises: NotFound, PermissionDenied.
    """
    grave = Case(*(When(severity=each, then=place) for place, each in enumerate(AlertSeverity)))
    firing = _visible_alerts(viewer, tenant).filter(state=AlertState.FIRING)
    return list(firing.order_by(grave, "-fired_at", "-pk")[:limit])


def alert_marks() -> dict[str | None, object]:
    """Return a value by the path of a workspace, None for the platform's own subjects.

    The value differs after an alert there has begun, fired or ended.
    """
    open_ones = Alert.unscoped.filter(state__in=(AlertState.PENDING, AlertState.FIRING)).order_by()
    marks = open_ones.values("tenant__path").annotate(
        count=Count("pk"), began=Max("started_at"), fired=Max("fired_at")
    )
    return {mark["tenant__path"]: tuple(mark.values()) for mark in marks}


def list_rules(viewer: Actor, tenant: Tenant | None) -> QuerySet[AlertRule]:
    """Return the rules of a tenant or the platform, with the numbers of `firing` and `pending` alerts.

    Raises: NotFound, PermissionDenied.
    """
    require_view(viewer, tenant)
    return (
        AlertRule.unscoped.filter(tenant=tenant)
        .select_related("tenant", "cluster")
        .prefetch_related("channels")
        .annotate(
            firing=Count("alerts", filter=Q(alerts__state=AlertState.FIRING)),
            pending=Count("alerts", filter=Q(alerts__state=AlertState.PENDING)),
        )
        .order_by("name")
    )


def list_channels(viewer: Actor, tenant: Tenant | None) -> QuerySet[NotificationChannel]:
    """Return the channels of a tenant or of the platform, with `unsent`, the number of pending notifications.

    Raises: NotFound, PermissionDenied.
    """
    require_view(viewer, tenant)
    return (
        NotificationChannel.unscoped.filter(tenant=tenant)
        .select_related("tenant")
        .annotate(unsent=Count("notifications", filter=Q(notifications__state="pending")))
        .order_by("name")
    )


def list_silences(viewer: Actor, tenant: Tenant | None) -> QuerySet[Silence]:
    """Return silences of a tenant or the platform, latest end first. Raises: NotFound, PermissionDenied."""
    require_view(viewer, tenant)
    rows = Silence.unscoped.filter(tenant=tenant).select_related("tenant", "rule", "created_by")
    return rows.order_by("-ends_at", "-pk")


def get_row(rows: QuerySet[Row], pk: uuid.UUID) -> Row:
    """Return the row of a list by its id. Raises: NotFound."""
    found = rows.filter(pk=pk).first()
    if found is None:
        raise NotFound(_("Not found."))
    return found
