"""Alerts that fire or have fired, and silences."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from alerts.models.rule import AlertRule, AlertSeverity, Comparison
from foundation.models import BaseModel
from tenants.models import Tenant


class AlertState(models.TextChoices):
    PENDING = "pending", _("Not yet firing")
    FIRING = "firing", _("Firing")
    RESOLVED = "resolved", _("Resolved")


class Alert(BaseModel):
    """One subject for which the condition of a rule holds or held.

    The facts of the rule are those of the last evaluation, so that the history stays true if the rule is
    changed or deleted. `subject` is the key of the subject within its metric. `tenant` is the workspace of
    the subject, empty for nodes, GPUs, clusters and the platform. `clear_since`: the condition has not held
    since then. A resolved row never changes again.
    """

    rule = models.ForeignKey(AlertRule, on_delete=models.SET_NULL, null=True, related_name="alerts")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="alerts")
    cluster_id = models.UUIDField(null=True, blank=True)
    rule_name = models.CharField(max_length=100)
    metric = models.CharField(max_length=60)
    comparison = models.CharField(max_length=5, choices=Comparison.choices)
    threshold = models.FloatField()
    severity = models.CharField(max_length=10, choices=AlertSeverity.choices)
    subject = models.CharField(max_length=200)
    label = models.CharField(max_length=300)
    path = models.CharField(max_length=300, blank=True, default="")
    value = models.FloatField(null=True)
    state = models.CharField(max_length=10, choices=AlertState.choices, default=AlertState.PENDING)
    started_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    clear_since = models.DateTimeField(null=True, blank=True)
    suppressed = models.CharField(max_length=10, blank=True, default="")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["rule", "subject"],
                condition=~Q(state=AlertState.RESOLVED),
                name="alert_once_per_subject",
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["state", "-started_at"], name="alert_by_state_and_time"),
            models.Index(fields=["tenant", "state", "-started_at"], name="alert_by_tenant_and_time"),
        ]

    def __str__(self) -> str:
        return f"{self.rule_name}: {self.label}"


class Silence(BaseModel):
    """A time in which matching alerts send no notifications; they are still shown.

    Empty conditions match everything that the tenant's rules cover. `subject` must equal the key or the label
    of an alert.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="silences"
    )
    rule = models.ForeignKey(
        AlertRule, on_delete=models.CASCADE, null=True, blank=True, related_name="silences"
    )
    severity = models.CharField(max_length=10, choices=AlertSeverity.choices, blank=True, default="")
    subject = models.CharField(max_length=300, blank=True, default="")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    comment = models.CharField(max_length=300, blank=True, default="")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="silences"
    )

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(ends_at__gt=models.F("starts_at")), name="silence_ends_later")
        ]

    def __str__(self) -> str:
        return self.comment or str(self.pk)
