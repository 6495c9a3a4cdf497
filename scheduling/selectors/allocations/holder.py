"""The jobs that hold nodes and cards, for platform admins only: it names jobs of every tenant."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from clusters.models import Device, Node
from foundation.core.actor import Actor
from scheduling.models import Allocation, DeviceSlice
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """A live slice of one card; `allocation` has its task, role, attempt, job, workspace and user."""

    allocation: Allocation
    cores: int
    memory_mib: int
    exclusive: bool


_JOB = "attempt__job"
_WITH = ("node", "task__role", f"{_JOB}__workspace", f"{_JOB}__submitted_by")


def node_holds(*, viewer: Actor, nodes: Iterable[Node]) -> dict[uuid.UUID, list[Allocation]]:
    """Return the live allocations by node id, oldest first, in one query.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    found: defaultdict[uuid.UUID, list[Allocation]] = defaultdict(list)
    rows = Allocation.unscoped.filter(node__in=list(nodes), released_at__isnull=True).select_related(*_WITH)
    for row in rows.order_by("created_at", "pk"):
        found[row.node_id].append(row)
    return dict(found)


def device_holds(*, viewer: Actor, devices: Iterable[Device]) -> dict[uuid.UUID, list[DeviceHold]]:
    """Return the live slices by device id, oldest first, in one query.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    found: defaultdict[uuid.UUID, list[DeviceHold]] = defaultdict(list)
    rows = DeviceSlice.unscoped.filter(device__in=list(devices), released=False)
    for row in rows.select_related(*(f"allocation__{name}" for name in _WITH)).order_by("created_at", "pk"):
        found[row.device_id].append(DeviceHold(row.allocation, row.cores, row.memory_mib, row.exclusive))
    return dict(found)
