"""The content of a cluster, and what it lacks before its GPUs can be used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters.gpu.nvidia import PRODUCT_LABEL
from clusters.models import BackendKind, Cluster, ClusterHealth
from clusters.selectors.cluster_contents import ClusterContents, cluster_contents
from clusters.selectors.flavor import FlavorRow, flavor_list
from clusters.services.flavor import FlavorPlan, flavors_found
from foundation.core.actor import Actor
from frontend.components.view_models import Check

_NAMED = 5


@dataclass(frozen=True, slots=True)
class ClusterFound:
    """The nodes and GPUs of a cluster, its pools, those that its labels propose, and what is missing."""

    nodes: int
    gpus: int
    pools: Sequence[FlavorRow]
    proposed: Sequence[FlavorPlan]
    checks: Sequence[Check]

    @property
    def is_complete(self) -> bool:
        """Return whether no check failed."""
        return all(check.passed is not False for check in self.checks)


def read_clusters(viewer: Actor, clusters: Sequence[Cluster]) -> list[ClusterFound]:
    """Return what was found in each cluster when it was last synced. Raises: PermissionDenied."""
    only = clusters[0].pk if len(clusters) == 1 else None
    contents = cluster_contents(viewer=viewer, cluster_id=only)
    pools: defaultdict[str, list[FlavorRow]] = defaultdict(list)
    for row in flavor_list(viewer=viewer):
        pools[row.cluster].append(row)
    return [
        _describe(viewer, cluster, contents.get(cluster.pk, ClusterContents()), pools[cluster.name])
        for cluster in clusters
    ]


def _describe(
    viewer: Actor, cluster: Cluster, contents: ClusterContents, pools: Sequence[FlavorRow]
) -> ClusterFound:
    proposed = flavors_found(acting_user=viewer, cluster=cluster) if contents.without_pool else []
    checks = [_connection(cluster), _permissions(cluster), _gpus(contents), _health(contents)]
    checks.append(_pools(contents, proposed))
    return ClusterFound(contents.nodes, contents.gpus, pools, proposed, checks)


def _connection(cluster: Cluster) -> Check:
    reachable = cluster.health in (ClusterHealth.HEALTHY, ClusterHealth.UNKNOWN)
    text = _("Reachable") if reachable else cluster.health_message or _("The cluster is unreachable.")
    return Check(title=_("Connection"), text=text, passed=reachable)


def _permissions(cluster: Cluster) -> Check:
    missing = cluster.missing_permissions
    text = _("No permission is missing.")
    if missing is None:
        text = _("Not checked yet.")
    elif missing:
        text = _("Missing: %(permissions)s. Apply deploy/kubernetes/access.yaml again.")
        if cluster.backend == BackendKind.KUEUE:
            text = _("Missing: %(permissions)s. Apply access.yaml and kueue.yaml of deploy/kubernetes again.")
        text %= {"permissions": ", ".join(missing)}
    passed = None if missing is None else not missing
    return Check(title=_("Permissions"), text=text, passed=passed)


def _gpus(contents: ClusterContents) -> Check:
    if contents.gpus:
        words = {"gpus": contents.gpus, "nodes": contents.gpu_nodes}
        text = ngettext(
            "%(gpus)s GPUs on %(nodes)s node", "%(gpus)s GPUs on %(nodes)s nodes", contents.gpu_nodes
        )
        return Check(title=_("GPUs"), text=text % words, passed=True)
    text = _("No nodes found.")
    if contents.nodes:
        text = _("No GPUs found. Check that the device plugin runs on the GPU nodes.")
    return Check(title=_("GPUs"), text=text, passed=False)


def _health(contents: ClusterContents) -> Check:
    text = _("All nodes are ready and all GPUs healthy.")
    if contents.unhealthy:
        text = _("Not ready, or with unhealthy GPUs: %(nodes)s") % {"nodes": _names(contents.unhealthy)}
    return Check(title=_("Health"), text=text, passed=not contents.unhealthy)


def _pools(contents: ClusterContents, proposed: Sequence[FlavorPlan]) -> Check:
    text, named = _("All GPU nodes belong to a pool."), contents.without_pool
    if not contents.gpu_nodes:
        text = _("No GPU nodes.")
    elif proposed:
        text = _("GPU nodes without a pool: %(nodes)s. Create the proposed pools.")
    elif contents.unlabeled:
        named = contents.unlabeled
        text = _("No label %(label)s on %(nodes)s. Install GPU feature discovery, or add the pool by CLI.")
    elif contents.without_pool:
        text = _("GPU nodes without a pool: %(nodes)s. Add the pool by CLI.")
    done = bool(contents.gpu_nodes) and not contents.without_pool
    words = {"label": PRODUCT_LABEL, "nodes": _names(named)}
    return Check(title=_("Pools"), text=text % words, passed=done)


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" +{more}" if more > 0 else "")
