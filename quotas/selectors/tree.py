"""The quota tree of a cell as the arithmetic needs it: limits and usage, read in two queries."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from foundation.core.quantities import Resource
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from quotas.models import LedgerEntry, QueueFlavor, Quota, QuotaNode
from quotas.selectors.workspace_limits import QuotaRow, bound_workspaces
from quotas.tree import Branch, Limits, QuotaTree

TreeKey = tuple[str, str]
"""(flavor id, resource name)."""


_NODES: Final = PreparedQuery(lambda cell: QuotaNode.unscoped.filter(cell_id=cell).order_by("id"))


class UsedRow(NamedTuple):
    """What the ledger says is used."""

    node_id: uuid.UUID
    flavor_id: uuid.UUID
    resource: str
    used: int


_QUOTAS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell: (
        Quota.unscoped.filter(node__cell_id=cell)
        .order_by("flavor_id", "resource")
        .values_list(*QuotaRow._fields)
    )
)
_USED: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell: (
        LedgerEntry.unscoped.filter(node__cell_id=cell, used__gt=0)
        .order_by("flavor_id", "resource")
        .values_list(*UsedRow._fields)
    )
)


@dataclass(frozen=True, slots=True)
class TreeRows:
    """Nodes of one cell, and per node id its quotas and what the ledger says it uses."""

    nodes: list[QuotaNode]
    quotas: Mapping[uuid.UUID, Sequence[QuotaRow]]
    used: Mapping[uuid.UUID, Sequence[UsedRow]]


@row_scope.whole()
def tree_rows(cell_id: uuid.UUID) -> TreeRows:
    """Read the rows of a cell's tree, in a fixed order."""
    nodes = _NODES(cell_id)
    quotas: defaultdict[uuid.UUID, list[QuotaRow]] = defaultdict(list)
    for quota in map(QuotaRow._make, _QUOTAS(cell_id)):
        quotas[quota.node_id].append(quota)
    used: defaultdict[uuid.UUID, list[UsedRow]] = defaultdict(list)
    for entry in map(UsedRow._make, _USED(cell_id)):
        used[entry.node_id].append(entry)
    return TreeRows(nodes, dict(quotas), dict(used))


def engine_rows(cell_id: uuid.UUID) -> TreeRows:
    """The rows of a cell's tree as what admits jobs sees them: with the limits of workspaces.

    Nothing else bounds what is admitted. What is shown and written goes by the rows as they are stored.
    """
    return _bounded(tree_rows(cell_id))


def _bounded(rows: TreeRows) -> TreeRows:
    return replace(rows, quotas={**rows.quotas, **bound_workspaces(rows.nodes, rows.quotas, _flavors_of)})


@row_scope.whole()
def _flavors_of(nodes: Sequence[uuid.UUID]) -> dict[uuid.UUID, set[uuid.UUID]]:
    found: defaultdict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
    rows = QueueFlavor.unscoped.filter(queue__node__in=nodes, queue__closed_at__isnull=True)
    for node_id, flavor_id in rows.values_list("queue__node_id", "flavor_id"):
        found[node_id].add(flavor_id)
    return dict(found)


def subtree_usage(rows: TreeRows) -> Counter[tuple[uuid.UUID, uuid.UUID, Resource]]:
    """Compute what is used at and below each node, by node, flavor and resource."""
    parents = {node.pk: node.parent_id for node in rows.nodes}
    found: Counter[tuple[uuid.UUID, uuid.UUID, Resource]] = Counter()
    for entries in rows.used.values():
        for entry in entries:
            node: uuid.UUID | None = entry.node_id
            while node is not None:
                found[node, entry.flavor_id, Resource(entry.resource)] += entry.used
                node = parents[node]
    return found


def tree_load(cell_id: uuid.UUID) -> QuotaTree[TreeKey]:
    """Build the cell's tree with its usage of this moment."""
    return build_tree(tree_rows(cell_id))


def build_tree(rows: TreeRows) -> QuotaTree[TreeKey]:
    """Build the tree that these rows describe, with the limits of workspaces and with their usage."""
    rows = _bounded(rows)
    tree = QuotaTree[TreeKey](
        Branch(
            id=str(node.pk),
            parent=str(node.parent_id) if node.parent_id else None,
            limits={
                (str(q.flavor_id), q.resource): Limits(q.nominal, q.borrowing_limit, q.lending_limit)
                for q in rows.quotas.get(node.pk, ())
            },
        )
        for node in rows.nodes
    )
    for node_id, entries in rows.used.items():
        for entry in entries:
            tree.add_usage(str(node_id), (str(entry.flavor_id), entry.resource), entry.used)
    return tree
