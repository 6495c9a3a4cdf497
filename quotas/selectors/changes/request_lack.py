"""The quota that is missing to approve a request, and the part of the request that is available."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from quotas.models import QuotaNode, QuotaRequest
from quotas.selectors.pools.flavor import list_flavors
from quotas.selectors.tables.quota_sources import QuotaLack, find_lack
from quotas.selectors.tables.quota_sums import QuotaSums


@dataclass(frozen=True, slots=True)
class _AskedPool:
    """The requested and the present nominals of one pool; None is unlimited."""

    flavor: Flavor
    items: Sequence[Mapping[str, Any]]
    nominals: Mapping[Resource, int | None]

    def find_increases(self) -> dict[Resource, int]:
        """Return by how much each nominal would rise; nothing for unlimited ones."""
        found = {}
        for item in self.items:
            resource, before = Resource(item["resource"]), self.nominals.get(Resource(item["resource"]), 0)
            if item["nominal"] is not None and before is not None and item["nominal"] > before:
                found[resource] = item["nominal"] - before
        return found


@dataclass(frozen=True, slots=True)
class AskedQuota:
    """The pools of a request that exist, in its order, and the quota of its cell in these pools."""

    node: QuotaNode
    pools: Sequence[_AskedPool]
    sums: QuotaSums


def read_asked_quota(request: QuotaRequest) -> AskedQuota:
    """Read the quota that a request is about."""
    items: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in request.asked:
        if "nominal" in item:
            items.setdefault((item["cluster"], item["flavor"]), []).append(item)
    known = {(one.cluster.name, one.name): one for one in list_flavors([request.node.cell_id])}
    flavors = {place: known[place] for place in items if place in known}
    sums = QuotaSums(request.node.cell_id, flavors=[flavor.pk for flavor in flavors.values()])
    position = sums.order.positions[request.node_id]
    pools = [
        _AskedPool(
            flavor,
            items[place],
            {one: sums.get_sums((flavor.pk, one)).nominals[position] for one in Resource},
        )
        for place, flavor in flavors.items()
    ]
    return AskedQuota(request.node, pools, sums)


def find_request_lacks(viewer: Actor, asked: AskedQuota) -> list[QuotaLack]:
    """Find what is lacking in each pool of a request; none where nothing is, or nothing limits it."""
    node = asked.node
    parent = QuotaNode.unscoped.select_related("tenant__parent").filter(children=node).first()
    if parent is None:
        return []
    found = []
    for pool in asked.pools:
        wanted = pool.find_increases()
        if wanted:
            lack = find_lack(viewer, parent, pool.flavor, wanted, asking=node.pk, sums=asked.sums)
            if lack is not None:
                found.append(lack)
    return found


def find_offer(asked: AskedQuota, lacks: Sequence[QuotaLack]) -> list[dict[str, Any]]:
    """Return the request reduced to what is available: in each pool the same part of each amount, with whole
    GPUs; in a pool that lacks nothing the whole request.

    The result is empty where nothing is available, and where everything is available once quota is raised.
    """
    of_pool = {lack.flavor.pk: lack for lack in lacks}
    found: list[dict[str, Any]] = []
    is_less = False
    for pool in asked.pools:
        increases = pool.find_increases()
        lack = of_pool.get(pool.flavor.pk)
        part, of = _find_part(increases, lack) if lack is not None else (1, 1)
        is_less |= part < of
        for item in pool.items:
            resource = Resource(item["resource"])
            if resource in increases and (more := increases[resource] * part // of):
                place = {name: item[name] for name in ("cluster", "flavor", "resource")}
                found.append({**place, "nominal": (pool.nominals.get(resource) or 0) + more})
    return found if is_less else []


def _find_part(increases: Mapping[Resource, int], lack: QuotaLack) -> tuple[int, int]:
    """Return the part of the increases that is available, as a fraction; with GPUs a number of whole ones."""
    limited = [
        (available, increases[resource])
        for resource, available in lack.available.items()
        if available is not None and increases.get(resource)
    ]
    # The smallest ratio of available to requested amounts, as a fraction.
    part, of = min(limited, key=lambda pair: pair[0] / pair[1], default=(1, 1))
    if part >= of:
        return 1, 1
    gpus = increases.get(Resource.GPU_CARDS, 0)
    return (part * gpus // of, gpus) if gpus else (part, of)
