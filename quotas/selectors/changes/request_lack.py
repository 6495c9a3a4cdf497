"""The quota that is lacking to approve a request, and the part of the request that is there."""

from __future__ import annotations

from typing import Any

from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from quotas.models import QuotaNode, QuotaRequest
from quotas.selectors.pools.flavor import find_flavor_named
from quotas.selectors.tables.quota_sources import QuotaLack, find_lack
from quotas.selectors.tables.quota_table import QuotaTable


def find_request_lack(viewer: Actor, request: QuotaRequest) -> QuotaLack | None:
    """Find what is lacking in the pool of the first item; None where nothing is, or nothing limits it."""
    node, wanted = request.node, find_increases(request)
    parent = QuotaNode.unscoped.select_related("tenant__parent").filter(children=node).first()
    pool = find_flavor_named(node.cell_id, request.asked[0]["cluster"], request.asked[0]["flavor"])
    if parent is None or pool is None or not wanted:
        return None
    return find_lack(viewer, parent, pool, wanted, asking=node.pk)


def find_increases(request: QuotaRequest) -> dict[Resource, int]:
    """Return by how much each nominal of the first item's pool would rise; nothing for unlimited ones."""
    now = _nominals(request)
    found = {}
    for item in _items(request):
        resource, before = Resource(item["resource"]), now.get(Resource(item["resource"]), 0)
        if item["nominal"] is not None and before is not None and item["nominal"] > before:
            found[resource] = item["nominal"] - before
    return found


def find_offer(request: QuotaRequest, lack: QuotaLack) -> list[dict[str, Any]]:
    """Return the request cut down to what is available, the same part of each amount and whole GPUs.

    It is empty where that is nothing, and where all of it is available, once quota is raised.
    """
    increases, now = find_increases(request), _nominals(request)
    limited = [
        (available, increases[resource])
        for resource, available in lack.available.items()
        if available is not None and increases.get(resource)
    ]
    if not limited:
        return []
    # As a fraction: the smallest part that all amounts can have.
    part, of = min(limited, key=lambda pair: pair[0] / pair[1])
    if part >= of:
        return []
    gpus = increases.get(Resource.GPU_CARDS, 0)
    if gpus:
        part, of = part * gpus // of, gpus
    found = []
    for item in _items(request):
        resource = Resource(item["resource"])
        if resource in increases and (more := increases[resource] * part // of):
            place = {name: item[name] for name in ("cluster", "flavor", "resource")}
            found.append({**place, "nominal": (now.get(resource) or 0) + more})
    return found


def _items(request: QuotaRequest) -> list[dict[str, Any]]:
    first = request.asked[0]
    return [
        item
        for item in request.asked
        if (item["cluster"], item["flavor"]) == (first["cluster"], first["flavor"]) and "nominal" in item
    ]


def _nominals(request: QuotaRequest) -> dict[Resource, int | None]:
    pool = find_flavor_named(request.node.cell_id, request.asked[0]["cluster"], request.asked[0]["flavor"])
    if pool is None:
        return {}
    table = QuotaTable(request.node.cell_id, flavors=[pool.pk])
    rows = table.compute_rows({request.node_id: ""})[request.node_id]
    return {row.resource: row.nominal for row in rows}
