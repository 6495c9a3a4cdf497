"""The operators' list of nodes: one row per node with the sums of its cards, sorted by the database."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db.models import (
    Count,
    ExpressionWrapper,
    F,
    FloatField,
    Max,
    Q,
    QuerySet,
    Sum,
    prefetch_related_objects,
)
from django.db.models.functions import Coalesce, Greatest, NullIf

from clusters.models import Device, Flavor, Node, NodeCordon
from clusters.selectors.grid import CLOSED, CORDONED, DRAINING, NOT_READY, READY
from clusters.selectors.node import open_cordons
from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from foundation.web.listing import Column, ColumnCondition, ColumnKind
from tenants.access import permissions
from tenants.access.permissions import Permission

_DRAINING: Final = Q(
    pk__in=NodeCordon.unscoped.filter(drain=True, drained_at=None, ended_at=None).values("node")
)
STATES: Final[Mapping[str, Q]] = {
    READY: Q(ready=True, cordoned=False, closed=False) & ~_DRAINING,
    DRAINING: Q(ready=True) & _DRAINING,
    CORDONED: Q(ready=True, cordoned=True) & ~_DRAINING,
    CLOSED: Q(ready=True, cordoned=False, closed=True) & ~_DRAINING,
    NOT_READY: Q(ready=False),
}
"""The conditions of the states; each node is in one of them, see `grid.node_state`."""
COLUMNS: Final = {
    "name": Column("name"),
    "cluster": Column("cluster.name"),
    "flavor": Column("flavor.name"),
    "ready": Column("ready", ColumnKind.FLAG),
    "cordoned": Column("cordoned", ColumnKind.FLAG),
    "zone": Column("zone"),
    "rack": Column("rack"),
    "cpu_millicores": Column("cpu_millicores", ColumnKind.NUMBER),
    "cpu_granted": Column("cpu_granted", ColumnKind.NUMBER),
    "memory_mib": Column("memory_mib", ColumnKind.NUMBER),
    "memory_granted": Column("memory_granted", ColumnKind.NUMBER),
}
"""The columns by which a list of nodes can be filtered."""
SUMS: Final = {
    "cards": Column("cards", ColumnKind.NUMBER),
    "free_cards": Column("free_cards", ColumnKind.NUMBER),
    "unhealthy_cards": Column("unhealthy_cards", ColumnKind.NUMBER),
    "largest_left": Column("largest_left", ColumnKind.NUMBER),
    "allocated_percent": Column("allocated_percent", ColumnKind.NUMBER),
}
"""Sums over the cards of each node by which the table of nodes can be filtered as well."""
# The sort key of each column. Every order ends in cluster, name and id, so that pages never overlap.
SORTS: Final[Mapping[str, str]] = {
    "name": "name",
    "flavor": "flavor__name",
    "cards": "cards",
    "free": "free_cards",
    "fraction": "largest_left",
    "allocated": "cores_granted_sum",
    "memory": "memory_granted_sum",
    "cpu": "cpu_granted",
    "rack": "rack",
}
_FREE: Final = Q(devices__healthy=True, devices__holders=0, devices__foreign_holders=0)
_TAKEN: Final = F("devices__cores_granted") + F("devices__cores_foreign")
_OPEN: Final = Q(devices__healthy=True)
_SUMS: Final = {
    "cards": Count("devices"),
    "free_cards": Count("devices", filter=_FREE),
    "unhealthy_cards": Count("devices", filter=Q(devices__healthy=False)),
    "foreign_cards": Count("devices", filter=Q(devices__foreign_holders__gt=0)),
    "largest_left": Coalesce(Max(Greatest(F("devices__cores_capacity") - _TAKEN, 0), filter=_OPEN), 0),
    "fragments": Count(
        "devices",
        filter=_OPEN
        & (Q(devices__holders__gt=0) | Q(devices__foreign_holders__gt=0))
        & Q(devices__cores_granted__lt=F("devices__cores_capacity") - F("devices__cores_foreign")),
    ),
    "cores_granted_sum": Coalesce(Sum("devices__cores_granted"), 0),
    "memory_capacity_sum": Coalesce(Sum("devices__memory_capacity"), 0),
    "memory_granted_sum": Coalesce(Sum("devices__memory_granted"), 0),
}
"""Sums over the cards of each node; some of them are in `SORTS` as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeQuery:
    """The filters and order of the list; `name` matches anywhere, the others exactly.

    `conditions` are further ones, on `COLUMNS` and `SUMS`.
    """

    cluster: str = ""
    flavor: str = ""
    state: str = ""
    name: str = ""
    sort: str = "name"
    conditions: Sequence[ColumnCondition] = ()


