"""Reading the pods of others."""

from __future__ import annotations

import uuid

from django.db.models import Count

from clusters.models import Device, ForeignPod, Node
from foundation.actor import Actor
from tenants import permissions
from tenants.permissions import Permission


def foreign_cards_by_flavor(cell_id: uuid.UUID) -> dict[uuid.UUID, int]:
    """How many cards of a cell pods of others hold wholly or in part, by flavor."""
    held = Device.unscoped.filter(
        foreign_holders__gt=0, node__present=True, node__flavor__isnull=False, node__cluster__cell=cell_id
    )
    return dict(held.order_by().values_list("node__flavor").annotate(Count("id")))


def foreign_on_node(*, viewer: Actor, node: Node) -> list[ForeignPod]:
    """The pods of others on a node: those that hold cards first, then by namespace and name.

    Raises: PermissionDenied.
    """
    permissions.require(viewer, Permission.CLUSTER_VIEW)
    found = ForeignPod.unscoped.filter(cluster=node.cluster_id, node_name=node.name)
    return sorted(
        found, key=lambda pod: (not (pod.cards or pod.shares), pod.standing, pod.namespace, pod.name)
    )
