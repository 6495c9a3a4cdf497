"""The content of a cluster, and what it lacks before its GPUs can be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters.gpu.nvidia import PRODUCT_LABEL
from clusters.models import Cluster, ClusterHealth, Node
from clusters.selectors.flavor import FlavorRow, flavor_list
from clusters.selectors.node import NodeFilter, node_list
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
        """Tell whether nothing is missing."""
        return all(check.passed for check in self.checks)


def read_cluster(viewer: Actor, cluster: Cluster) -> ClusterFound:
    """Look at a cluster as it was last read. Raises: PermissionDenied."""
    nodes = list(node_list(viewer=viewer, filters=NodeFilter(cluster=cluster.name)))
    pools = [row for row in flavor_list(viewer=viewer) if row.cluster == cluster.name]
    proposed = flavors_found(acting_user=viewer, cluster=cluster)
    gpus = sum(len(node.devices.all()) for node in nodes)
    checks = [_reached(cluster), _with_gpus(nodes, gpus), _healthy(nodes), _in_pools(nodes, proposed)]
    return ClusterFound(len(nodes), gpus, pools, proposed, checks)


def _reached(cluster: Cluster) -> Check:
    reached = cluster.health in (ClusterHealth.HEALTHY, ClusterHealth.UNKNOWN)
    text = (
        _("The cluster responds.") if reached else cluster.health_message or _("The cluster is unreachable.")
    )
    return Check(title=_("Connection"), text=text, passed=reached)


def _with_gpus(nodes: Sequence[Node], gpus: int) -> Check:
    having = sum(1 for node in nodes if node.devices.all())
    if gpus:
        words = {"gpus": gpus, "nodes": having}
        text = ngettext("%(gpus)s GPUs on %(nodes)s node", "%(gpus)s GPUs on %(nodes)s nodes", having) % words
    elif nodes:
        text = _("No GPUs found. Check that the device plugin runs on the GPU nodes.")
    else:
        text = _("No nodes found.")
    return Check(title=_("GPUs"), text=text, passed=gpus > 0)


def _healthy(nodes: Sequence[Node]) -> Check:
    bad = [
        node.name for node in nodes if not node.ready or any(not gpu.healthy for gpu in node.devices.all())
    ]
    text = _("All nodes are ready and all GPUs healthy.")
    if bad:
        text = _("Not ready, or with unhealthy GPUs: %(nodes)s") % {"nodes": _names(bad)}
    return Check(title=_("Health"), text=text, passed=not bad)


def _in_pools(nodes: Sequence[Node], proposed: Sequence[FlavorPlan]) -> Check:
    without = [node for node in nodes if node.flavor_id is None and node.devices.all()]
    text = _("All GPU nodes belong to a pool.")
    if not any(node.devices.all() for node in nodes):
        text = _("No GPU nodes.")
    elif proposed:
        text = _("GPU nodes without a pool: %(nodes)s. Create the proposed pools.")
    elif any(PRODUCT_LABEL not in node.labels for node in without):
        text = _("No label %(label)s on %(nodes)s. Install GPU feature discovery, or add the pool by CLI.")
    elif without:
        text = _("GPU nodes without a pool: %(nodes)s. Add the pool by CLI.")
    words = {"label": PRODUCT_LABEL, "nodes": _names([node.name for node in without])}
    done = not without and any(node.devices.all() for node in nodes)
    return Check(title=_("Pools"), text=text % words if "%(" in text else text, passed=done)


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" +{more}" if more > 0 else "")