def _match(query: NodeQuery) -> Q:
    match = Q(present=True)
    if query.cluster:
        match &= Q(cluster__name=query.cluster)
    if query.flavor:
        match &= Q(flavor__name=query.flavor)
    if query.name:
        match &= Q(name__icontains=query.name)
    for condition in query.conditions:
        if condition.column not in SUMS.values():
            match &= condition.as_query()
    return match


def _match_sums(query: NodeQuery) -> Q:
    match = Q()
    for condition in query.conditions:
        if condition.column in SUMS.values():
            match &= condition.as_query()
    return match


def _filter_nodes(query: NodeQuery) -> QuerySet[Node, Node]:
    """Return the nodes that match all filters but sums, unordered."""
    return Node.unscoped.filter(_match(query) & STATES.get(query.state, Q()))


def _sort_column(query: NodeQuery) -> str:
    return SORTS.get(query.sort.removeprefix("-"), "name")


def _order_by(query: NodeQuery) -> Sequence[str]:
    sign = "-" if query.sort.startswith("-") else ""
    return f"{sign}{_sort_column(query)}", "cluster__name", "name", "pk"


def node_order(*, viewer: Actor, query: NodeQuery) -> QuerySet[Node, Node]:
    """Return the nodes of `node_table` in its order, without sums that are not needed to find or sort them.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    if _match_sums(query):
        return node_table(viewer=viewer, query=query)
    column = _sort_column(query)
    sums = {column: _SUMS[column]} if column in _SUMS else {}
    return _filter_nodes(query).annotate(**sums).order_by(*_order_by(query))


def node_table(*, viewer: Actor, query: NodeQuery) -> QuerySet[Node, Node]:
    """Return nodes, each with the sums of its cards; an unknown sort or state is ignored.

    `cards`; `free_cards`, whole and healthy; `unhealthy_cards`; `foreign_cards`, with pods of other owners;
    `largest_left`, in percent points of one healthy card; `fragments`, partly allocated cards;
    `cores_granted_sum`, and `allocated_percent` of the compute of all cards, null without any;
    `memory_…_sum` in MiB. Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    nodes = _with_sums(_filter_nodes(query)).prefetch_related(open_cordons())
    return nodes.filter(_match_sums(query)).order_by(*_order_by(query))


def _with_sums(nodes: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
    share = F("cores_granted_sum") * 1.0 / NullIf(F("cards"), 0)
    percent = ExpressionWrapper(share, output_field=FloatField())
    found: QuerySet[Any, Any] = nodes.select_related("cluster", "flavor").annotate(**_SUMS)
    found = found.annotate(allocated_percent=percent)
    return found


_BY_KEYS: Final = PreparedQuery(
    lambda keys: _with_sums(Node.unscoped.filter(pk__any_of=keys, present=True)).order_by()
)
_CARDS: Final = PreparedQuery(
    lambda nodes: Device.unscoped.filter(node__pk__any_of=nodes).order_by().values_list("pk", "node_id")
)


def nodes_by_keys(*, viewer: Actor, keys: Sequence[uuid.UUID]) -> list[Node]:
    """Return some nodes as of `node_table`, in no order; one statement fits all pages.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    nodes = _BY_KEYS.for_any(keys)
    prefetch_related_objects(nodes, open_cordons())
    return nodes


def card_nodes(*, viewer: Actor, node_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    """Return the node of each card of some nodes.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return dict(_CARDS.for_any(list(node_ids)))


def node_state_counts(*, viewer: Actor, query: NodeQuery) -> dict[str, int]:
    """Count the nodes in each state under the other filters.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    # Named differently from the columns: an aggregate hides the column of the same name.
    counts = {f"count_{number}": Count("pk", filter=match) for number, match in enumerate(STATES.values())}
    nodes = Node.unscoped.filter(_match(query))
    if _match_sums(query):
        every = node_table(viewer=viewer, query=replace(query, state=""))
        nodes = Node.unscoped.filter(pk__in=every.order_by().values("pk"))
    found = nodes.aggregate(**counts)
    return {state: found[f"count_{number}"] for number, state in enumerate(STATES)}


def flavor_list(*, viewer: Actor, cluster: str = "") -> list[Flavor]:
    """Return flavors by name with their cluster; of one cluster if it is named.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    flavors = Flavor.unscoped.select_related("cluster").order_by("name", "cluster__name", "pk")
    return list(flavors.filter(cluster__name=cluster) if cluster else flavors)
