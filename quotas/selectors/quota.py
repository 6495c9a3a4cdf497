"""What a workspace may have, has, and could still get: one row per queue, flavor and resource."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from quotas.distribution.division import totals
from quotas.models import QuotaNode
from quotas.selectors.queue import queue_list
from quotas.selectors.tree import TreeKey, build_tree, subtree_usage, tree_rows
from quotas.tree.limits import Amount
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """One limit with its use, in the resource's unit. None is unlimited.

    `queue` is empty on the row of the workspace itself, whose `nominal` and `used` include its queues'.
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

    @property
    def own_free(self) -> int | None:
        """What of `available` is the own nominal; None where that is unlimited."""
        if self.nominal is None:
            return None
        own = max(0, self.nominal - self.used)
        return own if self.available is None else min(own, self.available)

    @property
    def borrowable(self) -> int | None:
        """What of `available` others would lend; None is unlimited."""
        if self.nominal is None:
            return 0
        return None if self.available is None else self.available - (self.own_free or 0)


def workspace_quota(viewer: Actor, workspace: Tenant) -> list[QuotaRow]:
    """Rows of the workspace, then of its queues by name; flavors by name, resources in their order.

    Rows that are all zero and may not borrow are left out.
    Raises: NotFound, PermissionDenied.
    """
    permissions.require(viewer, Permission.QUOTA_VIEW, workspace)
    queues = queue_list(viewer, workspace)
    own = list(QuotaNode.unscoped.filter(tenant=workspace, is_queue=False).order_by("cell__name"))
    rows: list[QuotaRow] = []
    for cell_id in sorted({node.cell_id for node in own} | {queue.cell_id for queue in queues}):
        cell = _CellQuota(cell_id)
        for node in own:
            if node.cell_id == cell_id:
                rows += cell.rows_of("", node.pk)
        for queue in queues:
            if queue.cell_id == cell_id:
                rows += cell.rows_of(queue.name, queue.node_id)
    return rows


class _CellQuota:
    """The quota tree of a cell, with nominal and use of each node including all nodes below it."""

    def __init__(self, cell_id: uuid.UUID) -> None:
        rows = tree_rows(cell_id)
        self._tree = build_tree(rows)
        flavors = Flavor.unscoped.filter(cluster__cell_id=cell_id).select_related("cluster")
        self._flavors = list(flavors.order_by("name", "pk"))
        parents = {node.pk: node.parent_id for node in rows.nodes}
        own: defaultdict[TreeKey, dict[uuid.UUID, Amount]] = defaultdict(dict)
        for quota in (quota for quotas in rows.quotas.values() for quota in quotas):
            own[str(quota.flavor_id), quota.resource][quota.node_id] = quota.nominal
        self._nominal = {key: totals(parents, amounts) for key, amounts in own.items()}
        self._used = subtree_usage(rows)

    def rows_of(self, queue: str, node: uuid.UUID) -> Iterable[QuotaRow]:
        """The rows of one node that are not all zero."""
        for flavor in self._flavors:
            for resource in Resource:
                row = self._row(queue, node, flavor, resource)
                if row.nominal != 0 or row.used or row.potential != 0:
                    yield row

    def _row(self, queue: str, node: uuid.UUID, flavor: Flavor, resource: Resource) -> QuotaRow:
        key = (str(flavor.pk), resource.value)
        limits = self._tree.limits(str(node), key)
        return QuotaRow(
            queue=queue,
            flavor=flavor,
            resource=resource,
            nominal=self._nominal[key][node] if key in self._nominal else 0,
            borrowing_limit=limits.borrowing_limit,
            lending_limit=limits.lending_limit,
            used=self._used[node, flavor.pk, resource],
            available=_not_below_zero(self._tree.available(str(node), key)),
            potential=_not_below_zero(self._tree.potential(str(node), key)),
        )


def _not_below_zero(amount: int | None) -> int | None:
    return None if amount is None else max(0, amount)
