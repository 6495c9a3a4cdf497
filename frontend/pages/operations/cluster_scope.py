"""The clusters of a platform page, and the switcher between them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils.translation import gettext as _

from clusters.models import Cluster
from clusters.selectors.node import cluster_list
from foundation.core.errors import NotFound
from frontend.shell import context, navigation
from frontend.shell.page_shell import get_viewer, set_frame


@dataclass(frozen=True, slots=True)
class ClusterScope:
    """All clusters, and the one that `?cluster=` names; None is all of them."""

    clusters: Sequence[Cluster]
    cluster: Cluster | None

    @property
    def cluster_id(self) -> uuid.UUID | None:
        return self.cluster.pk if self.cluster else None

    @property
    def cluster_name(self) -> str:
        return self.cluster.name if self.cluster else ""

    @property
    def label(self) -> str:
        if self.cluster:
            return self.cluster.name
        return self.clusters[0].name if len(self.clusters) == 1 else _("All clusters")

    def node_url(self, name: str, cluster: str) -> str:
        """Return a node's page; the cluster is named only where two nodes could have the same name."""
        query = {"cluster": cluster} if len(self.clusters) > 1 else {}
        return build_address(_node_address(name), query)


@lru_cache(maxsize=16_384)
def _node_address(name: str) -> str:
    """Return the address of a node's page; cached, because the overview links to thousands of nodes."""
    return navigation.find_address("frontend:ops-node", name=name)


def build_address(path: str, query: dict[str, str]) -> str:
    """Return a path with the parameters that are not empty."""
    text = urlencode({key: value for key, value in query.items() if value})
    return f"{path}?{text}" if text else path


def remove_null_characters(text: str) -> str:
    """Return a text from an address without the character that PostgreSQL refuses in comparisons."""
    return text.replace("\x00", "")


def scope_of(request: HttpRequest) -> ClusterScope:
    """Read `?cluster=`.

    Raises: NotFound for a cluster that does not exist.
    """
    clusters = list(cluster_list(viewer=get_viewer(request)))
    name = request.GET.get("cluster", "")
    chosen = next((cluster for cluster in clusters if cluster.name == name), None)
    if name and chosen is None:
        raise NotFound(f"no cluster {name!r}")
    return ClusterScope(clusters, chosen)


def ops_frame(
    request: HttpRequest, scope: ClusterScope, *, path: str = "", shown: Cluster | None = None
) -> None:
    """Fill the frame; the switcher leads to `path` (this page unless given) and keeps the other choices.

    `shown` is the cluster of the page, if the address does not select it.
    """
    query = request.GET.copy()
    for name in ("cluster", "page"):
        query.pop(name, None)
    parameters = {} if path else {key: str(query[key]) for key in query}
    target = path or request.path
    choices = [
        context.WorkspaceChoice(
            label=_("All clusters"), url=build_address(target, parameters), current=scope.cluster is None
        )
    ]
    choices += [
        context.WorkspaceChoice(
            label=cluster.name,
            url=build_address(target, {**parameters, "cluster": cluster.name}),
            current=cluster == scope.cluster,
        )
        for cluster in scope.clusters
    ]
    set_frame(
        request,
        label=scope.label,
        choices=choices if len(scope.clusters) > 1 else (),
        cluster=shown or scope.cluster,
    )
