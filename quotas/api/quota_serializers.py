"""Wire format of the administration of quotas. Amounts in the resource's unit; null is unlimited."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from foundation.quantities import Resource

_RESOURCES = [resource.value for resource in Resource]


class LimitsSerializer(serializers.Serializer[Any]):
    nominal = serializers.IntegerField(allow_null=True)
    borrowing_limit = serializers.IntegerField(allow_null=True)
    lending_limit = serializers.IntegerField(allow_null=True)


class QuotaLineSerializer(LimitsSerializer):
    cluster = serializers.CharField(source="flavor.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    resource = serializers.ChoiceField(choices=_RESOURCES)
    nominal = serializers.IntegerField(allow_null=True, help_text="What the node has: kept and given.")
    kept = serializers.IntegerField(allow_null=True, help_text="What it keeps for all below it to share.")
    given = serializers.IntegerField(allow_null=True, help_text="What its children have together.")
    allocated = serializers.IntegerField()
    borrowed = serializers.IntegerField(help_text="Part of what is allocated, from outside of the node.")
    lent = serializers.IntegerField(help_text="Of its own, held by others now.")


class NodeQuotaSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="node.pk")
    parent = serializers.UUIDField(source="node.parent_id", allow_null=True)  # type: ignore[assignment]
    cell = serializers.CharField(source="node.cell.name")
    tenant = serializers.CharField(source="node.tenant.slug")
    name = serializers.CharField()
    queue = serializers.CharField(help_text="Empty on the node of the tenant itself.")
    version = serializers.IntegerField(source="node.version", help_text="The ETag names it.")
    pending_jobs = serializers.IntegerField()
    pending_cards = serializers.IntegerField()
    quotas = QuotaLineSerializer(source="lines", many=True)


class QuotaNodeSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="pk")
    parent = serializers.UUIDField(source="parent_id", allow_null=True)  # type: ignore[assignment]
    cell = serializers.CharField(source="cell.name")
    tenant = serializers.CharField(source="tenant.slug")
    queue = serializers.SerializerMethodField(help_text="Empty on the node of the tenant itself.")
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

    def get_changes(self, found: Any) -> list[dict[str, Any]]:
        return list(PlannedSerializer(found.changes, many=True, context={"names": found.names}).data)
