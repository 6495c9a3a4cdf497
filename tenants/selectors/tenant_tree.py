"""The tenants in a viewer's sight as a list: filtered by the database, parents before children."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Q, QuerySet

from foundation.core.actor import Actor
from foundation.web.listing import Column, ColumnKind
from tenants.access import permissions
from tenants.models import Tenant, TenantKind

TENANT_COLUMNS: Final = {
    "slug": Column("slug"),
    "name": Column("name"),
    "kind": Column("kind"),
    "parent": Column("parent_id", ColumnKind.ID),
}
"""The columns by which a list of tenants can be filtered."""


@dataclass(frozen=True, slots=True)
class TreePlace:
    """A tenant in the order of the tree. `depth` counts its ancestors in the same list."""

    pk: uuid.UUID
    depth: int = 0


def tenant_query(*, viewer: Actor, archived: bool = False) -> QuerySet[Tenant]:
    """Return the tenants in sight, unordered; with `archived`, also archived ones."""
    rows = permissions.visible_tenants(viewer)
    return rows if archived else rows.filter(archived_at__isnull=True)


def order_as_tree(rows: QuerySet[Tenant]) -> list[TreePlace]:
    """Return the positions of tenants, with parents before children and siblings by name."""
    below: dict[uuid.UUID | None, list[uuid.UUID]] = {}
    found = list(rows.order_by("name", "pk").values_list("pk", "parent_id"))
    listed = {pk for pk, _parent in found}
    for pk, parent in found:
        below.setdefault(parent if parent in listed else None, []).append(pk)
    ordered: list[TreePlace] = []
    stack = [TreePlace(pk) for pk in reversed(below.get(None, []))]
    while stack:
        place = stack.pop()
        ordered.append(place)
        stack.extend(TreePlace(pk, place.depth + 1) for pk in reversed(below.get(place.pk, [])))
    return ordered


def tenants_at(places: Sequence[TreePlace]) -> dict[uuid.UUID, Tenant]:
    """Return the tenants at these positions with their parents; the positions were in the viewer's sight."""
    return Tenant.unscoped.select_related("parent").in_bulk([place.pk for place in places])


def count_below(rows: QuerySet[Tenant], tenants: Sequence[Tenant]) -> Mapping[uuid.UUID, Counter[str]]:
    """Count the `rows` below each folder among `tenants`, by their kind: one query."""
    folders = {str(one.pk): one.pk for one in tenants if one.kind == TenantKind.FOLDER}
    below = Q(pk__in=[])
    for one in tenants:
        if one.kind == TenantKind.FOLDER:
            below |= Q(path__startswith=one.path)
    counts: dict[uuid.UUID, Counter[str]] = {pk: Counter() for pk in folders.values()}
    for path, kind in rows.filter(below).values_list("path", "kind") if folders else ():
        for above in path.strip("/").split("/")[:-1]:
            if above in folders:
                counts[folders[above]][kind] += 1
    return counts
