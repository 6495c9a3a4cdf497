"""The measured use of tenants and queues beside their quota: sums over the readings of the last 30 s."""

from __future__ import annotations

import uuid
from typing import Final

from django.utils.translation import gettext as _

from foundation.core.quantities import Resource
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import NodeQuota
from quotas.selectors.tables.quota_tree import QuotaTreeView, tenants_with_point
from telemetry.series import PoolUse, queues_use_by_pool
from tenants.access.permissions import Permission
from tenants.models import Tenant, User

MEASURED: Final = (Resource.GPU_CORES, Resource.GPU_MEMORY)
"""Readings have no other resources."""


def use_of(use: PoolUse, resource: Resource) -> float:
    """Return the used amount of a measured resource, in its own unit."""
    return use.cores_used if resource is Resource.GPU_CORES else float(use.memory_used_mib)


def explain_missing_use(resource: Resource, *, sees_jobs: bool = True) -> str:
    """Say why it is not known what is used."""
    if resource not in MEASURED:
        return _("Only compute and GPU memory are measured")
    return _("No data in the last 30 s") if sees_jobs else _("You can't view these jobs")


class QuotaUse:
    """Knows of whose jobs the viewer may see the use, for one resource."""

    def __init__(self, viewer: User, resource: Resource) -> None:
        self._sees_jobs = tenants_with_point(viewer, Permission.JOB_VIEW)
        self._resource = resource

    def knows(self, tenant_id: uuid.UUID) -> bool:
        """Return whether what a tenant uses may be known."""
        return self._resource in MEASURED and tenant_id in self._sees_jobs

    def explain_missing(self, tenant_id: uuid.UUID) -> str:
        """Say why it is not known what a tenant or its queue uses."""
        return explain_missing_use(self._resource, sees_jobs=tenant_id in self._sees_jobs)


class TreeUse(QuotaUse):
    """The measured use at and below the nodes of a tree, for one resource in its own unit."""

    def __init__(self, viewer: User, view: QuotaTreeView, resource: Resource) -> None:
        super().__init__(viewer, resource)
        self._positions = view.sums.order.positions
        found = queues_use_by_pool(viewer, flavor_id=view.flavor.pk) if resource in MEASURED else {}
        use = {node: one for (node, _flavor), one in found.items() if node in self._positions}
        self._tenths = view.sum_below({node: round(10 * use_of(one, resource)) for node, one in use.items()})
        self._counts = view.sum_below(dict.fromkeys(use, 1))

    def find_used(self, node_id: uuid.UUID, tenant_id: uuid.UUID, reserved: int) -> float | None:
        """Return what is used at and below a node.

        None where something is allocated and nothing measured, and where it may not be known.
        """
        if not self.knows(tenant_id):
            return None
        position = self._positions[node_id]
        if not self._counts[position]:
            return None if reserved else 0.0
        return self._tenths[position] / 10


class TableUse(QuotaUse):
    """The measured use of the nodes in the tables of a tenant, for one resource in its own unit."""

    def __init__(self, viewer: User, tenant: Tenant, resource: Resource) -> None:
        super().__init__(viewer, resource)
        self._use = queues_use_by_pool(viewer, tenant=tenant) if resource in MEASURED else {}

    def find_used(self, node: NodeQuota, row: QuotaRow) -> float | None:
        """Return what is used at and below a node in the pool of a row.

        None where something is allocated and nothing measured, and where it may not be known.
        """
        if not self.knows(node.node.tenant_id):
            return None
        keys = ((queue, row.flavor.pk) for queue in node.queue_nodes)
        use = [use_of(self._use[key], self._resource) for key in keys if key in self._use]
        return sum(use) if use or not row.reserved else None
