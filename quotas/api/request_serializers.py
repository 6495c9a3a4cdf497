"""Wire format of requests of quota."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers

from foundation.core.quantities import Resource
from quotas.api.quota_serializers import AmountSerializer, LimitsSerializer
from quotas.models import RequestState
from tenants.api.bodies import StrictSerializer

_RESOURCES = [resource.value for resource in Resource]


class CurrentSerializer(LimitsSerializer):
    cluster = serializers.CharField()
    flavor = serializers.CharField()
    resource = serializers.ChoiceField(choices=_RESOURCES)


class WantedSerializer(serializers.Serializer[Any]):
    """Limits that are to change; those that are left out stay."""

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
    missing = serializers.CharField(required=False, help_text="Why there is nothing to tell.")
    gpu_hours = serializers.DictField(child=serializers.FloatField(), required=False, help_text="By flavor.")
    total_gpu_hours = serializers.FloatField(required=False)
    mean_gpus = serializers.FloatField(required=False, help_text="Over all of the days.")
    since = serializers.DateTimeField(required=False, help_text="From when on the database knows.")


class IdleEvidenceSerializer(serializers.Serializer[Any]):
    missing = serializers.CharField(required=False, help_text="Why there is nothing to tell.")
    measured_gpu_hours = serializers.FloatField(required=False)
    idle_gpu_hours = serializers.FloatField(required=False)


class EvidenceSerializer(serializers.Serializer[Any]):
    """The evidence as of the moment of asking."""

    at = serializers.DateTimeField()
    days = serializers.IntegerField(help_text="How far use and idleness look back.")
    pending = PendingEvidenceSerializer()
    use = UseEvidenceSerializer()
    idle = IdleEvidenceSerializer()

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return dict(instance)


class QuotaRequestSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    version = serializers.IntegerField(help_text="The ETag names it.")
    created_at = serializers.DateTimeField()
    node = serializers.UUIDField(source="node_id")
    cell = serializers.CharField(source="node.cell.name")
    workspace = serializers.CharField(source="node.tenant.slug")
    queue = serializers.SerializerMethodField(help_text="Empty for the quota of the workspace itself.")
    by = serializers.CharField(source="asker.username")
    reason = serializers.CharField()
    state = serializers.ChoiceField(choices=RequestState.choices)
    asked = WantedSerializer(many=True)
    current = CurrentSerializer(many=True, help_text="What there was when it was asked.")
    offer = WantedSerializer(source="counter", many=True, help_text="The counter-offer, if one was made.")
    until = serializers.DateTimeField(allow_null=True, help_text="null: for good.")
    expires_at = serializers.DateTimeField()
    evidence = EvidenceSerializer()
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    answer = serializers.CharField(help_text="What was said with the decision.")
    closed_at = serializers.DateTimeField(allow_null=True)
    revision = serializers.UUIDField(source="revision_id", allow_null=True)
    loan = serializers.UUIDField(source="override_id", allow_null=True)

    def get_queue(self, request: Any) -> str:
        return str(request.node.queue.name) if request.node.is_queue else ""


class _AskSerializer(StrictSerializer):
    amounts = AmountSerializer(many=True, allow_empty=False)
    reason = serializers.CharField(max_length=2000)
    until = serializers.DateTimeField(
        required=False, allow_null=True, default=None, help_text="Then it returns; null: for good."
    )
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, default=None, help_text="14 days from now, or sooner or later."
    )

    def validate_amounts(self, amounts: Any) -> Any:
        return check_count(amounts)


class QuotaRequestCreateSerializer(_AskSerializer):
    queue = serializers.CharField(
        default="", allow_blank=True, max_length=63, help_text="Empty: for the workspace."
    )
    cell = serializers.CharField(
        default="", allow_blank=True, max_length=63, help_text="Where it has several."
    )


class NodeRequestCreateSerializer(_AskSerializer):
    """The same for any node, a folder's among them, named by its id."""

    node = serializers.UUIDField(help_text="The quota node that is to have more; see `admin/quotas`.")


class AnswerSerializer(StrictSerializer):
    answer = serializers.CharField(default="", allow_blank=True, max_length=2000)


class RejectSerializer(StrictSerializer):
    answer = serializers.CharField(max_length=2000, help_text="Why.")


class OfferSerializer(AnswerSerializer):
    offer = AmountSerializer(many=True, allow_empty=False)

    def validate_offer(self, offer: Any) -> Any:
        return check_count(offer)


class EmptySerializer(StrictSerializer):
    """An empty body."""


def check_count(amounts: Any) -> Any:
    """No more amounts than a person writes. Raises: ValidationError."""
    if len(amounts) > 100:
        raise serializers.ValidationError(_("At most 100 at once."), code="too_many")
    return amounts


class InboxRequestSerializer(QuotaRequestSerializer):
    may_decide = serializers.SerializerMethodField(help_text="Whether you may decide about it.")

    def get_may_decide(self, request: Any) -> bool:
        return bool(request.may_decide)
