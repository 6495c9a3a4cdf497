"""Alert rules: the conditions under which an alert fires."""

from __future__ import annotations

from typing import ClassVar, Final

from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from alerts.models.channel import NotificationChannel
from clusters.models import Cluster
from foundation.models import BaseModel, Versioned
from tenants.models import Tenant

DURATION_MAX_S = 7 * 24 * 3600


class AlertSeverity(models.TextChoices):
    CRITICAL = "critical", _("Critical")
    WARNING = "warning", _("Warning")
    INFO = "info", _("Info")


class Comparison(models.TextChoices):
    ABOVE = "above", _("More than")
    BELOW = "below", _("Less than")


class RuleError(models.TextChoices):
    UNREADABLE = "unreadable", _("The metric couldn't be read.")
    PARTLY_UNREADABLE = "partly-unreadable", _("Some clusters couldn't be read.")
    NO_SOURCE = "no-source", _("No Prometheus server is configured as a data source.")
    SOURCE_DISABLED = "source-disabled", _("The Prometheus data source is disabled.")
    PARTLY_WITHOUT_SOURCE = "partly-without-source", _("Some clusters have no enabled data source.")
    NO_VALUES = (
        "no-values",
        _("No GPU, node or cluster has a current value. Check data sources and node agents."),
    )
    PARTLY_WITHOUT_VALUES = "partly-without-values", _("Some clusters have no current values.")
    TOO_MANY = "too-many", _("More than 1,000 subjects meet the condition. The others have no alert.")


UNEVALUATED: Final = (
    *(RuleError.UNREADABLE, RuleError.NO_SOURCE),
    *(RuleError.SOURCE_DISABLED, RuleError.NO_VALUES),
)
"""Errors with which no subject of the rule is evaluated."""


class AlertRule(Versioned, BaseModel):
    """A condition on a metric of `alerts.metrics`, checked for every subject that the metric has.

    `query` is set for a metric with queries.

    Without a tenant the rule belongs to the platform and covers all subjects; with one it covers the subjects
    of that tenant and of those below. `hold_s`: how long the condition must hold before the alert fires;
    `resolve_s`: how long it must not hold before the alert is resolved. `repeat_s`: a firing alert is sent
    again after that time (None: never). `error` is the error of the last evaluation, which has lasted since
    `error_since`; `unread_clusters` names the clusters that it could not read or that have no values.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="alert_rules"
    )
    cluster = models.ForeignKey(
        Cluster, on_delete=models.CASCADE, null=True, blank=True, related_name="alert_rules"
    )
    name = models.CharField(max_length=100)
    metric = models.CharField(max_length=60)
    query = models.CharField(max_length=1000, blank=True, default="", db_default="")
    comparison = models.CharField(max_length=5, choices=Comparison.choices, default=Comparison.ABOVE)
    threshold = models.FloatField()
    hold_s = models.PositiveIntegerField(default=0, validators=[MaxValueValidator(DURATION_MAX_S)])
    resolve_s = models.PositiveIntegerField(default=120, validators=[MaxValueValidator(DURATION_MAX_S)])
    repeat_s = models.PositiveIntegerField(
        null=True, blank=True, validators=[MaxValueValidator(DURATION_MAX_S)]
    )
    severity = models.CharField(max_length=10, choices=AlertSeverity.choices, default=AlertSeverity.WARNING)
    enabled = models.BooleanField(default=True)
    channels = models.ManyToManyField(
        NotificationChannel, through="alerts.RuleChannel", blank=True, related_name="rules"
    )
    evaluated_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=25, choices=RuleError.choices, blank=True, default="")
    error_since = models.DateTimeField(null=True, blank=True)
    unread_clusters = models.JSONField(
        default=list, db_default=models.Value([], models.JSONField()), blank=True
    )

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="alert_rule_name_once_per_tenant"),
            models.UniqueConstraint(
                fields=["name"], condition=Q(tenant__isnull=True), name="alert_rule_name_once_on_platform"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class RuleChannel(BaseModel):
    """A channel that a rule notifies. A model of its own, so that row-level security covers the table."""

    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="+")
    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="+")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["rule", "channel"], name="rule_channel_once"),
        ]

    def __str__(self) -> str:
        return f"{self.rule_id} {self.channel_id}"
