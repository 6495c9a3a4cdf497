"""The present ledger of a cluster: its cards, and the holders of their parts."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from clusters.models import Device
from scheduling.models import DeviceSlice


@dataclass(frozen=True, slots=True)
class Card:
    """One card. `cores_granted` in percent points, memory in MiB; `holders` counts live slices."""

    device_id: uuid.UUID
    node_id: uuid.UUID
    memory_mib: int
    cores_allocated: int
    memory_allocated_mib: int
    holders: int


@dataclass(frozen=True, slots=True)
class HeldSlice:
    """One slice with the job, workspace and user that hold it. Cores in percent points, memory in MiB.

    It was held from `since_ms` to `until_ms`; None for a slice that is still held.
    """

    allocation_id: uuid.UUID
    device_id: uuid.UUID
    node_id: uuid.UUID
    task_id: uuid.UUID
    job_id: uuid.UUID
    workspace_id: uuid.UUID
    user_id: uuid.UUID
    cores: int
    memory_mib: int
    exclusive: bool
    pod_uid: str = ""
    since_ms: int = 0
    until_ms: int | None = None

    def held_at(self, at_ms: int) -> bool:
        """Return whether the slice was held at that moment."""
        return self.since_ms <= at_ms and (self.until_ms is None or at_ms < self.until_ms)


HoldKey = tuple[str, str, str]
"""The namespace, pod name and device UUID of a hold."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """Cards by device UUID, holds by pod and card, and the exclusive hold of each card by device id."""

    cards: dict[str, Card]
    holds: dict[HoldKey, HeldSlice]
    exclusive: dict[uuid.UUID, HeldSlice]


def _cards(cluster_id: uuid.UUID) -> dict[str, Card]:
    rows = Device.unscoped.filter(node__cluster_id=cluster_id, node__present=True).values_list(
        "uuid", "id", "node_id", "memory_mib", "cores_granted", "memory_granted", "holders"
    )
    return {row[0]: Card(*row[1:]) for row in rows}


def _holds(cluster_id: uuid.UUID) -> dict[HoldKey, HeldSlice]:
    rows = DeviceSlice.unscoped.filter(
        released=False, allocation__released_at__isnull=True, allocation__node__cluster_id=cluster_id
    ).values_list(
        "allocation__namespace",
        "allocation__pod_name",
        "device__uuid",
        "allocation_id",
        "device_id",
        "allocation__node_id",
        "allocation__task_id",
        "allocation__task__job_id",
        "allocation__task__job__workspace_id",
        "allocation__task__job__submitted_by_id",
        "cores",
        "memory_mib",
        "exclusive",
    )
    return {(row[0], row[1], row[2]): HeldSlice(*row[3:]) for row in rows}


def load_holdings(cluster_id: uuid.UUID) -> Holdings:
    """Read cards and live holds of one cluster, in two queries."""
    holds = _holds(cluster_id)
    exclusive = {hold.device_id: hold for hold in holds.values() if hold.exclusive}
    return Holdings(_cards(cluster_id), holds, exclusive)
