"""Selecting the nodes near which the volumes of claims are created, once their pods are bound.

As with kube-scheduler, the node of the first pod decides, and until the volume exists nothing else that
mounts the claim is placed elsewhere.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from django.db.models import QuerySet

from clusters.backends.base import BackendUnavailable, ClusterBackend
from clusters.backends.volumes import NodeTerms, VolumeClaim
from clusters.models import Cluster
from foundation.sql.prepared import PreparedQuery
from scheduling.engine_input.volume_claims import claim_names
from scheduling.models import Allocation, ClaimPhase, MountedClaim

log = structlog.get_logger(__name__)
Key = tuple[uuid.UUID, str]
"""(workspace, name of the claim)."""


def _mounting_pods(cluster: uuid.UUID) -> QuerySet[Allocation, tuple[Any, ...]]:
    return (
        Allocation.unscoped.filter(
            node__cluster=cluster,
            released_at__isnull=True,
            removal_asked_at__isnull=True,
            ensured_at__isnull=False,
        )
        .exclude(attempt__job__volumes=[])
        .order_by("ensured_at", "pod_name")
        .values_list("attempt__job__workspace_id", "attempt__job__volumes", "node__name")
    )


_MOUNTING_PODS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(_mounting_pods)


def list_users(cluster: Cluster, rows: Iterable[MountedClaim]) -> Mapping[Key, Sequence[str]]:
    """Return the nodes of the bound pods that mount each claim, that of the first pod first.

    Nothing is read, and nothing returned, if the volume of none of the claims is created on demand.
    """
    if not any(row.phase == ClaimPhase.UNPROVISIONED for row in rows):
        return {}
    users: defaultdict[Key, list[str]] = defaultdict(list)
    for workspace, volumes, node in _MOUNTING_PODS(cluster.pk):
        for name in claim_names(volumes):
            users[workspace, name].append(node)
    return users


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The node of an unbound claim in a namespace: `before` is what the platform selected when it last read
    the claim, and `users` are the nodes of the pods that mount it.
    """

    namespace: str
    claim: VolumeClaim
    before: str
    users: Sequence[str]

    @property
    def node(self) -> str:
        """The node to select, or "" to leave the claim as it is.

        A node that another scheduler selected stays. One of the platform's is replaced once no pod of it is
        left there; without a node, because the provisioner failed and removed it, it is selected again.
        """
        found = self.claim.selected_node
        replaceable = not found or found == self.before
        return self.users[0] if self.users and replaceable and found not in self.users else ""

    @property
    def own(self) -> str:
        """The node of the claim, now or soon, that the platform selected; "" if it selected none."""
        return self.node or (self.before if self.before == self.claim.selected_node else "")

    def write(self, cluster: Cluster, backend: ClusterBackend) -> None:
        """Select the node; if that fails, the next pass tries it again."""
        if not self.node:
            return
        try:
            backend.annotate_selected_node(self.namespace, self.claim, self.node)
        except BackendUnavailable as error:
            log.warning(
                "no node can be selected for a volume claim",
                cluster=cluster.name,
                claim=f"{self.namespace}/{self.claim.name}",
                error=str(error),
            )


def restrict_nodes(selection: NodeSelection) -> NodeTerms:
    """Return the terms of the nodes on which pods that mount the claim may be placed now.

    That is the selected node, as with kube-scheduler. If the platform selected it and no pod waits any
    more, another one can be selected.
    """
    found = selection.node or selection.claim.selected_node
    if not found or (found == selection.own and not selection.users):
        return selection.claim.topologies
    return [[{"key": "metadata.name", "operator": "In", "values": [found]}]]
