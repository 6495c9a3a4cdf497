"""Versions of nodes, by which caches of their facts find the changed ones."""

from __future__ import annotations

from django.db.models import F, QuerySet

from clusters.models import Cell, Node


def nodes_changed(nodes: QuerySet[Node]) -> None:
    """Raise the versions of nodes with a changed fact, their own or of their cards, and those of their cells.

    Must run in the transaction of the change, under the lock of the cell.
    """
    cells = set(nodes.values_list("cluster__cell_id", flat=True))
    nodes.update(facts_version=F("facts_version") + 1)
    Cell.unscoped.filter(pk__in=cells).update(inventory_version=F("inventory_version") + 1)
