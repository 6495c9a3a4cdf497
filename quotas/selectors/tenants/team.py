"""Folders in which a viewer may create a team, and the quota that can be divided there."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import WHOLE_CARD, Resource
from quotas.distribution.division import Keep
from quotas.models import Quota, QuotaNode
from quotas.selectors.pools.flavor import list_flavors
from quotas.selectors.pools.pool_size import pool_sizes
from quotas.selectors.tables.quota_sources import QuotaLack, find_lack
from quotas.tree.limits import Amount
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, TenantKind, User
from tenants.selectors.tenant import tenant_get

TEAM_POINTS: Final = (
    Permission.TENANT_EDIT,
    Permission.QUOTA_VIEW,
    Permission.QUOTA_EDIT,
    Permission.QUEUE_EDIT,
)
"""The permissions that a new team needs on its folder; with members also `MEMBER_EDIT`."""


@dataclass(frozen=True, slots=True)
class DivisiblePool:
    """A pool with the GPUs of the parent's quota that no child has; None is unlimited.

    `gpus` are the healthy ones of the pool.
    """

    flavor: Flavor
    unassigned: float | None
    gpus: int


def team_parents(viewer: Actor) -> list[Tenant]:
    """Return the folders in which the viewer may create teams with members, parents first."""
    found = permissions.tenants_with(viewer, Permission.MEMBER_EDIT)
    for point in TEAM_POINTS:
        found = found.filter(pk__in=permissions.tenants_with(viewer, point).values("pk"))
    folders = found.filter(kind=TenantKind.FOLDER, archived_at__isnull=True)
    return list(folders.select_related("parent").order_by("path"))


def team_parent(viewer: User, tenant_id: uuid.UUID) -> Tenant:
    """Return a folder in which the viewer may create teams with members.

    Raises: NotFound; PermissionDenied.
    """
    parent = tenant_get(viewer=viewer, tenant_id=tenant_id)
    for point in (*TEAM_POINTS, Permission.MEMBER_EDIT):
        permissions.require_permission(viewer, point, parent)
    return parent


def divisible_pools(viewer: Actor, parent: Tenant) -> Sequence[DivisiblePool]:
    """Return the pools with GPUs, by name. Raises: NotFound, PermissionDenied."""
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, parent)
    flavors = [flavor for flavor in list_flavors() if flavor.card_model]
    sizes = pool_sizes(flavors)
    rows = Quota.unscoped.filter(
        node__tenant=parent, node__is_queue=False, resource=Resource.GPU_CORES.value, flavor__in=flavors
    )
    left = dict(rows.values_list("flavor_id", "own_nominal"))
    return [
        DivisiblePool(
            flavor,
            None if (own := left.get(flavor.pk, 0)) is None else own / WHOLE_CARD,
            sizes[flavor.pk].count,
        )
        for flavor in flavors
    ]


def find_team_lack(
    viewer: Actor,
    parent: Tenant,
    flavor: Flavor,
    gpus: int,
    *,
    cpu: int | Keep | None = Keep.AS_IS,
    memory: int | Keep | None = Keep.AS_IS,
) -> QuotaLack | None:
    """Find what a folder lacks to give a team so many GPUs of a pool; None where it lacks nothing.

    CPU and memory follow from the pool where they are not given.
    """
    node = QuotaNode.unscoped.select_related("tenant__parent").filter(
        tenant=parent, is_queue=False, cell=flavor.cluster.cell_id
    )
    found = node.first()
    if found is None:
        return None
    size = pool_sizes([flavor])[flavor.pk]
    amounts: dict[Resource, Amount] = size.compute_amounts(gpus)
    for resource, given in ((Resource.CPU, cpu), (Resource.MEMORY, memory)):
        amounts[resource] = size.compute_share(resource, gpus) if isinstance(given, Keep) else given
    wanted = {resource: amount for resource, amount in amounts.items() if amount}
    return find_lack(viewer, found, flavor, wanted)
