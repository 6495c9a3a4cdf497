"""The operators' list of GPUs, filtered and sorted by the database."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Count, F, Q, QuerySet

from clusters.models import Device
from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from foundation.web.listing import Column, ColumnCondition, ColumnKind
from tenants.access import permissions
from tenants.access.permissions import Permission

_HELD: Final = Q(holders__gt=0) | Q(foreign_holders__gt=0)
_FULL: Final = Q(cores_capacity__lte=F("cores_granted") + F("cores_foreign"))
GPU_STATES: Final[Mapping[str, Q]] = {
    "free": Q(healthy=True) & ~_HELD,
    "partial": Q(healthy=True) & _HELD & ~_FULL,
    "allocated": Q(healthy=True) & _HELD & _FULL,
    "unhealthy": Q(healthy=False),
}
COLUMNS: Final = {
    "uuid": Column("uuid"),
    "cluster": Column("node.cluster.name"),
    "node": Column("node.name"),
    "flavor": Column("node.flavor.name"),
    "model": Column("model"),
    "mode": Column("mode"),
    "healthy": Column("healthy", ColumnKind.FLAG),
    "memory_mib": Column("memory_mib", ColumnKind.NUMBER),
    "cores_granted": Column("cores_granted", ColumnKind.NUMBER),
    "memory_granted": Column("memory_granted", ColumnKind.NUMBER),
    "holders": Column("holders", ColumnKind.NUMBER),
}
"""The columns by which a list of GPUs can be filtered."""
# The sort key of each column. Every order ends in cluster, node, index and id, so that pages never overlap.
SORTS: Final[Mapping[str, str]] = {
    "node": "node__name",
    "model": "model",
    "pool": "node__flavor__name",
    "allocated": "cores_granted",
    "memory": "memory_granted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuQuery:
    """The filters and order of the list; `text` matches anywhere in a UUID, the others exactly;
    `conditions` are further ones, on `COLUMNS`.
    """

    cluster: str = ""
    pool: str = ""
    model: str = ""
    node: str = ""
    state: str = ""
    text: str = ""
    sort: str = "node"
    conditions: Sequence[ColumnCondition] = ()


def _match(query: GpuQuery) -> Q:
    exact = {
        "node__cluster__name": query.cluster,
        "node__flavor__name": query.pool,
        "model": query.model,
        "node__name": query.node,
    }
    match = Q(node__present=True, **{name: value for name, value in exact.items() if value})
    for condition in query.conditions:
        match &= condition.as_query()
    return (
        match & (Q(uuid__icontains=query.text) | Q(hardware_uuid__icontains=query.text))
        if query.text
        else match
    )


def gpu_table(*, viewer: Actor, query: GpuQuery) -> QuerySet[Device]:
    """Return GPUs with node, cluster and pool; an unknown sort or state is ignored.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = Device.unscoped.filter(_match(query) & GPU_STATES.get(query.state, Q()))
    column = SORTS.get(query.sort.removeprefix("-"), "node__name")
    sign = "-" if query.sort.startswith("-") else ""
    return _with_nodes(rows).order_by(f"{sign}{column}", "node__cluster__name", "node__name", "index", "pk")


def _with_nodes(gpus: QuerySet[Device]) -> QuerySet[Device]:
    return gpus.select_related("node__cluster", "node__flavor")


_BY_KEYS: Final = PreparedQuery(
    lambda keys: _with_nodes(Device.unscoped.filter(pk__any_of=keys, node__present=True)).order_by()
)


def gpus_by_keys(*, viewer: Actor, keys: Sequence[uuid.UUID]) -> list[Device]:
    """Return some GPUs as of `gpu_table`, in no order; one statement fits all pages.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return _BY_KEYS.for_any(keys)


def gpu_state_counts(*, viewer: Actor, query: GpuQuery) -> dict[str, int]:
    """Count the GPUs in each state under the other filters. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    counts = {state: Count("pk", filter=match) for state, match in GPU_STATES.items()}
    return dict(Device.unscoped.filter(_match(query)).aggregate(**counts))


def gpu_models(*, viewer: Actor, cluster: str = "") -> list[str]:
    """Return the models of GPUs by name. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = Device.unscoped.filter(_match(GpuQuery(cluster=cluster)))
    return list(rows.order_by("model").values_list("model", flat=True).distinct())
