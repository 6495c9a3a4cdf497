"""Reads cells for an operator."""

from __future__ import annotations

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from clusters.models import Cell
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.sql import row_scope
from tenants.access import permissions
from tenants.access.permissions import Permission


def cell_list(*, viewer: Actor) -> QuerySet[Cell]:
    """Return all cells by name, with their clusters prefetched. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return Cell.unscoped.prefetch_related("clusters").order_by("name", "pk")


def cell_get(*, viewer: Actor, name: str) -> Cell:
    """Return one cell by name. Raises: PermissionDenied, NotFound."""
    found = cell_list(viewer=viewer).filter(name=name).first()
    if found is None:
        raise NotFound(_("Scheduling domain %(name)s not found.") % {"name": name})
    return found


@row_scope.whole()
def has_cells() -> bool:
    """Return whether the installation has a cell; checks no permission."""
    return Cell.unscoped.exists()


def cell_marks() -> list[tuple[int, ...]]:
    """Return a mark that differs after every change of nodes and quota, and after every cycle."""
    marks = Cell.unscoped.order_by("pk").values_list("inventory_version", "quota_version", "cycle_number")
    return list(marks)
