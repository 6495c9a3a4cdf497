"""Bodies of the REST resources of alerts."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from alerts.delivery.templates import BODY_MAX, TITLE_MAX, VARIABLES
from alerts.metrics.catalogue import METRICS
from alerts.metrics.promql import QUERY_MAX
from alerts.models import AlertSeverity, AlertState, ChannelKind, Comparison, RuleError
from alerts.models.rule import DURATION_MAX_S
from alerts.selectors.alerts import CHANNEL_COLUMNS, COLUMNS, RULE_COLUMNS, SILENCE_COLUMNS
from alerts.selectors.notify_status import NotifyStatus, read_notify_status
from alerts.services.channel import ADDRESS_MAX
from alerts.services.rule import REPEAT_MIN_S
from tenants.api.requests.bodies import StrictSerializer
from tenants.api.requests.query import ListQuery

_METRICS = [metric.name for metric in METRICS]


class AlertSerializer(serializers.Serializer[Any]):
    """An alert: one subject for which the condition of a rule holds or held."""

    id = serializers.UUIDField()
    rule = serializers.UUIDField(source="rule_id", allow_null=True, help_text="null: the rule was deleted.")
    rule_name = serializers.CharField()
    tenant = serializers.CharField(
        source="tenant.slug",
        default=None,
        allow_null=True,
        help_text="Workspace or folder; null: not about a tenant.",
    )
    cluster = serializers.CharField(
        source="cluster_name", allow_null=True, help_text="null: not about a single cluster."
    )
    metric = serializers.CharField()
    comparison = serializers.ChoiceField(choices=Comparison.choices)
    threshold = serializers.FloatField()
    severity = serializers.ChoiceField(choices=AlertSeverity.choices)
    subject = serializers.CharField(help_text="Stable key within the metric.")
    subject_name = serializers.CharField(source="label")
    path = serializers.CharField(help_text="Page in the console; empty if there is none.")
    value = serializers.FloatField(allow_null=True, help_text="Last known value.")
    state = serializers.ChoiceField(choices=AlertState.choices)
    suppressed = serializers.ChoiceField(
        choices=["", "silenced", "inhibited"], help_text="Why a firing alert sends no notifications."
    )
    notify_status = serializers.SerializerMethodField(
        help_text="Outcome of the notifications over all channels of the rule. null: not fired yet."
    )
    started_at = serializers.DateTimeField(help_text="The condition holds since then.")
    fired_at = serializers.DateTimeField(allow_null=True)
    resolved_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.ChoiceField(choices=NotifyStatus.choices, allow_null=True))
    def get_notify_status(self, alert: Any) -> str | None:
        """Return the status of the alert's notifications."""
        return read_notify_status(alert)


class RuleSerializer(serializers.Serializer[Any]):
    """An alert rule."""

    id = serializers.UUIDField()
    version = serializers.IntegerField(help_text="Version; equals the ETag.")
    name = serializers.CharField()
    metric = serializers.ChoiceField(choices=_METRICS)
    query = serializers.CharField(help_text="PromQL, for the metric `promql.value`.")
    cluster = serializers.CharField(
        source="cluster.name", default=None, allow_null=True, help_text="null: all clusters."
    )
    comparison = serializers.ChoiceField(choices=Comparison.choices)
    threshold = serializers.FloatField()
    hold_s = serializers.IntegerField()
    resolve_s = serializers.IntegerField()
    repeat_s = serializers.IntegerField(allow_null=True)
    severity = serializers.ChoiceField(choices=AlertSeverity.choices)
    enabled = serializers.BooleanField()
    channels = serializers.SerializerMethodField()
    firing = serializers.IntegerField(help_text="Alerts that fire.")
    pending = serializers.IntegerField(help_text="Alerts whose condition holds, but not for long enough.")
    evaluated_at = serializers.DateTimeField(allow_null=True)
    error = serializers.ChoiceField(
        choices=["", *RuleError.values],
        help_text="What went wrong at the last evaluation. `unreadable`, `no-source`, `source-disabled` and "
        "`no-values`: the rule isn't evaluated. With the first three its alerts stay unchanged.",
    )
    error_since = serializers.DateTimeField(
        allow_null=True,
        help_text="Since when the rule has this error or, of those with which it isn't evaluated, "
        "any of them. null: no error.",
    )
    unread_clusters = serializers.ListField(
        child=serializers.CharField(),
        help_text="Clusters that the last evaluation could not read, whose alerts stay unchanged, or that "
        "have no values.",
    )

    def get_channels(self, rule: Any) -> list[str]:
        """Return the names of the channels."""
        return sorted(channel.name for channel in rule.channels.all())


