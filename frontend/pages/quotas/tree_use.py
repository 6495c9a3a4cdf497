"""The measured use of a pool by the tenants of a quota tree."""

from __future__ import annotations

import uuid

from foundation.core.quantities import Resource
from quotas.selectors.tables.quota_tree import QuotaTreeView, tenants_with_point
from telemetry.series import UseNow, workspaces_use_in_pool
from tenants.access.permissions import Permission
from tenants.models import User


class TreeUse:
    """The measured use at and below the tenants of a tree, for one resource in its own unit."""

    def __init__(self, viewer: User, view: QuotaTreeView, resource: Resource) -> None:
        self._positions = view.sums.order.positions
        self._sees_jobs = tenants_with_point(viewer, Permission.JOB_VIEW)
        self._is_measured = resource in (Resource.GPU_CORES, Resource.GPU_MEMORY)
        self._resource = resource
        found = workspaces_use_in_pool(viewer, view.flavor.pk) if self._is_measured else {}
        nodes = {place.tenant_id: place.pk for place in view.sums.places if not place.is_queue}
        use = {nodes[workspace]: one for workspace, one in found.items() if workspace in nodes}
        self._tenths = view.sum_below({node: round(10 * self._amount(one)) for node, one in use.items()})
        self._counts = view.sum_below(dict.fromkeys(use, 1))

    def find_used(self, node_id: uuid.UUID, tenant_id: uuid.UUID, reserved: int) -> float | None:
        """Return what is used at and below a tenant.

        None where something is allocated and nothing measured, and without the permission to see its jobs.
        """
        if not self._is_measured or tenant_id not in self._sees_jobs:
            return None
        position = self._positions[node_id]
        if not self._counts[position]:
            return None if reserved else 0.0
        return self._tenths[position] / 10

    def _amount(self, use: UseNow) -> float:
        return use.cores_used if self._resource is Resource.GPU_CORES else use.memory_used_mib
