"""Reads clusters and flavors by name for an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext as _

from clusters.models import Cluster, Flavor
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.web.listing import Column
from tenants.access import permissions
from tenants.access.permissions import Permission


def cluster_get(*, viewer: Actor, name: str) -> Cluster:
    """Return one cluster. Raises: PermissionDenied, NotFound."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    cluster = Cluster.unscoped.filter(name=name).select_related("cell").first()
    if cluster is None:
        raise NotFound(_("Cluster %(name)s not found") % {"name": name})
    return cluster


FLAVOR_COLUMNS: Final = {
    "name": Column("name"),
    "cluster": Column("cluster.name"),
    "card_model": Column("card_model"),
    "gpu_mode": Column("gpu_mode"),
}
"""The columns by which a list of flavors can be filtered."""


def flavor_query(*, viewer: Actor) -> QuerySet[Flavor]:
    """Return the flavors of all clusters, with their clusters. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return Flavor.unscoped.select_related("cluster")


def flavor_get(*, viewer: Actor, cluster: str, name: str) -> Flavor:
    """Return one flavor of a cluster. Raises: PermissionDenied, NotFound."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    found = Flavor.unscoped.filter(cluster__name=cluster, name=name).select_related("cluster__cell").first()
    if found is None:
        message = _("Pool %(name)s not found in cluster %(cluster)s.")
        raise NotFound(message % {"cluster": cluster, "name": name})
    return found


def flavor_rows(*, viewer: Actor) -> QuerySet[Flavor]:
    """Return all flavors by cluster and name, with their clusters. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return Flavor.unscoped.select_related("cluster").order_by("cluster__name", "name")


@dataclass(frozen=True, slots=True)
class FlavorRow:
    """A flavor with its present nodes, and their healthy cards."""

    cluster: str
    name: str
    card_model: str
    gpu_mode: str
    nodes: int
    cards: int


def flavor_find(*, viewer: Actor, text: str, limit: int) -> list[Flavor]:
    """Return the first flavors by name whose name or GPU model contains `text`. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    found = Flavor.unscoped.filter(Q(name__icontains=text) | Q(card_model__icontains=text))
    return list(found.select_related("cluster").order_by("name", "cluster__name")[:limit])


def flavor_list(*, viewer: Actor) -> list[FlavorRow]:
    """Return all flavors by cluster and name. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    there = Q(nodes__present=True)
    healthy = there & Q(nodes__devices__healthy=True)
    counted = Flavor.unscoped.annotate(
        node_count=Count("nodes", filter=there, distinct=True),
        card_count=Count("nodes__devices", filter=healthy, distinct=True),
    )
    columns = ("cluster__name", "name", "card_model", "gpu_mode", "node_count", "card_count")
    rows = counted.order_by("cluster__name", "name").values_list(*columns)
    return [FlavorRow(*row) for row in rows]
