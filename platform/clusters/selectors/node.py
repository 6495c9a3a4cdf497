"""Reads nodes and cards for an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models import Prefetch, Q, QuerySet
from django.utils.translation import gettext as _

from clusters.models import Cluster, Device, Node, NodeCordon, NodeEvent
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import FieldError, Invalid, NotFound
from foundation.web.listing import Column, ColumnKind
from tenants.access import permissions
from tenants.access.permissions import Permission

_REFUSAL_SHOWN: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilter:
    """The filters of a list of nodes; `name` matches anywhere, the others exactly."""

    cluster: str = ""
    flavor: str = ""
    name: str = ""
    ready: bool | None = None
    cordoned: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFilter:
    """The filters of a list of cards; `uuid` matches anywhere, the others exactly."""

    cluster: str = ""
    node: str = ""
    model: str = ""
    uuid: str = ""
    healthy: bool | None = None


def _cards() -> Prefetch[str, QuerySet[Device], str]:
    return Prefetch("devices", queryset=Device.unscoped.order_by("index", "uuid"))


def open_cordons() -> Prefetch[str, QuerySet[NodeCordon], str]:
    """Return the prefetch of nodes' open requests as their attribute `open_cordons`: none or one each."""
    rows = NodeCordon.unscoped.filter(ended_at__isnull=True)
    return Prefetch("cordons", queryset=rows, to_attr="open_cordons")


def get_open_cordon(node: Any) -> NodeCordon | None:
    """Return the open request of a node that was read with `open_cordons`."""
    rows: Sequence[NodeCordon] = node.open_cordons
    return rows[0] if rows else None


def node_list(*, viewer: Actor, filters: NodeFilter = NodeFilter()) -> QuerySet[Node]:
    """Return present nodes, by cluster and name, with cluster, flavor and cards.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    match = Q(present=True)
    if filters.cluster:
        match &= Q(cluster__name=filters.cluster)
    if filters.flavor:
        match &= Q(flavor__name=filters.flavor)
    if filters.name:
        match &= Q(name__icontains=filters.name)
    if filters.ready is not None:
        match &= Q(ready=filters.ready)
    if filters.cordoned is not None:
        match &= Q(cordoned=filters.cordoned)
    nodes = Node.unscoped.filter(match).select_related("cluster", "flavor")
    nodes = nodes.prefetch_related(_cards(), open_cordons())
    return nodes.order_by("cluster__name", "name", "pk")


def node_get(*, viewer: Actor, name: str, cluster: str = "") -> Node:
    """Return one node by name; if clusters share the name, `cluster` is required.

    Raises: PermissionDenied, NotFound; Invalid naming `cluster` if several clusters have the node.
    """
    found = list(node_list(viewer=viewer, filters=NodeFilter(cluster=cluster)).filter(name=name))
    if not found:
        raise NotFound(_("Node %(name)s not found.") % {"name": name})
    if len(found) > 1:
        clusters = ", ".join(node.cluster.name for node in found)
        message = _("Node %(name)s exists in several clusters. Specify one of: %(clusters)s.")
        text = message % {"name": name, "clusters": clusters}
        raise Invalid(text, errors=[FieldError("cluster", "AMBIGUOUS", text)])
    return found[0]


def last_refusal(*, viewer: Actor, node: Node) -> NodeCordon | None:
    """Return the last request of a node if the cluster has just refused it.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    last = NodeCordon.unscoped.filter(node=node).order_by("-id").first()
    if last is None or not last.refusal or last.ended_at is None:
        return None
    return last if clock.now() - last.ended_at < _REFUSAL_SHOWN else None


def list_node_events(*, viewer: Actor, node: Node, limit: int = 12) -> list[NodeEvent]:
    """Return the events of a node, newest first.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return list(NodeEvent.unscoped.filter(node=node).order_by("-id")[:limit])


def device_list(*, viewer: Actor, filters: DeviceFilter = DeviceFilter()) -> QuerySet[Device]:
    """Return the cards of present nodes, by cluster, node and index, with node and cluster.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    match = Q(node__present=True)
    if filters.cluster:
        match &= Q(node__cluster__name=filters.cluster)
    if filters.node:
        match &= Q(node__name=filters.node)
    if filters.model:
        match &= Q(model=filters.model)
    if filters.uuid:
        match &= Q(uuid__icontains=filters.uuid)
    if filters.healthy is not None:
        match &= Q(healthy=filters.healthy)
    devices = Device.unscoped.filter(match).select_related("node__cluster", "node__flavor")
    return devices.order_by("node__cluster__name", "node__name", "index", "pk")


def device_get(*, viewer: Actor, uuid: str) -> Device:
    """Return one card by the UUID of its driver.

    Raises: PermissionDenied, NotFound.
    """
    device = device_list(viewer=viewer).filter(uuid=uuid).first()
    if device is None:
        raise NotFound(_("GPU %(uuid)s not found.") % {"uuid": uuid})
    return device


CLUSTER_COLUMNS: Final = {
    "name": Column("name"),
    "cell": Column("cell.name"),
    "backend": Column("backend"),
    "health": Column("health"),
    "observed_at": Column("observed_at", ColumnKind.TIME),
}
"""The columns by which a list of clusters can be filtered."""


def cluster_list(*, viewer: Actor) -> QuerySet[Cluster]:
    """Return clusters by name, with their cell and flavors.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return Cluster.unscoped.select_related("cell").prefetch_related("flavors").order_by("name", "pk")
