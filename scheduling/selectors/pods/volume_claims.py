"""The volume claims that the jobs of a queue can mount, in each cluster in which they may run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from clusters.backends.base import BackendUnavailable, NamespaceNotOwned
from clusters.backends.registry import backend_for
from clusters.backends.volumes import VolumeClaim
from clusters.models import Cluster, ClusterHealth
from foundation.core.actor import Actor
from quotas.models import Queue
from tenants.access import permissions
from tenants.access.permissions import Permission

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterClaims:
    """The volume claims of a workspace in one cluster; None if the workspace has no namespace there.

    `listed` is False if the cluster is unreachable or refused; the claims are then not known.
    """

    cluster: str
    claims: Sequence[VolumeClaim] | None
    listed: bool = True


def volume_claims(*, viewer: Actor, queue: Queue) -> list[ClusterClaims]:
    """Return the volume claims of the workspace of a queue in the clusters of its pools, by name.

    The clusters are read now, except those that are known to be unreachable. Raises: NotFound;
    PermissionDenied without the right to submit jobs, because jobs may mount any of the claims.
    """
    permissions.require_permission(viewer, Permission.JOB_SUBMIT, queue.workspace)
    pools = queue.queue_flavors.select_related("flavor__cluster")
    clusters = {row.flavor.cluster_id: row.flavor.cluster for row in pools}
    ordered = sorted(clusters.values(), key=lambda cluster: cluster.name)
    return [_read_claims(cluster, queue) for cluster in ordered]


def _read_claims(cluster: Cluster, queue: Queue) -> ClusterClaims:
    unknown = ClusterClaims(cluster.name, None, listed=False)
    if cluster.health == ClusterHealth.UNREACHABLE:
        return unknown
    workspace = queue.workspace
    try:
        claims = backend_for(cluster).list_volume_claims(workspace.slug, str(workspace.pk))
    except NamespaceNotOwned:
        return ClusterClaims(cluster.name, None)
    except BackendUnavailable as error:
        log.warning("volume claims can't be listed", cluster=cluster.name, error=str(error))
        return unknown
    return ClusterClaims(cluster.name, claims)
