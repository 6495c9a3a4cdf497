"""The live slices of cards, as plain values, and the starts and ends of allocations on a node."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import Count, QuerySet

from clusters.models import Node
from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from scheduling.models import Allocation, DeviceSlice
from tenants.access import permissions
from tenants.access.permissions import Permission


class LiveSlice(NamedTuple):
    """A live slice of one card: percent points of compute, with its job and workspace."""

    device_id: uuid.UUID
    cores: int
    exclusive: bool
    job_id: uuid.UUID
    job: str
    workspace_id: uuid.UUID
    workspace: str


@dataclass(frozen=True, slots=True)
class NodeHoldEvent:
    """The start (`came`) or the end of an allocation on a node."""

    at: datetime
    came: bool
    allocation: Allocation


_JOB = "allocation__attempt__job"


def _order_slices(rows: QuerySet[DeviceSlice]) -> QuerySet[DeviceSlice, tuple[Any, ...]]:
    job = [f"{_JOB}{part}" for part in ("_id", "__name", "__workspace_id", "__workspace__name")]
    return rows.order_by("device_id", "created_at", "pk").values_list("device_id", "cores", "exclusive", *job)


_HELD_BY_DEVICE: Final = PreparedQuery(
    lambda devices: _order_slices(DeviceSlice.unscoped.filter(released=False, device__pk__any_of=devices))
)
_PODS: Final = PreparedQuery(
    lambda nodes: (
        Allocation.unscoped.filter(node__pk__any_of=nodes, released_at__isnull=True)
        .order_by()
        .values_list("node_id")
        .annotate(pods=Count("pk"))
    )
)


def live_slices(*, viewer: Actor, cluster_id: uuid.UUID | None = None) -> list[LiveSlice]:
    """Return all live slices, by card and age; of all clusters unless one is given. One query.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = DeviceSlice.unscoped.filter(released=False)
    held = _order_slices(rows if cluster_id is None else rows.filter(device__node__cluster_id=cluster_id))
    return [LiveSlice._make(row) for row in held]


def slices_by_device(*, viewer: Actor, devices: Collection[uuid.UUID]) -> dict[uuid.UUID, list[LiveSlice]]:
    """Return the live slices of each of these cards, by age; cards without any are absent. One query.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    found: defaultdict[uuid.UUID, list[LiveSlice]] = defaultdict(list)
    for row in _HELD_BY_DEVICE.for_any(list(devices)):
        part = LiveSlice._make(row)
        found[part.device_id].append(part)
    return dict(found)


def pods_by_node(*, viewer: Actor, node_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Return the number of live allocations on each of the nodes; nodes without any are absent.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return dict(_PODS.for_any(list(node_ids)))


def node_events(*, viewer: Actor, node: Node, limit: int = 12) -> list[NodeHoldEvent]:
    """Return the latest starts and ends of allocations on a node, newest first.

    Raises: PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = Allocation.unscoped.filter(node=node).select_related("task__role", "attempt__job__workspace")
    came = [NodeHoldEvent(row.created_at, True, row) for row in rows.order_by("-created_at", "-pk")[:limit]]
    released = rows.filter(released_at__isnull=False).order_by("-released_at", "-pk")[:limit]
    left = [NodeHoldEvent(row.released_at, False, row) for row in released if row.released_at]
    return sorted(came + left, key=lambda event: (event.at, str(event.allocation.pk)), reverse=True)[:limit]
