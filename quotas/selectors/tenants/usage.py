"""Reserved, borrowed and lent quota of tenants, for the tree of the console.

Counted in percent points of cards (`gpu.cores`): 100 is one card, so whole cards and slices add up.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.selectors.tables.quota_sums import QuotaSums
from tenants.access import permissions
from tenants.access.permissions import Permission
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
    """Return every tenant in the viewer's sight, parents first, with the pools in which it has or reserves
    quota.
    """
    pools = _read_pools()
    depths: dict[uuid.UUID, int] = {}
    usages = []
    for tenant in tenant_list(viewer=viewer):
        depths[tenant.pk] = depths[tenant.parent_id] + 1 if tenant.parent_id in depths else 0
        usages.append(TenantUsage(tenant, depths[tenant.pk], pools.get(tenant.pk, [])))
    return usages


def tenant_pools(*, viewer: Actor, tenant: Tenant) -> list[FlavorUsage]:
    """Return the pools of one tenant by name; none where the viewer may not see the tenant."""
    if not permissions.has_permission(viewer, Permission.TENANT_VIEW, tenant):
        return []
    return _read_pools(tenant).get(tenant.pk, [])


@row_scope.whole()
def _read_pools(only: Tenant | None = None) -> dict[uuid.UUID, list[FlavorUsage]]:
    """Return the pools of each tenant by name, or of one of them, in four queries.

    All rows are read, whatever the viewer may see: what a tenant lends depends on all other tenants.
    """
    sums = QuotaSums(None, resources=[Resource.GPU_CORES])
    tenants = {
        sums.order.positions[place.pk]: place.tenant_id
        for place in sums.places
        if not place.is_queue and (only is None or place.tenant_id == only.pk)
    }
    found: defaultdict[uuid.UUID, list[FlavorUsage]] = defaultdict(list)
    for flavor in Flavor.unscoped.select_related("cluster").order_by("name", "id"):
        if (flavor.pk, Resource.GPU_CORES) in sums.keys:
            of = sums.get_sums((flavor.pk, Resource.GPU_CORES))
            # Nodes at and below which there are limits of the pool, or quota is reserved.
            known = sums.order.sum_counts([int(limits is not None) for limits in of.limits])
            for position, tenant in tenants.items():
                if known[position] or of.reserved[position]:
                    nominal, reserved = of.nominals[position], of.reserved[position]
                    usage = FlavorUsage(flavor, nominal, reserved, of.borrowed[position], of.lent[position])
                    found[tenant].append(usage)
    return found
