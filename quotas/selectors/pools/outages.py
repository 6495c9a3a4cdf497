"""Clusters that do not answer, as far as they concern a reader."""

from __future__ import annotations

from typing import Final

from clusters.models import Cluster, ClusterHealth
from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from quotas.models import QueueFlavor
from quotas.selectors.sight import quota_tenants
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

# Every page of the console asks.
_STALE: Final = PreparedQuery(
    lambda: Cluster.unscoped.filter(health__in=(ClusterHealth.UNREACHABLE, ClusterHealth.DISOWNED)).order_by(
        "name", "pk"
    )
)


def stale_clusters_of(viewer: Actor, *, workspace: Tenant | None = None) -> list[Cluster]:
    """Return the clusters of unknown present state whose pools the workspace's queues use.

    Without a workspace: those of all queues whose quota the viewer may see, and all such clusters for a
    viewer who may view clusters. The caller has checked that the viewer sees the workspace.
    """
    if not (stale := _STALE()):
        return []
    if workspace is None and permissions.has_permission(viewer, Permission.CLUSTER_VIEW):
        return stale
    used = QueueFlavor.unscoped.filter(queue__closed_at=None, flavor__cluster__in=stale)
    if workspace is not None:
        used = used.filter(queue__workspace=workspace)
    else:
        seen = permissions.visible_workspace_ids(viewer)
        used = used.filter(queue__workspace__in=seen).filter(queue__workspace__in=quota_tenants(viewer))
    ids = set(used.values_list("flavor__cluster_id", flat=True))
    return [cluster for cluster in stale if cluster.pk in ids]
