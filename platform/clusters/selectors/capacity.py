"""Free capacity per flavor: the largest job that could start now."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from clusters.models import Device, Flavor, Node
from clusters.services.node_life import is_node_schedulable
from foundation.core import clock
from foundation.core.actor import Actor
from tenants.access import permissions
from tenants.access.permissions import Permission

SLICE_CORES: Final = 30
_COLUMNS: Final = (
    *("healthy", "holders", "cores_capacity", "cores_granted", "memory_capacity", "memory_granted"),
    *("cores_foreign", "foreign_holders", "node__cluster", "node__flavor", "node__rack", "node__ready"),
    *("node__cordoned", "node__cpu_granted", "node__cpu_foreign", "node__cpu_millicores"),
    *("node__held_until", "node__closed"),
)


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """Cards of one flavor. `free` are wholly free and usable; `stranded` are free but not usable.

    `cards_allocated` is in hundredths of a card. `one_node` and `one_rack` are the most wholly free
    cards together in one place; `slices` counts how many slices of 30 % cores would still fit. `foreign`
    are the cards of which pods of others hold a part or all, `closed` those of nodes that get nothing new.
    """

    flavor: Flavor
    nodes: int
    cards: int
    unhealthy: int
    cards_allocated: int
    memory_mib: int
    memory_allocated_mib: int
    free: int
    stranded: int
    one_node: int
    one_rack: int
    slices: int
    foreign: int
    closed: int


def capacity_now(*, viewer: Actor) -> list[FlavorCapacity]:
    """One line per flavor, by name.

    Raises: PermissionDenied for anybody without a view of the clusters.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    devices: defaultdict[uuid.UUID, list[Device]] = defaultdict(list)
    rows = Device.unscoped.filter(node__present=True, node__flavor__isnull=False).select_related("node")
    # Without the labels and taints of the node, which would be decoded once per card.
    for device in rows.only(*_COLUMNS):
        if device.node.flavor_id is not None:
            devices[device.node.flavor_id].append(device)
    flavors = Flavor.unscoped.order_by("name", "id")
    now = clock.now()
    return [_capacity(flavor, devices[flavor.pk], now) for flavor in flavors]


def _is_open(node: Node, now: datetime) -> bool:
    return node.ready and is_node_schedulable(node, now)


def _capacity(flavor: Flavor, devices: Sequence[Device], now: datetime) -> FlavorCapacity:
    closed = {device.node_id for device in devices if not _is_open(device.node, now)}

    def is_usable(device: Device) -> bool:
        node = device.node
        return node.pk not in closed and node.cpu_granted + node.cpu_foreign < node.cpu_millicores

    empty = [d for d in devices if d.healthy and not d.holders and not d.foreign_holders]
    free = [device for device in empty if is_usable(device)]
    by_node = Counter(device.node_id for device in free)
    by_rack = Counter((device.node.cluster_id, device.node.rack) for device in free)
    return FlavorCapacity(
        flavor=flavor,
        nodes=len({device.node_id for device in devices}),
        cards=len(devices),
        unhealthy=sum(not device.healthy for device in devices),
        cards_allocated=sum(device.cores_granted for device in devices),
        memory_mib=sum(device.memory_capacity for device in devices),
        memory_allocated_mib=sum(device.memory_granted for device in devices),
        free=len(free),
        stranded=len(empty) - len(free),
        one_node=max(by_node.values(), default=0),
        one_rack=max(by_rack.values(), default=0),
        slices=sum(_slices(device) for device in devices if is_usable(device))
        if flavor.gpu_mode == "slice"
        else 0,
        foreign=sum(device.foreign_holders > 0 for device in devices),
        closed=sum(device.node_id in closed for device in devices),
    )


def _slices(device: Device) -> int:
    if not device.healthy:
        return 0
    left = device.cores_capacity - device.cores_granted - device.cores_foreign
    return max(left, 0) // SLICE_CORES
