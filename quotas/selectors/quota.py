"""What a workspace may have, has, and could still get: one row per queue, flavor and resource."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from clusters.models import Flavor
from foundation.actor import Actor
from foundation.quantities import Resource
from quotas.models import QuotaNode
from quotas.selectors.queue import queue_list
from quotas.selectors.tree import TreeKey, tree_load
from quotas.tree import Limits, QuotaTree
from tenants import permissions
from tenants.models import Tenant
from tenants.permissions import Permission


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """One limit with its use, in the resource's unit. None is unlimited.

    `queue` is empty on the row of the workspace itself, whose `used` is the sum of its queues.
    `available` is what could be added now, borrowing included; `potential` what could be used at most
    if nobody else used anything. Neither is below zero.
    """

    queue: str
    flavor: Flavor
    resource: Resource
    nominal: int | None
    borrowing_limit: int | None
    lending_limit: int | None
    used: int
    available: int | None
    potential: int | None

    @property
    def borrowed(self) -> int:
        """What is used above the own nominal."""
        return 0 if self.nominal is None else max(0, self.used - self.nominal)


def workspace_quota(viewer: Actor, workspace: Tenant) -> list[QuotaRow]:
    """Rows of the workspace, then of its queues by name; flavors by name, resources in their order.

    Rows that are all zero and may not borrow are left out.
    Raises: NotFound, PermissionDenied.
    """
    permissions.require(viewer, Permission.QUOTA_VIEW, workspace)
    queues = queue_list(viewer, workspace)
    own = list(QuotaNode.unscoped.filter(tenant=workspace, is_queue=False).order_by("cell__name"))
    cells = sorted({node.cell_id for node in own} | {queue.cell_id for queue in queues})
    rows: list[QuotaRow] = []
    for cell_id in cells:
        tree = tree_load(cell_id)
        flavors = list(
            Flavor.unscoped.filter(cluster__cell_id=cell_id).select_related("cluster").order_by("name", "pk")
        )
        for node in own:
            if node.cell_id == cell_id:
                rows += _rows("", node.pk, tree, flavors)
        for queue in queues:
            if queue.cell_id == cell_id:
                rows += _rows(queue.name, queue.node_id, tree, flavors)
    return rows


def _rows(
    queue: str, node_id: uuid.UUID, tree: QuotaTree[TreeKey], flavors: Iterable[Flavor]
) -> Iterable[QuotaRow]:
    for flavor in flavors:
        for resource in Resource:
            row = _row(queue, str(node_id), tree, flavor, resource)
            if row.nominal != 0 or row.used or row.potential != 0:
                yield row


def _row(queue: str, node: str, tree: QuotaTree[TreeKey], flavor: Flavor, resource: Resource) -> QuotaRow:
    key = (str(flavor.pk), resource.value)
    limits: Limits = tree.limits(node, key)
    return QuotaRow(
        queue=queue,
        flavor=flavor,
        resource=resource,
        nominal=limits.nominal,
        borrowing_limit=limits.borrowing_limit,
        lending_limit=limits.lending_limit,
        used=tree.usage(node, key),
        available=_not_below_zero(tree.available(node, key)),
        potential=_not_below_zero(tree.potential(node, key)),
    )


def _not_below_zero(amount: int | None) -> int | None:
    return None if amount is None else max(0, amount)
