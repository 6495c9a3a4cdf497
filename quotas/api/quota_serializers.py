"""Wire format of the administration of quotas. Amounts in the resource's unit; null is unlimited."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from foundation.core.quantities import Resource
from quotas.api.serializers import QuotaRowSerializer
from quotas.models import QuotaChangeSource
from quotas.services.quota import Shrink
from quotas.services.quota_plan import AMOUNT_MAX
from quotas.services.quota_warnings import MORE_THAN_EXISTS, NO_JOB_STARTS
from tenants.api.requests.bodies import StrictSerializer

_RESOURCES = [resource.value for resource in Resource]


class LimitsSerializer(serializers.Serializer[Any]):
    nominal = serializers.IntegerField(allow_null=True)
    borrowing_limit = serializers.IntegerField(allow_null=True)
    lending_limit = serializers.IntegerField(allow_null=True)


class NodeQuotaSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="node.pk")
    parent = serializers.UUIDField(source="node.parent_id", allow_null=True)  # type: ignore[assignment]
    cell = serializers.CharField(source="node.cell.name")
    tenant = serializers.CharField(source="node.tenant.slug")
    name = serializers.CharField()
    queue = serializers.CharField(help_text="Empty for the tenant's own node.")
    version = serializers.IntegerField(source="node.version", help_text="Version; equals the ETag.")
    pending_jobs = serializers.IntegerField()
    pending_cards = serializers.IntegerField()
    quotas = QuotaRowSerializer(source="rows", many=True)


class QuotaNodeSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="pk")
    parent = serializers.UUIDField(source="parent_id", allow_null=True)  # type: ignore[assignment]
    cell = serializers.CharField(source="cell.name")
    tenant = serializers.CharField(source="tenant.slug")
    queue = serializers.SerializerMethodField(help_text="Empty for the tenant's own node.")
    version = serializers.IntegerField()

    def get_queue(self, node: Any) -> str:
        return str(node.queue.name) if node.is_queue else ""


class PlannedSerializer(serializers.Serializer[Any]):
    node = serializers.SerializerMethodField()
    cluster = serializers.CharField(source="flavor.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    resource = serializers.ChoiceField(choices=_RESOURCES)
    before = LimitsSerializer()
    after = LimitsSerializer()

    def get_node(self, change: Any) -> str:
        return str(self.context["names"][change.node.pk])


class DifferenceSerializer(serializers.Serializer[Any]):
    changes = serializers.SerializerMethodField()

    @extend_schema_field(PlannedSerializer(many=True))
    def get_changes(self, found: Any) -> Any:
        return PlannedSerializer(found.changes, many=True, context={"names": found.names}).data


class AmountSerializer(StrictSerializer):
    """One limit to set. Omitted fields are unchanged; null is unlimited."""

    cluster = serializers.CharField(
        default="", max_length=63, help_text="Required if several clusters have the flavor."
    )
    flavor = serializers.CharField(max_length=63)
    resource = serializers.ChoiceField(choices=_RESOURCES)
    nominal = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=AMOUNT_MAX, help_text="Includes all children."
    )
    borrowing_limit = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=AMOUNT_MAX
    )
    lending_limit = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=AMOUNT_MAX
    )


class ShrinkSerializer(StrictSerializer):
    """The fields that every change of quotas takes beside the limits."""

    reason = serializers.CharField(
        default="", allow_blank=True, max_length=500, help_text="Reason, shown in the change history."
    )
    shrink = serializers.ChoiceField(
        choices=[choice.value for choice in Shrink],
        required=False,
        allow_null=True,
        default=None,
        help_text=(
            "Required if usage exceeds the new quota: drain (preempt now) or let_run (reclaim on demand)."
        ),
    )


class QuotaPatchSerializer(ShrinkSerializer):
    amounts = AmountSerializer(many=True, allow_empty=False)
    on_top = serializers.BooleanField(
        default=False,
        help_text="Create new quota instead of taking it from the parent; platform admins only.",
    )


class ChangeSerializer(serializers.Serializer[Any]):
    node = serializers.UUIDField(source="node_id")
    tenant = serializers.CharField(source="node.tenant.slug")
    queue = serializers.SerializerMethodField()
    cluster = serializers.CharField(source="flavor.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    resource = serializers.ChoiceField(choices=_RESOURCES)
    before = serializers.SerializerMethodField()
    after = serializers.SerializerMethodField()

    def get_queue(self, change: Any) -> str:
        return str(change.node.queue.name) if change.node.is_queue else ""

    @extend_schema_field(LimitsSerializer)
    def get_before(self, change: Any) -> dict[str, int | None]:
        return _limits(change, "before")

    @extend_schema_field(LimitsSerializer)
    def get_after(self, change: Any) -> dict[str, int | None]:
        return _limits(change, "after")


def _limits(change: Any, when: str) -> dict[str, int | None]:
    return {
        "nominal": getattr(change, f"nominal_{when}"),
        "borrowing_limit": getattr(change, f"borrowing_{when}"),
        "lending_limit": getattr(change, f"lending_{when}"),
    }


class RevisionSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    by = serializers.CharField(source="actor_name")
    reason = serializers.CharField()
    source = serializers.ChoiceField(choices=QuotaChangeSource.choices)  # type: ignore[assignment]
    reverts = serializers.UUIDField(source="reverts_id", allow_null=True)
    reverted = serializers.SerializerMethodField(help_text="Whether a later revision reverted it.")
    changes = ChangeSerializer(many=True)

    def get_reverted(self, revision: Any) -> bool:
        return bool(revision.reverted_by.all())


class OverQuotaSerializer(serializers.Serializer[Any]):
    node = serializers.SerializerMethodField()
    resource = serializers.ChoiceField(source="key.resource", choices=_RESOURCES)
    reserved = serializers.IntegerField()
    limit = serializers.IntegerField()

    def get_node(self, over: Any) -> str:
        return str(self.context["names"][over.key.node_id])


class JobEffectSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="job_id")
    name = serializers.CharField()
    queue = serializers.CharField()
    cards = serializers.IntegerField()


class SeenSerializer(serializers.Serializer[Any]):
    jobs = JobEffectSerializer(many=True)
    others = serializers.IntegerField(help_text="Jobs of tenants that you can't view.")


class QuotaWarningSerializer(serializers.Serializer[Any]):
    code = serializers.ChoiceField(choices=[NO_JOB_STARTS, MORE_THAN_EXISTS])
    node = serializers.UUIDField(source="node_id")
    cluster = serializers.CharField(source="flavor.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    resources = serializers.ListField(child=serializers.CharField(), help_text="Resource names.")
    message = serializers.CharField()


class QuotaEffectSerializer(DifferenceSerializer):
    """The answer of a dry run, as of this moment."""

    over_quota = serializers.SerializerMethodField()
    reclaimed = SeenSerializer(help_text="Running jobs that would be preempted.")
    scaled_down = SeenSerializer(help_text="Running jobs that would lose tasks above their minimum.")
    started = SeenSerializer(
        help_text="Pending jobs that would start, at once or when the tasks they wait for have ended."
    )
    spared = SeenSerializer(help_text="Running jobs that would no longer be preempted.")
    delayed = SeenSerializer(help_text="Pending jobs that would start only without the change.")
    warnings = serializers.SerializerMethodField(help_text="Warnings that don't prevent the change.")
    left_out = serializers.IntegerField(help_text="Number of pending jobs that weren't evaluated.")
    timed_out = serializers.BooleanField(
        help_text=("The impact on jobs couldn't be calculated in time; the other fields are complete.")
    )

    @extend_schema_field(QuotaWarningSerializer(many=True))
    def get_warnings(self, found: Any) -> Any:
        return QuotaWarningSerializer(found.warnings, many=True).data

    @extend_schema_field(OverQuotaSerializer(many=True))
    def get_over_quota(self, found: Any) -> Any:
        return OverQuotaSerializer(found.over_quota, many=True, context={"names": found.names}).data
