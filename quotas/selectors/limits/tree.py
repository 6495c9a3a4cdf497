"""The quota tree of a cell as the arithmetic needs it: limits and reserved quota, read in two queries."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from foundation.core.quantities import Resource
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from quotas.distribution.node_order import NodeOrder
from quotas.models import FlavorKey, LedgerEntry, QueueFlavor, Quota, QuotaKey, QuotaNode
from quotas.models.quota_key import find_tree_key
from quotas.selectors.limits.workspace_limits import StoredQuota, WorkspaceNode, bound_workspaces
from quotas.tree import Branch, FlavorResource, QuotaTree

_NODES: Final = PreparedQuery(lambda cell: QuotaNode.unscoped.filter(cell_id=cell).order_by("id"))


class ReservedQuota(NamedTuple):
    """A row of the ledger: what is reserved at a queue."""

    node_id: uuid.UUID
    flavor_id: uuid.UUID
    resource: str
    reserved: int


_QUOTAS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell: (
        Quota.unscoped.filter(node__cell_id=cell)
        .order_by("flavor_id", "resource")
        .values_list(*StoredQuota._fields)
    )
)
_RESERVED: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell: (
        LedgerEntry.unscoped.filter(node__cell_id=cell, reserved__gt=0)
        .order_by("flavor_id", "resource")
        .values_list(*ReservedQuota._fields)
    )
)


@dataclass(frozen=True, slots=True)
class TreeRows:
    """Nodes of one cell, and per node id its stored quotas and what the ledger says is reserved there."""

    nodes: list[QuotaNode]
    quotas: Mapping[uuid.UUID, Sequence[StoredQuota]]
    reserved: Mapping[uuid.UUID, Sequence[ReservedQuota]]


@row_scope.whole()
def read_tree_rows(cell_id: uuid.UUID) -> TreeRows:
    """Read the rows of a cell's tree, in a fixed order."""
    nodes = _NODES(cell_id)
    quotas: defaultdict[uuid.UUID, list[StoredQuota]] = defaultdict(list)
    for quota in map(StoredQuota._make, _QUOTAS(cell_id)):
        quotas[quota.node_id].append(quota)
    reserved: defaultdict[uuid.UUID, list[ReservedQuota]] = defaultdict(list)
    for entry in map(ReservedQuota._make, _RESERVED(cell_id)):
        reserved[entry.node_id].append(entry)
    return TreeRows(nodes, dict(quotas), dict(reserved))


def read_engine_rows(cell_id: uuid.UUID) -> TreeRows:
    """Return the rows of a cell's tree as admission uses them: with the limits of workspaces.

    These limits apply to admission only; pages and writes use the rows as they are stored.
    """
    return _bounded(read_tree_rows(cell_id))


def _bounded(rows: TreeRows) -> TreeRows:
    return replace(rows, quotas={**rows.quotas, **bound_workspaces(rows.nodes, rows.quotas, _flavors_of)})


@row_scope.whole()
def read_bounds(nodes: Sequence[WorkspaceNode]) -> dict[uuid.UUID, list[StoredQuota]]:
    """Read the limits of the workspaces among these nodes that borrow less than is stored, all or none of
    each; see `bound_workspaces`."""
    workspaces = {node.parent_id for node in nodes if node.is_queue and not node.limits_decided}
    if not workspaces:
        return {}
    concerned = [node for node in nodes if node.parent_id in workspaces or node.pk in workspaces]
    quotas: defaultdict[uuid.UUID, list[StoredQuota]] = defaultdict(list)
    rows = Quota.unscoped.filter(node__in=[node.pk for node in concerned]).order_by("flavor_id", "resource")
    for quota in map(StoredQuota._make, rows.values_list(*StoredQuota._fields)):
        quotas[quota.node_id].append(quota)
    return bound_workspaces(concerned, quotas, _flavors_of)


@row_scope.whole()
def _flavors_of(nodes: Sequence[uuid.UUID]) -> dict[uuid.UUID, set[uuid.UUID]]:
    found: defaultdict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
    rows = QueueFlavor.unscoped.filter(queue__node__in=nodes, queue__closed_at__isnull=True)
    for node_id, flavor_id in rows.values_list("queue__node_id", "flavor_id"):
        found[node_id].add(flavor_id)
    return dict(found)


def sum_reserved(rows: TreeRows, order: NodeOrder) -> dict[FlavorKey, list[int]]:
    """Compute what is reserved at and below each node, by its position, per flavor and resource."""
    counts: defaultdict[tuple[uuid.UUID, str], list[int]] = defaultdict(lambda: [0] * len(order))
    for node, entries in rows.reserved.items():
        position = order.positions[node]
        for entry in entries:
            counts[entry.flavor_id, entry.resource][position] = entry.reserved
    return {
        (flavor_id, Resource(resource)): order.sum_counts(of) for (flavor_id, resource), of in counts.items()
    }


def reserved_in_subtrees(rows: TreeRows) -> Counter[QuotaKey]:
    """Compute what is reserved at and below each node."""
    order = NodeOrder({node.pk: node.parent_id for node in rows.nodes})
    return Counter(
        {
            QuotaKey(node, *key): amount
            for key, amounts in sum_reserved(rows, order).items()
            for node, amount in zip(order.nodes, amounts, strict=True)
            if amount
        }
    )


def load_tree(cell_id: uuid.UUID) -> QuotaTree[FlavorResource]:
    """Build the cell's tree with what is reserved at this moment."""
    return build_tree(read_tree_rows(cell_id))


def build_tree(rows: TreeRows) -> QuotaTree[FlavorResource]:
    """Build the tree that these rows describe, with the limits of workspaces and what is reserved."""
    rows = _bounded(rows)
    tree = QuotaTree[FlavorResource](
        Branch(
            id=str(node.pk),
            parent=str(node.parent_id) if node.parent_id else None,
            limits={
                find_tree_key(quota.flavor_id, quota.resource): quota.limits
                for quota in rows.quotas.get(node.pk, ())
            },
        )
        for node in rows.nodes
    )
    for node_id, entries in rows.reserved.items():
        leaf = str(node_id)
        for entry in entries:
            tree.add_usage(leaf, find_tree_key(entry.flavor_id, entry.resource), entry.reserved)
    return tree
