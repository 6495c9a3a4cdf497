"""Quota of one pool at every node of a cell's tree, from sums that the database makes per node.

`QuotaTable` reads every limit of a cell. A page that shows all levels of a large tree needs a few resources
of one pool, so one row per node is read instead of one per limit.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from django.db.models import Count, Max, Q, Sum

from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.distribution.lending import compute_borrowed, compute_lent
from quotas.distribution.node_order import NodeOrder
from quotas.models import LedgerEntry, Quota, QuotaNode
from quotas.tree.limits import Amount, NodeLimits


class NodePlace(NamedTuple):
    """A node as the shape of the tree needs it."""

    node_id: uuid.UUID
    parent_id: uuid.UUID | None
    tenant_id: uuid.UUID
    is_queue: bool


@dataclass(frozen=True, slots=True)
class ResourceSums:
    """Amounts of one resource by position of the nodes; `nominals` and `reserved` include all nodes below."""

    own_nominals: Sequence[Amount]
    nominals: Sequence[Amount]
    reserved: Sequence[int]


class QuotaSums:
    """The amounts of one pool, in three queries.

    Everything is read, whatever the viewer may see: what a node lends depends on all others.
    """

    @row_scope.whole()
    def __init__(self, cell_id: uuid.UUID, flavor_id: uuid.UUID, resources: Sequence[Resource]) -> None:
        self.resources = tuple(resources)
        nodes = QuotaNode.unscoped.filter(cell_id=cell_id).order_by("pk")
        rows = nodes.values_list("pk", "parent_id", "tenant_id", "is_queue")
        self.places = [NodePlace._make(row) for row in rows]
        self.order = NodeOrder({place.node_id: place.parent_id for place in self.places})
        self._limits = self._read_limits(flavor_id)
        self._reserved = self._read_reserved(flavor_id)

    @cached_property
    def by_resource(self) -> dict[Resource, ResourceSums]:
        """The sums of each resource."""
        return {
            resource: ResourceSums(own, self.order.sum_amounts(own), self.order.sum_counts(reserved))
            for resource in self.resources
            for own in ([0 if of is None else of.own_nominal for of in self._limits[resource]],)
            for reserved in (self._reserved[resource],)
        }

    def compute_lent(self, resource: Resource) -> list[int]:
        """Compute what others reserve of the nominal of each node."""
        sums = self.by_resource[resource]
        return compute_lent(self.order, self._limits[resource], sums.nominals, sums.reserved)

    def compute_borrowed(self, resource: Resource) -> list[int]:
        """Compute by how much each node reserves more than its nominal."""
        sums = self.by_resource[resource]
        return compute_borrowed(sums.nominals, sums.reserved)

    def get_limits(self, resource: Resource, position: int) -> NodeLimits | None:
        """Return the limits that are stored for a node, None where there are none."""
        return self._limits[resource][position]

    def _read_limits(self, flavor_id: uuid.UUID) -> dict[Resource, list[NodeLimits | None]]:
        limits = ("own_nominal", "borrowing_limit", "lending_limit")
        columns: dict[str, Any] = {}
        for index, resource in enumerate(self.resources):
            only = Q(resource=resource.value)
            columns[f"rows_{index}"] = Count("pk", filter=only)
            columns |= {f"{name}_{index}": Max(name, filter=only) for name in limits}
        rows = Quota.unscoped.filter(flavor=flavor_id, resource__in=self.resources).order_by()
        found: dict[Resource, list[NodeLimits | None]] = {
            resource: [None] * len(self.order) for resource in self.resources
        }
        for node_id, *values in rows.values("node_id").annotate(**columns).values_list("node_id", *columns):
            position = self.order.positions[node_id]
            for index, resource in enumerate(self.resources):
                stored, own, borrowing, lending = values[4 * index : 4 * index + 4]
                if stored:
                    found[resource][position] = NodeLimits(own, borrowing, lending)
        return found

    def _read_reserved(self, flavor_id: uuid.UUID) -> dict[Resource, list[int]]:
        columns = {
            f"reserved_{index}": Sum("reserved", filter=Q(resource=resource.value), default=0)
            for index, resource in enumerate(self.resources)
        }
        rows = LedgerEntry.unscoped.filter(flavor=flavor_id, resource__in=self.resources, reserved__gt=0)
        found = {resource: [0] * len(self.order) for resource in self.resources}
        asked = rows.order_by().values("node_id").annotate(**columns).values_list("node_id", *columns)
        for node_id, *values in asked:
            position = self.order.positions[node_id]
            for resource, amount in zip(self.resources, values, strict=True):
                found[resource][position] = amount
        return found
