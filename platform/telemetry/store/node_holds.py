"""The holds on the cards of some nodes at a moment of the last hours.

Agents deliver late what they measured while the platform was down: a reading belongs to the holder of the
slice at the time of the reading, not to the present holder.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import Q

from clusters.models import Device
from scheduling.models import DeviceSlice
from telemetry.store.holdings import Card, HeldSlice
from telemetry.store.times import from_ms, to_ms

_PODS_READ_FOR_MS: Final = 60_000
"""How long a pod is measured after its hold has ended, until the node has terminated it; a process that still
runs then belongs to no allocation."""


class AllocatedShare(NamedTuple):
    """The allocated part of a GPU. Cores in percent points, memory in MiB."""

    cores: int = 0
    memory_mib: int = 0
    holders: int = 0


@dataclass(slots=True)
class NodeHolds:
    """Cards by UUID, and their holds by card, pod uid and pod name."""

    cards: dict[str, Card] = field(default_factory=dict)
    of_card: dict[uuid.UUID, list[HeldSlice]] = field(default_factory=dict)
    by_uid: dict[tuple[str, str], list[HeldSlice]] = field(default_factory=dict)
    by_name: dict[tuple[str, str, str], list[HeldSlice]] = field(default_factory=dict)

    def allocated_at(self, card: Card, at_ms: int) -> AllocatedShare:
        """Return what the ledger had allocated of a card at that moment."""
        held = [hold for hold in self.of_card.get(card.device_id, ()) if hold.held_at(at_ms)]
        return AllocatedShare(
            sum(hold.cores for hold in held), sum(hold.memory_mib for hold in held), len(held)
        )

    def sole_hold(self, card: Card, at_ms: int) -> HeldSlice | None:
        """Return the hold on the whole card at that moment."""
        held = (hold for hold in self.of_card.get(card.device_id, ()) if hold.exclusive)
        return next((hold for hold in held if hold.held_at(at_ms)), None)

    def of_pod(self, device: str, at_ms: int, *, uid: str = "", name: tuple[str, str] = ("", ""),
               ) -> HeldSlice | None:  # fmt: skip
        """Return the hold of a pod on a card, by the pod's uid or else by namespace and name."""
        found = self.by_uid.get((uid, device), ()) if uid else self.by_name.get((*name, device), ())
        # A pod is still measured for a moment after its hold has ended, and a sample may be older than the
        # hold.
        return next((hold for hold in found if hold.held_at(at_ms)), found[-1] if found else None)


def _add_hold(found: NodeHolds, names: tuple[str, str, str], hold: HeldSlice) -> None:
    found.of_card.setdefault(hold.device_id, []).append(hold)
    if hold.pod_uid:
        found.by_uid.setdefault((hold.pod_uid, names[2]), []).append(hold)
    found.by_name.setdefault(names, []).append(hold)


def _until(released: datetime | None) -> int | None:
    return None if released is None else to_ms(released)


def load_node_holds(cluster_id: uuid.UUID, nodes: Collection[uuid.UUID] | None, since_ms: int) -> NodeHolds:
    """Read cards and the holds since `since_ms` of some nodes, or of all of a cluster, in two queries.

    Holds that ended within a minute before it are included: their pods may still be measured.
    """
    devices = Device.unscoped.filter(node__cluster_id=cluster_id, node__present=True)
    held = Q(allocation__released_at__isnull=True) | Q(
        allocation__released_at__gte=from_ms(since_ms - _PODS_READ_FOR_MS)
    )
    slices = DeviceSlice.unscoped.filter(held, allocation__node__cluster_id=cluster_id)
    if nodes is not None:
        devices, slices = devices.filter(node__in=nodes), slices.filter(allocation__node__in=nodes)
    found = NodeHolds()
    for row in devices.values_list(
        "uuid", "id", "node_id", "memory_mib", "cores_granted", "memory_granted", "holders"
    ):
        found.cards[row[0]] = Card(*row[1:])
    for hold in slices.order_by("allocation__created_at", "id").values_list(
        "allocation__namespace", "allocation__pod_name", "device__uuid",
        "allocation__created_at", "allocation__released_at",
        "allocation_id", "device_id", "allocation__node_id", "allocation__task_id",
        "allocation__task__job_id", "allocation__task__job__workspace_id",
        "allocation__task__job__submitted_by_id", "cores", "memory_mib", "exclusive", "allocation__pod_uid",
    ):  # fmt: skip
        made = HeldSlice(*hold[5:], since_ms=to_ms(hold[3]), until_ms=_until(hold[4]))
        _add_hold(found, hold[:3], made)
    return found
