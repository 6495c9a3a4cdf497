"""Selecting the nodes near which the volumes of claims are created, once their pods are bound.

As with kube-scheduler, the node of the first pod decides. Once it is selected and until the volume exists,
nothing else that mounts the claim is placed elsewhere.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from django.db.models import QuerySet

from clusters.backends.base import BackendUnavailable, ClusterBackend
from clusters.backends.volumes import NodeTerms, VolumeClaim
from clusters.models import Cluster, Node
from scheduling.engine_input.volume_claims import claim_names
from scheduling.models import Allocation, ClaimPhase, MountedClaim

log = structlog.get_logger(__name__)
Key = tuple[uuid.UUID, str]
"""(workspace, name of the claim)."""


def _mounting_pods(
    cluster: uuid.UUID, workspaces: Collection[uuid.UUID]
) -> QuerySet[Allocation, tuple[Any, ...]]:
    return (
        Allocation.unscoped.filter(
            node__cluster=cluster,
            attempt__job__workspace__in=workspaces,
            released_at__isnull=True,
            removal_asked_at__isnull=True,
            ensured_at__isnull=False,
        )
        .exclude(attempt__job__volumes=[])
        .order_by("ensured_at", "pod_name")
        .values_list("attempt__job__workspace_id", "attempt__job__volumes", "node__name")
    )


def list_pod_nodes(cluster: Cluster, rows: Iterable[MountedClaim]) -> Mapping[Key, Sequence[str]]:
    """Return the nodes of the bound pods that mount each claim, that of the first pod first.

    Of workspaces without a claim whose volume is created on demand nothing is read.
    """
    workspaces = {row.workspace_id for row in rows if row.phase == ClaimPhase.UNPROVISIONED}
    if not workspaces:
        return {}
    nodes: defaultdict[Key, list[str]] = defaultdict(list)
    for workspace, volumes, node in _mounting_pods(cluster.pk, workspaces):
        for name in claim_names(volumes):
            nodes[workspace, name].append(node)
    return nodes


def list_usable_nodes(cluster: Cluster) -> frozenset[str]:
    """Return the names of the nodes that take pods."""
    usable = Node.unscoped.filter(cluster=cluster, present=True, ready=True, cordoned=False)
    return frozenset(usable.values_list("name", flat=True))


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The node of an unbound claim in a namespace: `pod_nodes` are those of the pods that mount it, that of
    the first pod first, and `usable` are the nodes that take pods.
    """

    namespace: str
    claim: VolumeClaim
    pod_nodes: Sequence[str]
    usable: Collection[str]

    @property
    def is_replaceable(self) -> bool:
        """Return whether the platform selected a node on which no pod can start any more.

        A selected node stays otherwise, as with kube-scheduler: the provisioner may be creating the volume
        there, and removes the node if it fails.
        """
        found = self.claim.selected_node
        return self.claim.selected_here and found not in self.usable and found not in self.pod_nodes

    @property
    def node_to_select(self) -> str:
        """The node to select; "" if the claim is not changed.

        A node that the provisioner removed, because it failed, is selected again while its pod is the first.
        """
        if not self.pod_nodes or (self.claim.selected_node and not self.is_replaceable):
            return ""
        return self.pod_nodes[0]

    def annotate_claim(self, cluster: Cluster, backend: ClusterBackend) -> None:
        """Select the node; if that fails, the next pass tries it again."""
        if not self.node_to_select:
            return
        try:
            backend.annotate_selected_node(self.namespace, self.claim, self.node_to_select)
        except BackendUnavailable as error:
            log.warning(
                "no node can be selected for a volume claim",
                cluster=cluster.name,
                claim=f"{self.namespace}/{self.claim.name}",
                error=str(error),
            )


def restrict_nodes(selection: NodeSelection) -> NodeTerms:
    """Return the terms of the nodes on which pods that mount the claim may be placed now.

    That is the selected node, as with kube-scheduler, unless another one can be selected.
    """
    found = selection.node_to_select or selection.claim.selected_node
    if not found or (not selection.node_to_select and selection.is_replaceable):
        return selection.claim.topologies
    return [[{"key": "metadata.name", "operator": "In", "values": [found]}]]
