"""Simulated clusters: their creation with nodes, and their speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from clusters.backends.registry import backend_for
from clusters.backends.simulated import faults
from clusters.backends.simulated.seed import DEMO, NodeGroup, build_cluster
from clusters.backends.simulated.timeline import Timeline
from clusters.models import BackendKind, Cell, Cluster, SimulatedCluster
from clusters.services.cluster import name_taken_error
from clusters.services.inventory import inventory_sync
from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Refused
from foundation.messaging import outbox
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models.names import clean_slug


class SimulatedSize(StrEnum):
    """The nodes of a simulated cluster."""

    SMALL = "small"
    LARGE = "large"


_NODES: Final[Mapping[SimulatedSize, Sequence[NodeGroup]]] = {
    SimulatedSize.SMALL: (
        NodeGroup(prefix="gpu-a", nodes=2, cards=8, card_model="A100-40G", card_memory_mib=40_960),
    ),
    SimulatedSize.LARGE: DEMO,
}


@transaction.atomic
def simulated_cluster_add(
    *, acting_user: Actor, cell: Cell, name: str, size: SimulatedSize, speed: float = 60.0
) -> Cluster:
    """Add a cluster that exists in the database alone; `speed` is simulated seconds per second.

    Raises: PermissionDenied; Invalid for the name; Conflict if it is taken.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    name = clean_slug(name, field="name")
    cluster = Cluster(cell=cell, name=name, backend=BackendKind.SIMULATED)
    try:
        with transaction.atomic():
            cluster.save(force_insert=True)
    except IntegrityError as error:
        raise name_taken_error() from error
    build_cluster(cluster, node_groups=_NODES[size], speed=speed)
    after = {"name": name, "backend": BackendKind.SIMULATED.value, "size": size.value, "speed": speed}
    audit_log.record_action(acting_user, "cluster.add", entity="cluster", entity_id=cluster.pk, after=after)
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())
    outbox.add_hint(outbox.Topic.OBSERVE, cluster.pk)
    return cluster


@transaction.atomic
def simulated_speed_set(*, acting_user: Actor, cluster: Cluster, speed: float) -> None:
    """Set the speed of a simulated cluster from now on, in simulated seconds per second.

    Raises: PermissionDenied; Refused for another cluster; Invalid for a speed out of range.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    before = simulated_speed(cluster)
    if before is None:
        raise Refused(_("Only simulated clusters have a speed."), code="NOT_SIMULATED")
    faults.set_speed(cluster.pk, speed)
    audit_log.record_action(
        acting_user,
        "cluster.speed",
        entity="cluster",
        entity_id=cluster.pk,
        before={"speed": before},
        after={"speed": speed},
    )


def simulated_speed(cluster: Cluster) -> float | None:
    """Return the speed of a simulated cluster, None for any other."""
    row = SimulatedCluster.unscoped.filter(cluster=cluster).first()
    return None if row is None else Timeline.from_json(row.anchors).speed
