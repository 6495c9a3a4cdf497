"""Free GPUs in the pools of a workspace's queues: sums only, without names of other tenants."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Q

from clusters.models import Device, Flavor
from foundation.core.actor import Actor
from quotas.selectors.queues.queue import queue_list
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class WorkspacePool:
    """One pool. `cards` counts its GPUs, `largest_node` those of its largest node.

    `free_by_node` counts by node the usable GPUs that no pod holds, whether of Allotment or of another owner.
    """

    flavor: Flavor
    cards: int
    largest_node: int
    free_by_node: Mapping[uuid.UUID, int]

    @property
    def free(self) -> int:
        """The number of free GPUs."""
        return sum(self.free_by_node.values())

    @property
    def one_node(self) -> int:
        """The most free GPUs of one node."""
        return max(self.free_by_node.values(), default=0)


def pool_list(viewer: Actor, workspace: Tenant) -> list[WorkspacePool]:
    """Return the pools with GPUs that any queue of the workspace may use, in the queues' order of trying.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, workspace)
    flavors: dict[uuid.UUID, Flavor] = {}
    for queue in queue_list(viewer, workspace):
        for place in queue.queue_flavors.all():
            if place.flavor.card_model:
                flavors.setdefault(place.flavor_id, place.flavor)
    cards: defaultdict[uuid.UUID, Counter[uuid.UUID]] = defaultdict(Counter)
    free: defaultdict[uuid.UUID, Counter[uuid.UUID]] = defaultdict(Counter)
    usable = Q(healthy=True, node__ready=True, node__cordoned=False, holders=0, foreign_holders=0)
    rows = Device.unscoped.filter(node__present=True, node__flavor__in=flavors).values_list(
        "node__flavor", "node"
    )
    for flavor, node, count, left in rows.annotate(count=Count("pk"), left=Count("pk", filter=usable)):
        cards[flavor][node] = count
        if left:
            free[flavor][node] = left
    return [
        WorkspacePool(flavor, cards[pk].total(), max(cards[pk].values(), default=0), free[pk])
        for pk, flavor in flavors.items()
    ]
