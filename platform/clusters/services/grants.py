"""Granting parts of nodes and cards, guarded by the row they are taken from.

Each grant is one guarded UPDATE: it succeeds only while the sum stays within capacity, so a decision
made on an old snapshot fails here instead of over-filling a card.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import F, Q

from clusters.models import Device, Node
from clusters.services.foreign_sums import unplaced_settle
from clusters.services.node_life import not_held
from foundation.errors import Conflict


class NoLongerFree(Conflict):
    """Somebody else took it between the snapshot and the commit."""

    code = "NO_LONGER_FREE"


@dataclass(frozen=True, slots=True)
class DeviceAmount:
    """Cores in percent points, memory in MiB, and how many holders."""

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


def devices_take(amounts: Mapping[uuid.UUID, DeviceAmount]) -> None:
    """Take parts of cards. Raises: NoLongerFree."""
    for pk, amount in sorted(amounts.items()):
        room = Q(
            cores_granted__lte=F("cores_capacity") - F("cores_foreign") - amount.cores,
            memory_granted__lte=F("memory_capacity") - F("memory_foreign") - amount.memory_mib,
        )
        taken = Device.unscoped.filter(room, pk=pk, healthy=True).update(
            cores_granted=F("cores_granted") + amount.cores,
            memory_granted=F("memory_granted") + amount.memory_mib,
            holders=F("holders") + amount.holders,
        )
        if not taken:
            raise NoLongerFree(f"device {pk} has no room left")


def devices_give_back(amounts: Mapping[uuid.UUID, DeviceAmount]) -> None:
    """Return parts of cards; the CHECK refuses to go below zero."""
    for pk, amount in sorted(amounts.items()):
        Device.unscoped.filter(pk=pk).update(
            cores_granted=F("cores_granted") - amount.cores,
            memory_granted=F("memory_granted") - amount.memory_mib,
            holders=F("holders") - amount.holders,
        )
    unplaced_settle(amounts)


def nodes_take(amounts: Mapping[uuid.UUID, NodeAmount]) -> None:
    """Take CPU and memory of nodes that are ready. Raises: NoLongerFree."""
    usable = Q(ready=True, cordoned=False, present=True) & not_held()
    for pk, amount in sorted(amounts.items()):
        room = Q(
            cpu_granted__lte=F("cpu_millicores") - F("cpu_foreign") - amount.cpu_millicores,
            memory_granted__lte=F("memory_mib") - F("memory_foreign") - amount.memory_mib,
        )
        taken = Node.unscoped.filter(room, usable, pk=pk).update(
            cpu_granted=F("cpu_granted") + amount.cpu_millicores,
            memory_granted=F("memory_granted") + amount.memory_mib,
        )
        if not taken:
            raise NoLongerFree(f"node {pk} has no room left or is not usable")


def nodes_give_back(amounts: Mapping[uuid.UUID, NodeAmount]) -> None:
    """Return CPU and memory of nodes."""
    for pk, amount in sorted(amounts.items()):
        Node.unscoped.filter(pk=pk).update(
            cpu_granted=F("cpu_granted") - amount.cpu_millicores,
            memory_granted=F("memory_granted") - amount.memory_mib,
        )
