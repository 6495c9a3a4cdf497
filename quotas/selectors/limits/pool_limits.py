"""The limits of one node in one pool, as forms show them, and the sums of quota that pools assign.

Reserved, lent and available amounts are not part of it. Distributed quota counts at the tenants that received
it, so own amounts add up to the whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.models import Quota, QuotaNode
from quotas.tree.limits import Amount
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class SetLimits:
    """The limits of one resource; None is unlimited. `nominal` is that of the node and all below it."""

    nominal: Amount = 0
    borrowing_limit: Amount = None
    lending_limit: Amount = None


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """A node with its limits in one pool."""

    node: QuotaNode
    flavor: Flavor
    limits: Mapping[Resource, SetLimits]

    @property
    def queue(self) -> str:
        """The name of the node's queue, empty at a tenant."""
        return self.node.queue.name if self.node.is_queue else ""

    @property
    def name(self) -> str:
        """The name of the tenant, or of its workspace and queue."""
        tenant = self.node.tenant.name
        return f"{tenant} / {self.queue}" if self.queue else tenant


def pool_limits(viewer: Actor, node: QuotaNode, flavor: Flavor) -> PoolLimits:
    """Return the limits of a node in a pool, in two queries.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, node.tenant)
    nominals = _sum_node_nominals(node, flavor)
    rows = Quota.unscoped.filter(node=node, flavor=flavor)
    stored = {row.resource: row for row in rows}
    limits = {}
    for resource in Resource:
        own = stored.get(resource.value)
        limits[resource] = SetLimits(
            nominals.get(resource.value, 0),
            own.borrowing_limit if own else None,
            own.lending_limit if own else None,
        )
    return PoolLimits(node, flavor, limits)


@row_scope.whole()
def sum_nominals(flavors: Iterable[Flavor]) -> dict[uuid.UUID, Amount]:
    """Return the compute of each of these pools that is assigned as quota, in percent points of a GPU.

    A pool without quota is absent. Quota of all tenants is counted, whatever the caller may see.
    """
    rows = Quota.unscoped.filter(flavor__in=list(flavors), resource=Resource.GPU_CORES.value)
    return _sum_by("flavor", rows)


@row_scope.whole()
def _sum_node_nominals(node: QuotaNode, flavor: Flavor) -> dict[str, Amount]:
    """Sum by resource the own nominals of a node and all nodes below it."""
    rows = Quota.unscoped.filter(flavor=flavor)
    if node.is_queue:
        rows = rows.filter(node=node)
    else:
        rows = rows.filter(node__cell=node.cell_id, node__tenant__path__startswith=node.tenant.path)
    return _sum_by("resource", rows)


def _sum_by(column: str, rows: QuerySet[Quota]) -> dict[Any, Amount]:
    """Sum own amounts by a column; one unlimited quota makes the sum unlimited."""
    sums = (
        rows.order_by()
        .values_list(column)
        .annotate(total=Sum("own_nominal"), unlimited=Count("pk", filter=Q(own_nominal__isnull=True)))
    )
    return {value: None if unlimited else total for value, total, unlimited in sums}
