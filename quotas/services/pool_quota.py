"""Quota of the root tenant for the pools of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Cell, Cluster, Flavor
from clusters.services.flavor import flavor_add, flavors_found
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError
from foundation.core.quantities import Resource
from quotas.distribution.division import Keep
from quotas.models import QuotaChangeSource, QuotaKey
from quotas.selectors.pools.pool_size import PoolSize, pool_sizes
from quotas.services.quota import quota_change, quota_node_ensure
from quotas.services.quota_plan import NodeAmounts, PlannedQuota, QuotaAmount, QuotaTables, quota_plan
from quotas.tree.limits import Amount
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


class NodeResources(StrEnum):
    """The CPU and memory that the root gets: no limit, or what the nodes have."""

    UNLIMITED = "unlimited"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class RootQuota:
    """The root's slug, and what changed of its quota."""

    tenant: str
    changes: Sequence[PlannedQuota]


@transaction.atomic
def pools_create(*, acting_user: Actor, cluster: Cluster) -> list[Flavor]:
    """Create every pool that the labels of a cluster's nodes propose, and give the root quota for all pools.

    Raises: PermissionDenied; Conflict for a name that is taken or without a root.
    """
    plans = flavors_found(acting_user=acting_user, cluster=cluster)
    made = [flavor_add(acting_user=acting_user, cluster=cluster, plan=plan) for plan in plans]
    root_quota_cover(acting_user=acting_user, cluster=cluster)
    return made


@transaction.atomic
def root_quota_cover(
    *, acting_user: Actor, cluster: Cluster, node_resources: NodeResources | None = None
) -> RootQuota:
    """Raise the root's quota to what the pools of `cluster` have; what it has beyond that stays.

    GPUs are counted exactly. CPU and memory are unlimited where nothing was set, unless `node_resources`
    says otherwise; an amount that was set is raised to what the nodes have.
    Raises: PermissionDenied; Conflict where there is no root.
    """
    permissions.require_permission(acting_user, Permission.QUOTA_EDIT)
    root = Tenant.unscoped.filter(parent=None).first()
    if root is None:
        message = _("No root tenant. Run allotment init.")
        raise Conflict(message, code="NO_ROOT", errors=[FieldError("tenant", "NO_ROOT", message)])
    Cell.unscoped.select_for_update().get(pk=cluster.cell_id)
    node = quota_node_ensure(acting_user=acting_user, cell=cluster.cell, tenant=root)
    tables = QuotaTables(cluster.cell_id)
    flavors = list(Flavor.unscoped.filter(cluster=cluster).select_related("cluster").order_by("name"))
    amounts = []
    for flavor in flavors:
        size = pool_sizes([flavor])[flavor.pk]
        for resource in Resource:
            has = tables.get_nominal(QuotaKey(node.pk, flavor.pk, resource))
            wanted = _wanted(resource, size, has, node_resources)
            if has is not None and (wanted is None or wanted > has):
                amounts.append(QuotaAmount(flavor, resource, wanted, Keep.AS_IS, Keep.AS_IS))
    changes = [NodeAmounts(node, amounts)]
    plan = quota_plan(cluster.cell_id, changes, on_top=True)
    quota_change(
        acting_user=acting_user,
        cell_id=cluster.cell_id,
        changes=changes,
        reason=f"pools of cluster {cluster.name}",
        on_top=True,
        source=QuotaChangeSource.EDIT,
    )
    return RootQuota(root.slug, plan.changes)


def _wanted(resource: Resource, size: PoolSize, has: Amount, node_resources: NodeResources | None) -> Amount:
    if resource in size.gpus:
        return size.gpus[resource] if size.count else 0
    if not any(size.nodes.values()):
        return 0
    unlimited = node_resources is NodeResources.UNLIMITED or (node_resources is None and not has)
    return None if unlimited else size.nodes[resource]
