"""The outcome of the notifications of an alert."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Exists, ExpressionWrapper, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from alerts.models import Alert, AlertState, Notification, NotificationState, RuleChannel
from tenants.models import Tenant


class NotifyStatus(models.TextChoices):
    """The outcome of the notifications of an alert, over all channels of its rule."""

    SENT = "sent", _("Sent")
    PARTIAL = "partial", _("Partly sent")
    FAILED = "failed", _("Failed")
    PENDING = "pending", _("Unsent")
    SILENCED = "silenced", _("Silenced")
    INHIBITED = "inhibited", _("Inhibited")
    NOT_CONFIGURED = "not-configured", _("Not configured")


def with_notify_facts(rows: QuerySet[Alert], tenant: Tenant | None) -> QuerySet[Alert]:
    """Return alerts with the fields of `read_notify_status`, for a reader in a tenant or of the whole
    platform.

    The reader may not see the channels of rules of parents of the tenant.
    """
    is_own = Q(rule__tenant__path__startswith=tenant.path) if tenant is not None else Q(pk__isnull=False)
    own = Notification.unscoped.filter(alert=OuterRef("pk"))
    unsent = own.filter(state=NotificationState.PENDING)
    return rows.annotate(
        of_own_rule=ExpressionWrapper(is_own, output_field=models.BooleanField()),
        was_sent=Exists(own.filter(state=NotificationState.SENT)),
        is_failing=Exists(unsent.filter(channel__enabled=True, channel__failing_since__isnull=False)),
        has_channel=Exists(RuleChannel.unscoped.filter(rule=OuterRef("rule"), channel__enabled=True)),
    )


def read_notify_status(alert: Any) -> NotifyStatus | None:
    """Return the status of an alert of `with_notify_facts`; None for one that did not fire yet, and for a
    rule of a parent.

    A silenced alert has the status silenced, even if a channel was notified before. The status of a resolved
    alert counts the notifications that were sent.
    """
    if alert.state == AlertState.PENDING:
        return None
    if not alert.of_own_rule:
        is_suppressed = alert.suppressed and alert.state == AlertState.FIRING
        return NotifyStatus(alert.suppressed) if is_suppressed else None
    if alert.suppressed and (alert.state == AlertState.FIRING or not alert.was_sent):
        return NotifyStatus(alert.suppressed)
    if alert.is_failing:
        return NotifyStatus.PARTIAL if alert.was_sent else NotifyStatus.FAILED
    if alert.was_sent:
        return NotifyStatus.SENT
    return NotifyStatus.PENDING if alert.has_channel else NotifyStatus.NOT_CONFIGURED
