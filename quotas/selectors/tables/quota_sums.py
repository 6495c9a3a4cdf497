"""Quota at every node of a tree: limits and reserved quota, read in three queries, and sums of them.

A page needs a few pools and resources, so only their rows are read. Rows are read as tuples: creating the
models of a cell with a thousand tenants takes several times as long as all computations on them.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from django.db.models import Model, QuerySet

from foundation.core.quantities import Resource
from foundation.sql import row_scope
from foundation.sql.plain_rows import read_columns, read_id, read_ids
from quotas.distribution.lending import compute_borrowed, compute_lent
from quotas.distribution.node_order import NodeOrder
from quotas.distribution.subtree_sums import SubtreeSums, sum_subtrees
from quotas.models import FlavorKey, LedgerEntry, Quota, QuotaNode
from quotas.selectors.limits.workspace_limits import share_limits
from quotas.tree.limits import Amount, NodeLimits

_Rows = TypeVar("_Rows", bound=Model)
_KEY: Final = ("flavor_id", "resource")


class NodePlace(NamedTuple):
    """The fields of a node that define the shape of the tree."""

    pk: uuid.UUID
    parent_id: uuid.UUID | None
    tenant_id: uuid.UUID
    is_queue: bool
    limits_decided: bool


class KeySums:
    """Amounts of one resource of one pool by position of the nodes.

    `limits` are those that are stored, `charged` is what is reserved at a queue itself.
    """

    def __init__(self, order: NodeOrder, limits: Sequence[NodeLimits | None], charged: Sequence[int]) -> None:
        self.order, self.limits, self.charged = order, limits, charged
        self.own_nominals: list[Amount] = [0 if of is None else of.own_nominal for of in limits]

    @cached_property
    def nominals(self) -> list[Amount]:
        """The nominal of each node: its own and those of its children."""
        return self.order.sum_amounts(self.own_nominals)

    @cached_property
    def reserved(self) -> list[int]:
        """The amount that is reserved at and below each node."""
        return self.order.sum_counts(self.charged)

    @cached_property
    def subtree_sums(self) -> SubtreeSums:
        """Quota and usage of each node as they count above it."""
        return sum_subtrees(self.order, self.limits, self.charged)

    @cached_property
    def borrowed(self) -> list[int]:
        """The amount that each node reserves of the quota of others."""
        return compute_borrowed(self.subtree_sums)

    @cached_property
    def lent(self) -> list[int]:
        """The part of each node's nominal that others reserve."""
        return compute_lent(self.order, self.limits, self.subtree_sums)


class QuotaSums:
    """The amounts of some pools and resources, in three queries.

    All rows are read, whatever the viewer may see: what a node lends depends on all other nodes. Without
    `cell_id` the nodes of all cells are read, without `flavors` all pools. Rows of nodes that were created
    during the reads are left out.
    """

    @row_scope.whole()
    def __init__(
        self,
        cell_id: uuid.UUID | None,
        *,
        flavors: Collection[uuid.UUID] | None = None,
        resources: Collection[Resource] = tuple(Resource),
    ) -> None:
        nodes = QuotaNode.unscoped.order_by("pk").values_list(*NodePlace._fields)
        if cell_id is not None:
            nodes = nodes.filter(cell_id=cell_id)
        self.places = [NodePlace._make(row) for row in nodes]
        self.order = NodeOrder({place.pk: place.parent_id for place in self.places})
        # Ids are looked up by their integer values, because a UUID computes its hash at every look-up.
        self._positions = {node.int: position for position, node in enumerate(self.order.nodes)}

        def narrow(rows: QuerySet[_Rows]) -> QuerySet[_Rows]:
            if set(resources) != set(Resource):
                rows = rows.filter(resource__in=[resource.value for resource in resources])
            if flavors is not None:
                return rows.filter(flavor__in=flavors)
            return rows if cell_id is None else rows.filter(node__cell_id=cell_id)

        self._limits = self._read_limits(narrow(Quota.unscoped.all()))
        self._charged = self._read_charged(narrow(LedgerEntry.unscoped.filter(reserved__gt=0)))
        self._sums: dict[FlavorKey, KeySums] = {}

    @property
    def keys(self) -> set[FlavorKey]:
        """The pools and resources of which anything is stored."""
        return self._limits.keys() | self._charged.keys()

    def get_sums(self, key: FlavorKey) -> KeySums:
        """Return the sums of one resource of one pool; zeros where nothing is stored."""
        if key not in self._sums:
            limits, charged = self._limits.get(key), self._charged.get(key)
            nodes = len(self.order)
            self._sums[key] = KeySums(self.order, limits or [None] * nodes, charged or [0] * nodes)
        return self._sums[key]

    def _read_limits(self, rows: QuerySet[Quota]) -> dict[FlavorKey, list[NodeLimits | None]]:
        columns = ("node_id", "own_nominal", "borrowing_limit", "lending_limit")
        found: dict[FlavorKey, list[NodeLimits | None]] = {}
        for key, (nodes, *limits) in read_columns(rows, _KEY, columns):
            of = found[_flavor_key(*key)] = [None] * len(self.order)
            for position, each in zip(self._find_positions(nodes), map(share_limits, *limits), strict=True):
                if position is not None:
                    of[position] = each
        return found

    def _read_charged(self, rows: QuerySet[LedgerEntry]) -> dict[FlavorKey, list[int]]:
        found: dict[FlavorKey, list[int]] = {}
        for key, (nodes, amounts) in read_columns(rows, _KEY, ("node_id", "reserved")):
            of = found[_flavor_key(*key)] = [0] * len(self.order)
            for position, amount in zip(self._find_positions(nodes), amounts, strict=True):
                if position is not None:
                    of[position] = amount
        return found

    def _find_positions(self, nodes: Sequence[Any]) -> Iterator[int | None]:
        return map(self._positions.get, [node.int for node in read_ids(nodes)])


def _flavor_key(flavor_id: Any, resource: str) -> FlavorKey:
    return read_id(flavor_id), Resource(resource)
