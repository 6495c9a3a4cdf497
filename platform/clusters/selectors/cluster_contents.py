"""The nodes and GPUs of clusters, and the nodes whose GPUs can't be used yet."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import BooleanField, Count, ExpressionWrapper, Q

from clusters.gpu.nvidia import PRODUCT_LABEL
from clusters.models import Node
from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(slots=True)
class ClusterContents:
    """One cluster as it was last synced; nodes are listed by name.

    `unhealthy` are not ready or have an unhealthy GPU, `without_pool` have GPUs and no pool, and those of
    them in `unlabeled` lack the label that names the GPU model.
    """

    nodes: int = 0
    gpu_nodes: int = 0
    gpus: int = 0
    unhealthy: list[str] = field(default_factory=list)
    without_pool: list[str] = field(default_factory=list)
    unlabeled: list[str] = field(default_factory=list)


def cluster_contents(
    *, viewer: Actor, cluster_id: uuid.UUID | None = None
) -> Mapping[uuid.UUID, ClusterContents]:
    """Return the contents of all clusters, or of one, by id, in one query.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    nodes = Node.unscoped.filter(present=True)
    if cluster_id is not None:
        nodes = nodes.filter(cluster=cluster_id)
    counted = nodes.annotate(
        gpus=Count("devices"),
        unhealthy_gpus=Count("devices", filter=Q(devices__healthy=False)),
        labeled=ExpressionWrapper(Q(labels__has_key=PRODUCT_LABEL), output_field=BooleanField()),
    )
    columns = ("cluster_id", "name", "ready", "flavor_id", "gpus", "unhealthy_gpus", "labeled")
    found: defaultdict[uuid.UUID, ClusterContents] = defaultdict(ClusterContents)
    rows = counted.order_by("name").values_list(*columns)
    for cluster, name, ready, flavor, gpus, unhealthy, labeled in rows:
        contents = found[cluster]
        contents.nodes += 1
        contents.gpus += gpus
        contents.gpu_nodes += gpus > 0
        if unhealthy or not ready:
            contents.unhealthy.append(name)
        if gpus and flavor is None:
            contents.without_pool.append(name)
            if not labeled:
                contents.unlabeled.append(name)
    return found
