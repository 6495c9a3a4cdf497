"""Marks of nodes: by them whoever keeps facts of nodes finds out which have changed."""

from __future__ import annotations

from django.db.models import F, QuerySet

from clusters.models import Cell, Node


def nodes_changed(nodes: QuerySet[Node]) -> None:
    """Raise the marks of nodes of which, or of whose cards, a fact has changed, and those of their cells.

    Belongs into the transaction of the change, under the lock of the cell.
    """
    cells = set(nodes.values_list("cluster__cell_id", flat=True))
    nodes.update(facts_version=F("facts_version") + 1)
    Cell.unscoped.filter(pk__in=cells).update(inventory_version=F("inventory_version") + 1)
