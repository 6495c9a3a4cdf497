"""The measured use of tenants and queues beside their quota: sums over the readings of the last 30 s."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from foundation.core.quantities import Resource
from frontend.texts.allocated_use import MEASURED, AllocatedUse, build_use, explain_use
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import NodeQuota
from quotas.selectors.tables.quota_tree import QuotaTreeView, tenants_with_point
from telemetry.series import PoolUse, queues_use_by_pool
from tenants.access.permissions import Permission
from tenants.models import Tenant, User


class QuotaUse:
    """Checks the use of which tenants' jobs the viewer may see, for one resource."""

    def __init__(self, viewer: User, resource: Resource) -> None:
        self._sees_jobs = tenants_with_point(viewer, Permission.JOB_VIEW)
        self._resource = resource

    def is_visible(self, tenant_id: uuid.UUID) -> bool:
        """Return whether the viewer may see the use of a tenant."""
        return self._resource in MEASURED and tenant_id in self._sees_jobs

    def explain_use(
        self, use: AllocatedUse | None, tenant_id: uuid.UUID, format_amount: Callable[[int], str]
    ) -> str:
        """Return why the use of a tenant or its queue is unknown or known only in part; empty otherwise."""
        sees_jobs = tenant_id in self._sees_jobs
        return explain_use(use, self._resource, format_amount, sees_jobs=sees_jobs)


class TreeUse(QuotaUse):
    """The measured use at and below the nodes of a tree, for one resource in its own unit."""

    def __init__(self, viewer: User, view: QuotaTreeView, resource: Resource) -> None:
        super().__init__(viewer, resource)
        self._positions = view.sums.order.positions
        found = queues_use_by_pool(viewer, flavor_id=view.flavor.pk) if resource in MEASURED else {}
        use = {node: one for (node, _flavor), one in found.items() if node in self._positions}
        parts = {node: build_use(one, resource, 0) for node, one in use.items()}
        self._tenths = view.sum_below({node: round(10 * one.used) for node, one in parts.items() if one})
        self._measured = view.sum_below({node: one.measured for node, one in parts.items() if one})
        self._counts = view.sum_below(dict.fromkeys(use, 1))

    def find_use(self, node_id: uuid.UUID, tenant_id: uuid.UUID, reserved: int) -> AllocatedUse | None:
        """Return the use at and below a node.

        None if a part is allocated and nothing measured, and if the viewer may not see it.
        """
        if not self.is_visible(tenant_id):
            return None
        position = self._positions[node_id]
        if not self._counts[position]:
            return build_use(None, self._resource, reserved)
        return AllocatedUse(self._tenths[position] / 10, self._measured[position], reserved)


class TableUse(QuotaUse):
    """The measured use of the nodes in the tables of a tenant, for one resource in its own unit."""

    def __init__(self, viewer: User, tenant: Tenant, resource: Resource) -> None:
        super().__init__(viewer, resource)
        self._use = queues_use_by_pool(viewer, tenant=tenant) if resource in MEASURED else {}

    def find_use(self, node: NodeQuota, row: QuotaRow) -> AllocatedUse | None:
        """Return the use at and below a node in the pool of a row.

        None if a part is allocated and nothing measured, and if the viewer may not see it.
        """
        if not self.is_visible(node.node.tenant_id):
            return None
        keys = ((queue, row.flavor.pk) for queue in node.queue_nodes)
        found = [self._use[key] for key in keys if key in self._use]
        total = PoolUse(*map(sum, zip(*found, strict=True))) if found else None
        return build_use(total, self._resource, row.reserved)
