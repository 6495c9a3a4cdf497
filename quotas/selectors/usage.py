"""Reserved, borrowed and lent quota of tenants, for the tree of the console.

Counted in percent points of cards (`gpu.cores`): 100 is one card, so whole cards and slices add up.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.distribution.lending import compute_borrowed, compute_lent
from quotas.distribution.node_order import NodeOrder
from quotas.models import LedgerEntry, Quota, QuotaNode
from quotas.tree.limits import NodeLimits
from tenants.models import Tenant
from tenants.selectors.tenant import tenant_list


@dataclass(frozen=True, slots=True)
class FlavorUsage:
    """One pool of one tenant, in percent points of a card.

    `nominal` None is unlimited. `borrowed` lies within `reserved`; `lent` is nominal that others reserve
    now. All are those of the tenant's node in the quota tree, as on the pages of quota.
    """

    flavor: Flavor
    nominal: int | None
    reserved: int
    borrowed: int
    lent: int


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """A tenant with its depth below the viewer's topmost tenant, and its pools."""

    tenant: Tenant
    depth: int
    flavors: Sequence[FlavorUsage]

    @property
    def reserved(self) -> int:
        return sum(part.reserved for part in self.flavors)

    @property
    def borrowed(self) -> int:
        return sum(part.borrowed for part in self.flavors)

    @property
    def lent(self) -> int:
        return sum(part.lent for part in self.flavors)


def tenant_usage(*, viewer: Actor) -> list[TenantUsage]:
    """Every tenant in the viewer's sight, parents first, with the pools of which it has or reserves quota."""
    pools = _read_pools()
    depths: dict[uuid.UUID, int] = {}
    usages = []
    for tenant in tenant_list(viewer=viewer):
        depths[tenant.pk] = depths[tenant.parent_id] + 1 if tenant.parent_id in depths else 0
        usages.append(TenantUsage(tenant, depths[tenant.pk], pools.get(tenant.pk, [])))
    return usages


@row_scope.whole()
def _read_pools() -> dict[uuid.UUID, list[FlavorUsage]]:
    """The pools of each tenant by name, in four queries.

    Everything is read, whatever the viewer may see: what a tenant lends depends on all others.
    """
    nodes = QuotaNode.unscoped.order_by("pk").values_list("pk", "parent_id", "tenant_id", "is_queue")
    order = NodeOrder({pk: parent for pk, parent, _tenant, _is_queue in nodes})
    tenants = {order.positions[pk]: tenant for pk, _parent, tenant, is_queue in nodes if not is_queue}
    limits: defaultdict[uuid.UUID, list[NodeLimits | None]] = defaultdict(lambda: [None] * len(order))
    reserved: defaultdict[uuid.UUID, list[int]] = defaultdict(lambda: [0] * len(order))
    rows = Quota.unscoped.filter(resource=Resource.GPU_CORES.value)
    amounts = ("own_nominal", "borrowing_limit", "lending_limit")
    for node, flavor_id, *values in rows.values_list("node_id", "flavor_id", *amounts):
        limits[flavor_id][order.positions[node]] = NodeLimits(*values)
    ledger = LedgerEntry.unscoped.filter(resource=Resource.GPU_CORES.value, reserved__gt=0)
    for node, flavor_id, amount in ledger.values_list("node_id", "flavor_id", "reserved"):
        reserved[flavor_id][order.positions[node]] += amount
    found: defaultdict[uuid.UUID, list[FlavorUsage]] = defaultdict(list)
    for flavor in Flavor.unscoped.select_related("cluster").order_by("name", "id"):
        if flavor.pk in limits or flavor.pk in reserved:
            for position, usage in _compute_pool(order, flavor, limits[flavor.pk], reserved[flavor.pk]):
                if position in tenants:
                    found[tenants[position]].append(usage)
    return found


def _compute_pool(
    order: NodeOrder, flavor: Flavor, limits: Sequence[NodeLimits | None], charged: Sequence[int]
) -> Iterator[tuple[int, FlavorUsage]]:
    """The amounts of the nodes at and below which there are limits of the pool or charges, by position."""
    nominals = order.sum_amounts([0 if of is None else of.own_nominal for of in limits])
    reserved = order.sum_counts(charged)
    borrowed = compute_borrowed(nominals, reserved)
    lent = compute_lent(order, limits, nominals, reserved)
    known = order.sum_counts([int(of is not None) for of in limits])
    for position in range(len(order)):
        if known[position] or reserved[position]:
            amounts = (nominals[position], reserved[position], borrowed[position], lent[position])
            yield position, FlavorUsage(flavor, *amounts)
