"""Names of quota nodes for display and for input in forms: the tenant, or the workspace and queue."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection
from typing import Final

from django.db.models import Count, Q, QuerySet

from foundation.core.actor import Actor
from quotas.models import QuotaNode
from quotas.selectors.sight import quota_tenants

_TYPED: Final = re.compile(r"([^/()]+?)(?:/([^/()]+?))?(?: \((.+)\))?")


def node_names(nodes: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return names by id: a tenant's own, and `workspace / queue` for a queue."""
    rows = QuotaNode.unscoped.filter(pk__in=nodes).values_list("pk", "tenant__name", "queue__name")
    return {pk: f"{tenant} / {queue}" if queue else tenant for pk, tenant, queue in rows}


def list_typed_names(viewer: Actor, text: str, limit: int = 20) -> list[tuple[str, str]]:
    """Find the nodes in sight whose names contain `text`: what to type for each, and its name."""
    wanted = Q(queue__name__icontains=text) | Q(tenant__slug__icontains=text)
    wanted |= Q(tenant__name__icontains=text)
    rows = _in_sight(viewer).filter(wanted) if text else _in_sight(viewer)
    columns = ("tenant_id", "tenant__slug", "tenant__name", "queue__name", "cell__name")
    found = list(rows.order_by("tenant__slug", "is_queue", "queue__name").values_list(*columns)[:limit])
    places = QuotaNode.unscoped.filter(is_queue=False, tenant__in={row[0] for row in found}).order_by()
    cells = dict(places.values_list("tenant_id").annotate(count=Count("pk")))
    names = []
    for tenant_id, slug, name, queue, cell in found:
        place = f" ({cell})" if not queue and cells.get(tenant_id, 0) > 1 else ""
        names.append((f"{slug}/{queue}" if queue else slug + place, f"{name} / {queue}" if queue else name))
    return names


def read_typed_nodes(viewer: Actor, typed: str) -> list[QuotaNode]:
    """Return the nodes in sight that a text of `list_typed_names` means: one, or one of each cell."""
    match = _TYPED.fullmatch(typed.strip())
    if match is None:
        return []
    slug, queue, cell = match.groups()
    rows = _in_sight(viewer).filter(tenant__slug=slug)
    rows = rows.filter(queue__name=queue) if queue else rows.filter(is_queue=False)
    if cell:
        rows = rows.filter(cell__name=cell)
    return list(rows.select_related("tenant__parent", "cell", "queue").order_by("cell__name"))


def _in_sight(viewer: Actor) -> QuerySet[QuotaNode]:
    nodes = QuotaNode.unscoped.filter(tenant__in=quota_tenants(viewer))
    return nodes.exclude(queue__closed_at__isnull=False)
