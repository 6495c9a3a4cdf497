"""Wire format of requests of quota."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers

from foundation.core.quantities import Resource
from quotas.api.quota_serializers import AmountSerializer, LimitsSerializer
from quotas.models import RequestState
from tenants.api.requests.bodies import StrictSerializer

_RESOURCES = [resource.value for resource in Resource]


class CurrentSerializer(LimitsSerializer):
    cluster = serializers.CharField()
    flavor = serializers.CharField()
    resource = serializers.ChoiceField(choices=_RESOURCES)


class WantedSerializer(serializers.Serializer[Any]):
    """Limits to change; omitted limits are unchanged."""

    cluster = serializers.CharField()
    flavor = serializers.CharField()
    resource = serializers.ChoiceField(choices=_RESOURCES)
    nominal = serializers.IntegerField(required=False, allow_null=True)
    borrowing_limit = serializers.IntegerField(required=False, allow_null=True)
    lending_limit = serializers.IntegerField(required=False, allow_null=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return dict(instance)


class PendingEvidenceSerializer(serializers.Serializer[Any]):
    jobs = serializers.IntegerField()
    cards = serializers.IntegerField()


class UseEvidenceSerializer(serializers.Serializer[Any]):
    missing = serializers.CharField(required=False, help_text="Reason for missing data.")
    gpu_hours = serializers.DictField(child=serializers.FloatField(), required=False, help_text="Per flavor.")
    total_gpu_hours = serializers.FloatField(required=False)
    mean_gpus = serializers.FloatField(required=False, help_text="Average over all days.")
    since = serializers.DateTimeField(required=False, help_text="Start of the available data.")


class IdleEvidenceSerializer(serializers.Serializer[Any]):
    missing = serializers.CharField(required=False, help_text="Reason for missing data.")
    measured_gpu_hours = serializers.FloatField(required=False)
    idle_gpu_hours = serializers.FloatField(required=False)


class EvidenceSerializer(serializers.Serializer[Any]):
    """The evidence as of the moment of asking."""

    at = serializers.DateTimeField()
    days = serializers.IntegerField(help_text="Number of days covered.")
    pending = PendingEvidenceSerializer()
    use = UseEvidenceSerializer()
    idle = IdleEvidenceSerializer()

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return dict(instance)


class QuotaRequestSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    version = serializers.IntegerField(help_text="Version; equals the ETag.")
    created_at = serializers.DateTimeField()
    node = serializers.UUIDField(source="node_id")
    cell = serializers.CharField(source="node.cell.name")
    tenant = serializers.CharField(source="node.tenant.slug", help_text="Workspace or folder.")
    queue = serializers.SerializerMethodField(help_text="Empty for the workspace's own quota.")
    by = serializers.CharField(source="asker.username")
    reason = serializers.CharField()
    state = serializers.ChoiceField(choices=RequestState.choices)
    asked = WantedSerializer(many=True)
    current = CurrentSerializer(many=True, help_text="Quota at the time of the request.")
    offer = WantedSerializer(source="counter", many=True, help_text="Proposed amounts, if any.")
    until = serializers.DateTimeField(allow_null=True, help_text="null: permanent.")
    expires_at = serializers.DateTimeField()
    evidence = EvidenceSerializer()
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    answer = serializers.CharField(help_text="Comment of the approver.")
    closed_at = serializers.DateTimeField(allow_null=True)
    revision = serializers.UUIDField(source="revision_id", allow_null=True)
    loan = serializers.UUIDField(source="override_id", allow_null=True)

    def get_queue(self, request: Any) -> str:
        return str(request.node.queue.name) if request.node.is_queue else ""


class _AskSerializer(StrictSerializer):
    amounts = AmountSerializer(many=True, allow_empty=False)
    reason = serializers.CharField(max_length=2000)
    until = serializers.DateTimeField(
        required=False,
        allow_null=True,
        default=None,
        help_text="End of the temporary quota; null: permanent.",
    )
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, default=None, help_text="Expiry of the request. Default: in 14 days."
    )

    def validate_amounts(self, amounts: Any) -> Any:
        return check_count(amounts)


class QuotaRequestCreateSerializer(_AskSerializer):
    queue = serializers.CharField(
        default="", allow_blank=True, max_length=63, help_text="Empty for the workspace's own quota."
    )
    cell = serializers.CharField(
        default="", allow_blank=True, max_length=63, help_text="Required if there are several."
    )


class NodeRequestCreateSerializer(_AskSerializer):
    """Request for any quota node, including folders, by its ID."""

    node = serializers.UUIDField(help_text="Target quota node; see `admin/quotas`.")


class AnswerSerializer(StrictSerializer):
    answer = serializers.CharField(default="", allow_blank=True, max_length=2000)


class RejectSerializer(StrictSerializer):
    answer = serializers.CharField(max_length=2000, help_text="Reason.")


class OfferSerializer(AnswerSerializer):
    offer = AmountSerializer(many=True, allow_empty=False)

    def validate_offer(self, offer: Any) -> Any:
        return check_count(offer)


class EmptySerializer(StrictSerializer):
    """An empty body."""


def check_count(amounts: Any) -> Any:
    """Check that there are no more amounts than a user would enter. Raises: ValidationError."""
    if len(amounts) > 100:
        raise serializers.ValidationError(_("Maximum: 100 at a time."), code="too_many")
    return amounts


class InboxRequestSerializer(QuotaRequestSerializer):
    may_decide = serializers.SerializerMethodField(help_text="Whether you can review the request.")

    def get_may_decide(self, request: Any) -> bool:
        return bool(request.may_decide)
