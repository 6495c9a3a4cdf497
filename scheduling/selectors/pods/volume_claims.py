"""The volume claims that the jobs of a queue can mount, in each cluster in which they may run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from clusters.backends.base import BackendUnavailable, VolumeClaim
from clusters.backends.registry import backend_for
from clusters.models import Cluster, ClusterHealth
from foundation.core.actor import Actor
from quotas.models import Queue
from tenants.access import permissions
from tenants.access.permissions import Permission

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterClaims:
    """The volume claims of a workspace in one cluster; None where the cluster did not list them."""

    cluster: str
    claims: Sequence[VolumeClaim] | None


def volume_claims(*, viewer: Actor, queue: Queue) -> list[ClusterClaims]:
    """Return the volume claims of the workspace of a queue in the clusters of its pools, by name.

    Clusters are asked now, but for those that are known to be unreachable. Raises: NotFound; PermissionDenied
    without the right to submit jobs, which may mount any of them.
    """
    permissions.require_permission(viewer, Permission.JOB_SUBMIT, queue.workspace)
    pools = queue.queue_flavors.select_related("flavor__cluster")
    clusters = {row.flavor.cluster_id: row.flavor.cluster for row in pools}
    ordered = sorted(clusters.values(), key=lambda cluster: cluster.name)
    return [ClusterClaims(cluster.name, _read_claims(cluster, queue)) for cluster in ordered]


def _read_claims(cluster: Cluster, queue: Queue) -> list[VolumeClaim] | None:
    if cluster.health == ClusterHealth.UNREACHABLE:
        return None
    workspace = queue.workspace
    try:
        return backend_for(cluster).list_volume_claims(workspace.slug, str(workspace.pk))
    except BackendUnavailable as error:
        log.warning("volume claims can't be listed", cluster=cluster.name, error=str(error))
        return None
