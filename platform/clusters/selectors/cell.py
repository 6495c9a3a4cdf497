"""Reading cells on behalf of an operator."""

from __future__ import annotations

from django.db.models import Count

from clusters.models import Cell
from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission


def cell_list(*, viewer: Actor) -> list[tuple[str, int, str]]:
    """All cells by name, each with the number of its clusters and its sharing. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    cells = Cell.unscoped.annotate(cluster_count=Count("clusters")).order_by("name", "pk")
    return list(cells.values_list("name", "cluster_count", "sharing"))
