"""Sums of the quota in a viewer's sight over pools, and the workspaces that use the least of their quota."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.hooks.job_effects import PendingDemand, get_provider
from quotas.models import QuotaNode
from quotas.selectors.pools.pool_size import pool_sizes
from quotas.selectors.sight import quota_tenants
from quotas.selectors.tables.quota_tree import tenants_with_point, tree_flavors
from quotas.selectors.tenants.usage import FlavorUsage, TenantUsage, tenant_usage
from quotas.tree.limits import Amount, add_amounts
from tenants.access.permissions import Permission
from tenants.models import Tenant, TenantKind


@dataclass(frozen=True, slots=True)
class PoolTotal:
    """One pool, in percent points of a GPU. `capacity` is that of its healthy GPUs.

    `nominal` and `reserved` are those of the topmost tenants in sight, None is unlimited. `pending` is what
    pending jobs request that may start there; a job that may start in several pools counts in each.
    """

    flavor: Flavor
    capacity: int
    nominal: Amount
    reserved: int
    pending: int


@dataclass(frozen=True, slots=True)
class WorkspaceRate:
    """A workspace with limited quota, over all pools in which it is limited, in percent points of a GPU."""

    workspace: Tenant
    nominal: int
    reserved: int

    @property
    def rate(self) -> float:
        """The percentage of the nominal that is reserved."""
        return 100 * self.reserved / self.nominal


@dataclass(frozen=True, slots=True)
class QuotaTotals:
    """The pools by name, and workspaces by rate, the lowest first."""

    pools: Sequence[PoolTotal]
    workspaces: Sequence[WorkspaceRate]
    pending_jobs: int
    pending_gpus: int

    @property
    def capacity(self) -> int:
        return sum(pool.capacity for pool in self.pools)

    @property
    def nominal(self) -> Amount:
        """The nominal of all pools; None as soon as one is unlimited."""
        total: Amount = 0
        for pool in self.pools:
            total = add_amounts(total, pool.nominal)
        return total

    @property
    def reserved(self) -> int:
        return sum(pool.reserved for pool in self.pools)


def quota_totals(viewer: Actor) -> QuotaTotals:
    """Sum up the quota in a viewer's sight, with a fixed number of queries."""
    seen = tenants_with_point(viewer, Permission.QUOTA_VIEW)
    usages = [usage for usage in tenant_usage(viewer=viewer) if usage.tenant.pk in seen]
    demand = _count_pending(viewer)
    flavors = [flavor for flavor in tree_flavors(viewer) if flavor.card_model]
    workspaces = (_rate(usage) for usage in usages if usage.tenant.kind == TenantKind.WORKSPACE)
    limited = [one for one in workspaces if one.nominal]
    return QuotaTotals(
        pools=_pools(flavors, usages, demand),
        workspaces=sorted(limited, key=lambda one: (one.rate, -one.nominal, one.workspace.name)),
        pending_jobs=sum(one.jobs for one in demand.values()),
        pending_gpus=sum(one.cards for one in demand.values()),
    )


def _pools(
    flavors: Sequence[Flavor], usages: Sequence[TenantUsage], demand: Mapping[uuid.UUID, PendingDemand]
) -> list[PoolTotal]:
    sizes = pool_sizes(flavors)
    inside = {usage.tenant.pk for usage in usages}
    tops = [part for usage in usages if usage.tenant.parent_id not in inside for part in usage.flavors]
    asked: Counter[uuid.UUID] = Counter()
    for one in demand.values():
        asked.update(one.flavor_cards)
    return [
        PoolTotal(
            flavor=flavor,
            capacity=sizes[flavor.pk].gpus[Resource.GPU_CORES] or 0,
            nominal=_nominal(part for part in tops if part.flavor.pk == flavor.pk),
            reserved=sum(part.reserved for part in tops if part.flavor.pk == flavor.pk),
            pending=100 * asked[flavor.pk],
        )
        for flavor in flavors
    ]


def _nominal(parts: Iterable[FlavorUsage]) -> Amount:
    total: Amount = 0
    for part in parts:
        total = add_amounts(total, part.nominal)
    return total


def _rate(usage: TenantUsage) -> WorkspaceRate:
    limited = [part for part in usage.flavors if part.nominal is not None]
    nominal = sum(part.nominal or 0 for part in limited)
    return WorkspaceRate(usage.tenant, nominal, sum(part.reserved for part in limited))


@row_scope.whole()
def _count_pending(viewer: Actor) -> Mapping[uuid.UUID, PendingDemand]:
    queues = QuotaNode.unscoped.filter(is_queue=True, tenant__in=quota_tenants(viewer))
    return get_provider().count_pending(list(queues.order_by().values_list("pk", flat=True)))
