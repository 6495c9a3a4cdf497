"""Wire format of clusters, nodes and cards. CPU in millicores, memory in MiB, cores in percent of a card."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from clusters.models import (
    BackendKind,
    Cell,
    Cluster,
    ClusterHealth,
    Device,
    GpuMode,
    PlacementPolicy,
    Sharing,
)
from clusters.models.node_cordon import REASON_LENGTH
from clusters.selectors import gpu_table, node_table
from clusters.selectors.node import CLUSTER_COLUMNS, get_open_cordon
from foundation.web.listing import Column, ColumnKind
from tenants.api.requests.bodies import StrictSerializer
from tenants.api.requests.query import ListQuery, QuerySerializer
from tenants.api.responses.pages import format_timestamp


class CellQuery(ListQuery):
    columns: ClassVar = {
        "name": Column("name"),
        "sharing": Column("sharing"),
        "last_cycle_at": Column("last_cycle_at", ColumnKind.TIME),
    }


class ClusterQuery(ListQuery):
    columns: ClassVar = CLUSTER_COLUMNS


class FlavorQuery(ListQuery):
    columns: ClassVar = {
        "cluster": Column("cluster.name"),
        "name": Column("name"),
        "card_model": Column("card_model"),
        "gpu_mode": Column("gpu_mode"),
    }


class NodeListQuery(ListQuery):
    columns: ClassVar = node_table.COLUMNS

    cluster = serializers.CharField(required=False)
    flavor = serializers.CharField(required=False)
    name = serializers.CharField(required=False, help_text="Part of the name.")
    ready = serializers.BooleanField(required=False, allow_null=True, default=None)
    cordoned = serializers.BooleanField(required=False, allow_null=True, default=None)


class OneNodeQuery(QuerySerializer):
    cluster = serializers.CharField(
        required=False, help_text="Required if several clusters have a node with this name."
    )


class DeviceQuery(ListQuery):
    columns: ClassVar = gpu_table.COLUMNS

    cluster = serializers.CharField(required=False)
    node = serializers.CharField(required=False)
    model = serializers.CharField(required=False)
    uuid = serializers.CharField(required=False, help_text="Part of the UUID.")
    healthy = serializers.BooleanField(required=False, allow_null=True, default=None)


class CellSerializer(serializers.Serializer[Any]):
    """A scheduling domain: one quota tree, its clusters and their scheduling cycles."""

    name = serializers.CharField()
    sharing = serializers.ChoiceField(
        choices=Sharing.choices,
        help_text="Order of borrowing unused quota. `fair`: lowest tenant share first.",
    )
    clusters = serializers.SerializerMethodField(help_text="Names of its clusters.")
    last_cycle_at = serializers.DateTimeField(allow_null=True)

    def get_clusters(self, cell: Cell) -> list[str]:
        return sorted(cluster.name for cluster in cell.clusters.all())


class CellChangeSerializer(StrictSerializer):
    sharing = serializers.ChoiceField(choices=Sharing.choices)


class ClusterSerializer(serializers.Serializer[Any]):
    """A cluster without its connection, which can contain credentials."""

    name = serializers.CharField()
    cell = serializers.CharField(source="cell.name")
    backend = serializers.ChoiceField(choices=BackendKind.choices)
    health = serializers.ChoiceField(choices=ClusterHealth.choices)
    health_message = serializers.CharField()
    missing_permissions = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Permissions that Allotment's account lacks in the cluster; null while they are not known.",
    )
    observed_at = serializers.DateTimeField(allow_null=True)
    live_resize = serializers.BooleanField(
        help_text="Experimental: allow resizing GPU memory of running slices."
    )
    flavors = serializers.SerializerMethodField()

    def get_flavors(self, cluster: Cluster) -> list[str]:
        return sorted(flavor.name for flavor in cluster.flavors.all())


class ClusterChangeSerializer(StrictSerializer):
    live_resize = serializers.BooleanField()


class FlavorSerializer(serializers.Serializer[Any]):
    """A pool: nodes of one cluster with the same GPU model and mode."""

    cluster = serializers.CharField(source="cluster.name")
    name = serializers.CharField()
    card_model = serializers.CharField()
    card_memory_mib = serializers.IntegerField()
    gpu_mode = serializers.ChoiceField(choices=GpuMode.choices)
    cpu_per_gpu = serializers.IntegerField(
        allow_null=True, help_text="Millicores of quota that go with one GPU; null: ratio of the nodes."
    )
    memory_per_gpu = serializers.IntegerField(
        allow_null=True, help_text="MiB of quota that go with one GPU; null: ratio of the nodes."
    )
    placement = serializers.ChoiceField(
        source="placement_policy",
        choices=PlacementPolicy.choices,
        help_text="How nodes and GPUs are chosen for tasks.",
    )


class FlavorChangeSerializer(StrictSerializer):
    cpu_per_gpu = serializers.IntegerField(min_value=1, max_value=2**30, allow_null=True)
    memory_per_gpu = serializers.IntegerField(min_value=1, max_value=2**30, allow_null=True)
    placement = serializers.ChoiceField(choices=PlacementPolicy.choices, required=False)


class CardSerializer(serializers.Serializer[Any]):
    uuid = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    mode = serializers.ChoiceField(choices=GpuMode.choices)
    healthy = serializers.BooleanField()
    cores_capacity = serializers.IntegerField()
    cores_granted = serializers.IntegerField()
    memory_capacity = serializers.IntegerField()
    memory_granted = serializers.IntegerField()
    holders = serializers.IntegerField()
    cores_foreign = serializers.IntegerField(help_text="Used by pods outside Allotment.")
    memory_foreign = serializers.IntegerField()

    def to_representation(self, instance: Device) -> dict[str, Any]:
        return _card_row(instance)


def _card_row(card: Device) -> dict[str, Any]:
    """Return a card as `CardSerializer` describes it, whose fields would take ten times as long."""
    return {
        "uuid": card.uuid,
        "index": card.index,
        "model": card.model,
        "memory_mib": card.memory_mib,
        "mode": card.mode,
        "healthy": card.healthy,
        "cores_capacity": card.cores_capacity,
        "cores_granted": card.cores_granted,
        "memory_capacity": card.memory_capacity,
        "memory_granted": card.memory_granted,
        "holders": card.holders,
        "cores_foreign": card.cores_foreign,
        "memory_foreign": card.memory_foreign,
    }


class NodeCordonSerializer(serializers.Serializer[Any]):
    """A request made through Allotment: a cordon of the node, or an uncordon that is pending."""

    schedulable = serializers.BooleanField(help_text="`false`: cordon; `true`: uncordon.")
    drain = serializers.BooleanField(help_text="Jobs on the node are evicted after the cordon.")
    reason = serializers.CharField()
    requested_by = serializers.CharField()
    requested_at = serializers.DateTimeField()
    applied_at = serializers.DateTimeField(
        allow_null=True, help_text="When the cluster confirmed it; null while pending."
    )
    drained_at = serializers.DateTimeField(
        allow_null=True, help_text="When no job was left on the node; null while draining or without a drain."
    )


class CordonSerializer(StrictSerializer):
    reason = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=REASON_LENGTH,
        help_text="Shown to platform admins and kept in the audit log.",
    )


class NodeSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    cluster = serializers.CharField(source="cluster.name")
    flavor = serializers.CharField(source="flavor.name", default=None, allow_null=True)
    ready = serializers.BooleanField()
    cordoned = serializers.BooleanField()
    zone = serializers.CharField()
    rack = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    taints = serializers.ListField(child=serializers.DictField(child=serializers.CharField()))
    cpu_millicores = serializers.IntegerField()
    cpu_granted = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    memory_granted = serializers.IntegerField()
    cpu_foreign = serializers.IntegerField(help_text="Used by pods outside Allotment.")
    memory_foreign = serializers.IntegerField()
    pods = serializers.IntegerField(allow_null=True, help_text="Maximum number; null for unlimited.")
    pods_foreign = serializers.IntegerField()
    observed_at = serializers.DateTimeField(allow_null=True)
    cordon = serializers.SerializerMethodField(
        help_text="Null if nothing was requested through Allotment, as after `kubectl cordon`."
    )
    devices = CardSerializer(many=True, source="devices.all")

    @extend_schema_field(NodeCordonSerializer(allow_null=True))
    def get_cordon(self, node: Any) -> dict[str, Any] | None:
        row = get_open_cordon(node)
        return None if row is None else NodeCordonSerializer(row).data

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return {
            "id": str(instance.pk),
            "name": instance.name,
            "cluster": instance.cluster.name,
            "flavor": instance.flavor.name if instance.flavor else None,
            "ready": instance.ready,
            "cordoned": instance.cordoned,
            "zone": instance.zone,
            "rack": instance.rack,
            "labels": instance.labels,
            "taints": instance.taints,
            "cpu_millicores": instance.cpu_millicores,
            "cpu_granted": instance.cpu_granted,
            "memory_mib": instance.memory_mib,
            "memory_granted": instance.memory_granted,
            "cpu_foreign": instance.cpu_foreign,
            "memory_foreign": instance.memory_foreign,
            "pods": instance.pods,
            "pods_foreign": instance.pods_foreign,
            "observed_at": format_timestamp(instance.observed_at),
            "cordon": self.get_cordon(instance),
            "devices": [_card_row(card) for card in instance.devices.all()],
        }


class DeviceSerializer(CardSerializer):
    node = serializers.CharField(source="node.name")
    cluster = serializers.CharField(source="node.cluster.name")
    flavor = serializers.CharField(source="node.flavor.name", default=None, allow_null=True)

    def to_representation(self, instance: Device) -> dict[str, Any]:
        node = instance.node
        place = {"node": node.name, "cluster": node.cluster.name}
        return _card_row(instance) | place | {"flavor": node.flavor.name if node.flavor else None}