class RuleChangeSerializer(StrictSerializer):
    name = serializers.CharField(required=False, max_length=100)
    metric = serializers.ChoiceField(required=False, choices=_METRICS)
    query = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=QUERY_MAX,
        help_text="PromQL, for the metric `promql.value`. Empty for other metrics.",
    )
    cluster = serializers.CharField(
        required=False, allow_null=True, max_length=63, help_text="null: all clusters."
    )
    comparison = serializers.ChoiceField(required=False, choices=Comparison.choices)
    threshold = serializers.FloatField(required=False)
    hold_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=DURATION_MAX_S,
        help_text="Seconds for which the condition must hold before the alert fires.",
    )
    resolve_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=DURATION_MAX_S,
        help_text="Seconds for which the condition must not hold before the alert is resolved.",
    )
    repeat_s = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=REPEAT_MIN_S,
        max_value=DURATION_MAX_S,
        help_text="Seconds after which a firing alert is sent again. null: never.",
    )
    severity = serializers.ChoiceField(required=False, choices=AlertSeverity.choices)
    enabled = serializers.BooleanField(required=False)
    channels = serializers.ListField(
        required=False, max_length=20, child=serializers.CharField(max_length=100), help_text="Names."
    )


class RuleCreateSerializer(RuleChangeSerializer):
    name = serializers.CharField(max_length=100)
    metric = serializers.ChoiceField(choices=_METRICS)
    threshold = serializers.FloatField()


class ChannelSerializer(serializers.Serializer[Any]):
    """A notification channel. Address and secret are never returned."""

    id = serializers.UUIDField()
    version = serializers.IntegerField(help_text="Version; equals the ETag.")
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=ChannelKind.choices)
    language = serializers.ChoiceField(choices=settings.LANGUAGES)
    title_template = serializers.CharField()
    body_template = serializers.CharField()
    sends_job_watches = serializers.BooleanField(
        help_text="Also sends when watched jobs of the workspace start and end."
    )
    enabled = serializers.BooleanField()
    sent_at = serializers.DateTimeField(allow_null=True, help_text="Last message that was accepted.")
    failing_since = serializers.DateTimeField(allow_null=True)
    failures = serializers.IntegerField(help_text="Failed attempts in a row.")
    retry_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField()
    unsent = serializers.IntegerField(help_text="Notifications that wait for the channel.")


class ChannelChangeSerializer(StrictSerializer):
    name = serializers.CharField(required=False, max_length=100)
    address = serializers.CharField(
        required=False,
        max_length=ADDRESS_MAX,
        write_only=True,
        help_text="URL; email addresses or usernames, separated by commas.",
    )
    secret = serializers.CharField(
        required=False,
        max_length=200,
        allow_blank=True,
        write_only=True,
        help_text="Signing secret of a webhook, DingTalk or Lark robot.",
    )
    language = serializers.ChoiceField(required=False, choices=settings.LANGUAGES)
    title_template = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=TITLE_MAX,
        help_text=f"Variables in braces: {', '.join(VARIABLES)}. Empty: the usual title.",
    )
    body_template = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=BODY_MAX,
        help_text="Variables as in the title. Empty: the usual text.",
    )
    sends_job_watches = serializers.BooleanField(
        required=False,
        help_text="Also send when watched jobs start and end; only of a workspace. Templates don't apply.",
    )
    enabled = serializers.BooleanField(required=False)


class ChannelCreateSerializer(ChannelChangeSerializer):
    name = serializers.CharField(max_length=100)
    kind = serializers.ChoiceField(choices=ChannelKind.choices)
    address = serializers.CharField(
        max_length=ADDRESS_MAX, help_text="URL; email addresses or usernames, separated by commas."
    )


class ChannelTestSerializer(serializers.Serializer[Any]):
    accepted = serializers.BooleanField()
    error = serializers.CharField()


class SilenceSerializer(serializers.Serializer[Any]):
    """A silence: matching alerts send no notifications."""

    id = serializers.UUIDField()
    rule = serializers.CharField(source="rule.name", default=None, allow_null=True, help_text="null: all.")
    severity = serializers.CharField(help_text="As in a rule. Empty: all.")
    subject = serializers.CharField(help_text="Key or name of a subject. Empty: all.")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    comment = serializers.CharField()
    created_by = serializers.CharField(source="created_by.username")


class SilenceCreateSerializer(StrictSerializer):
    rule = serializers.CharField(
        required=False, allow_null=True, max_length=100, help_text="Name of a rule. null: all."
    )
    severity = serializers.ChoiceField(required=False, choices=AlertSeverity.choices)
    subject = serializers.CharField(required=False, allow_blank=True, max_length=300)
    starts_at = serializers.DateTimeField(required=False, help_text="Default: now.")
    ends_at = serializers.DateTimeField()
    comment = serializers.CharField(required=False, allow_blank=True, max_length=300)


class AlertsQuery(ListQuery):
    columns: ClassVar = COLUMNS


class RulesQuery(ListQuery):
    columns: ClassVar = RULE_COLUMNS


class ChannelsQuery(ListQuery):
    columns: ClassVar = CHANNEL_COLUMNS


class SilencesQuery(ListQuery):
    columns: ClassVar = SILENCE_COLUMNS
