"""The limits of one node in one pool, as forms show them: without what is reserved, lent or could be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Q, Sum

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
    nominals = _sum_nominals(node, flavor)
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
def _sum_nominals(node: QuotaNode, flavor: Flavor) -> dict[str, Amount]:
    """Sum by resource what a node and all nodes below it have of their own."""
    rows = Quota.unscoped.filter(flavor=flavor)
    if node.is_queue:
        rows = rows.filter(node=node)
    else:
        rows = rows.filter(node__cell=node.cell_id, node__tenant__path__startswith=node.tenant.path)
    sums = (
        rows.order_by()
        .values_list("resource")
        .annotate(total=Sum("own_nominal"), unlimited=Count("pk", filter=Q(own_nominal__isnull=True)))
    )
    return {resource: None if unlimited else total for resource, total, unlimited in sums}
