"""Allocates parts of nodes and cards, guarded by the row from which they are taken.

All that one transaction takes is one guarded UPDATE: a row is written only while its sum stays within its
capacity, so a decision made on an old snapshot fails here instead of overfilling a card. Rows are locked
first, in the order of their keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clusters.models import Device, Node
from clusters.services.foreign_sums import unplaced_settle
from clusters.services.node_life import schedulable_nodes
from foundation.core import clock
from foundation.core.errors import Conflict
from foundation.sql.bulk import ALWAYS, Guard, locking_in_order, update_rows
from foundation.sql.prepared import PreparedQuery

_NODES: Final = PreparedQuery(
    lambda nodes: locking_in_order(Node.unscoped.filter(pk__any_of=nodes)).values_list("pk")
)
_USABLE: Final = PreparedQuery(
    lambda nodes, now: locking_in_order(
        Node.unscoped.filter(schedulable_nodes(now), pk__any_of=nodes, ready=True, present=True)
    ).values_list("pk")
)
_DEVICES: Final = PreparedQuery(
    lambda devices: locking_in_order(Device.unscoped.filter(pk__any_of=devices)).values_list("pk")
)


class NoLongerFree(Conflict):
    """Another transaction took the capacity between the snapshot and the commit."""

    code = "NO_LONGER_FREE"


@dataclass(frozen=True, slots=True)
class DeviceAmount:
    """Cores in percent points, memory in MiB, and the number of holders."""

    cores: int = 0
    memory_mib: int = 0
    holders: int = 0

    def __add__(self, other: DeviceAmount) -> DeviceAmount:
        return DeviceAmount(
            self.cores + other.cores, self.memory_mib + other.memory_mib, self.holders + other.holders
        )


@dataclass(frozen=True, slots=True)
class NodeAmount:
    """CPU in millicores, memory in MiB."""

    cpu_millicores: int = 0
    memory_mib: int = 0

    def __add__(self, other: NodeAmount) -> NodeAmount:
        return NodeAmount(self.cpu_millicores + other.cpu_millicores, self.memory_mib + other.memory_mib)


def devices_take(amounts: Mapping[uuid.UUID, DeviceAmount], *, in_use: bool = False) -> None:
    """Take parts of cards. `in_use`: pods hold them already, healthy or not. Raises: NoLongerFree."""
    guard = Guard(
        where={} if in_use else {"healthy": True},
        within={
            "cores_granted": ("cores_capacity", "cores_foreign"),
            "memory_granted": ("memory_capacity", "memory_foreign"),
        },
    )
    refused = amounts.keys() - _add_to_devices(amounts, 1, guard)
    if refused:
        raise NoLongerFree(f"device {min(refused)} has no room left")


def devices_give_back(amounts: Mapping[uuid.UUID, DeviceAmount]) -> None:
    """Release parts of cards; the CHECK refuses to go below zero."""
    _add_to_devices(amounts, -1)
    unplaced_settle(amounts)


def nodes_take(amounts: Mapping[uuid.UUID, NodeAmount], *, in_use: bool = False) -> None:
    """Take CPU and memory of nodes that are ready. Raises: NoLongerFree.

    `in_use`: pods hold that much already, so it is counted in any state of the nodes.
    """
    if in_use:
        _NODES.for_any(list(amounts))
        _add_to_nodes(amounts, 1)
        return
    locked = [pk for (pk,) in _USABLE.for_any(list(amounts), clock.now())]
    guard = Guard(
        within={
            "cpu_granted": ("cpu_millicores", "cpu_foreign"),
            "memory_granted": ("memory_mib", "memory_foreign"),
        },
    )
    refused = amounts.keys() - _add_to_nodes({pk: amounts[pk] for pk in locked}, 1, guard)
    if refused:
        raise NoLongerFree(f"node {min(refused)} has no room left or is not usable")


def nodes_give_back(amounts: Mapping[uuid.UUID, NodeAmount]) -> None:
    """Release CPU and memory of nodes."""
    _NODES.for_any(list(amounts))
    _add_to_nodes(amounts, -1)


def _add_to_devices(
    amounts: Mapping[uuid.UUID, DeviceAmount], sign: int, guard: Guard = ALWAYS
) -> set[uuid.UUID]:
    _DEVICES.for_any(list(amounts))
    rows = [(pk, sign * a.cores, sign * a.memory_mib, sign * a.holders) for pk, a in amounts.items()]
    return update_rows(Device, ("cores_granted", "memory_granted", "holders"), rows, add=True, guard=guard)


def _add_to_nodes(
    amounts: Mapping[uuid.UUID, NodeAmount], sign: int, guard: Guard = ALWAYS
) -> set[uuid.UUID]:
    rows = [(pk, sign * a.cpu_millicores, sign * a.memory_mib) for pk, a in amounts.items()]
    return update_rows(Node, ("cpu_granted", "memory_granted"), rows, add=True, guard=guard)
