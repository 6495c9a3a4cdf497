"""The latest readings: for the grid of cards, for lists of jobs and workspaces."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db.models import QuerySet

from clusters.models import Node
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.sql.prepared import PreparedQuery
from scheduling.models import Job
from telemetry.models import Channel, Reading, Scope, Tick
from telemetry.series.readings.sight import job_tenants
from telemetry.store.packing import unpack_values
from telemetry.store.times import from_ms, to_ms
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

# Three ticks: one may be lost and one late. Older readings are not "now", and are left out.
FRESH_FOR: Final = timedelta(seconds=30)
_NARROW: Final = 200
"""The most jobs that are named in a query: for more, reading the readings of all takes less time."""


class CardNow(NamedTuple):
    """The latest reading of a card. `utilisation_percent` is measured, `cores_allocated` is allocated."""

    at: datetime
    utilisation_percent: float
    cores_allocated: int
    memory_used_mib: int
    memory_allocated_mib: int
    temperature_c: float | None
    power_w: float | None


@dataclass(frozen=True, slots=True)
class UseNow:
    """The present use of the slices of a job or workspace; a slice counts as one card.

    `utilisation_percent` is the mean over slices in percent of the card, `utilisation_of_grant_percent`
    the used sum over the allocated sum. `cores_used` and `cores_granted` are these sums, in percent points.
    """

    at: datetime
    cards: int
    utilisation_percent: float
    utilisation_of_grant_percent: float
    cores_used: float
    cores_allocated: int
    memory_used_mib: int
    memory_allocated_mib: int


class PoolUse(NamedTuple):
    """The present use of the measured slices in a pool: compute in percent points of a GPU."""

    cores_used: float = 0.0
    cores_allocated: int = 0
    memory_used_mib: int = 0
    memory_allocated_mib: int = 0

    def add_use(self, use: UseNow) -> PoolUse:
        """Add the use of other slices."""
        return PoolUse(
            self.cores_used + use.cores_used,
            self.cores_allocated + use.cores_allocated,
            self.memory_used_mib + use.memory_used_mib,
            self.memory_allocated_mib + use.memory_allocated_mib,
        )


def newest_tick_ms() -> int | None:
    """Return the time of the newest measurement, in milliseconds since 1970."""
    return Tick.unscoped.order_by("-at_ms").values_list("at_ms", flat=True).first()


def _fresh() -> QuerySet[Reading]:
    now = clock.now()
    return Reading.unscoped.filter(at_ms__gte=to_ms(now - FRESH_FOR), at_ms__lte=to_ms(now)).order_by(
        "at_ms", "id"
    )


def utilisation_now(
    viewer: Actor, *, cluster_id: uuid.UUID | None = None, node_ids: Collection[uuid.UUID] | None = None
) -> dict[uuid.UUID, CardNow]:
    """Return the latest reading by device id, of all cards or those of one cluster or of some nodes.

    A card whose use was not measured in the last 30 s is absent: its present use is unknown.
    Raises: PermissionDenied without `cluster.view`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = _fresh().filter(channel__scope=Scope.CARD, cores_used__isnull=False, memory_used_mib__isnull=False)
    if cluster_id is not None:
        rows = rows.filter(channel__cluster_id=cluster_id)
    if node_ids is not None:
        rows = rows.filter(channel__in=_card_channels(_OF_NODES, node_ids))
    columns = ("cores_used", "cores_allocated", "memory_used_mib", "memory_allocated_mib")
    found = rows.values_list("channel__device_id", "at_ms", *columns, "temperature_c", "power_w")
    # In order of time, so that the last value stays.
    return {row[0]: CardNow(from_ms(row[1]), *row[2:]) for row in found}


def _find_channels(column: str) -> PreparedQuery[tuple[int]]:
    """Return the query for the channels of cards by a list of ids in `column`."""
    # The nulls are those of the partial index; a scope alone would not use it.
    cards = {"allocation_id__isnull": True, "process_id__isnull": True, "scope": Scope.CARD}
    return PreparedQuery(
        lambda ids: Channel.unscoped.filter(**cards, **{f"{column}__any_of": ids}).values_list("pk")
    )


_OF_CARDS: Final = _find_channels("device_id")
_OF_NODES: Final = _find_channels("node_id")


def _card_channels(query: PreparedQuery[tuple[int]], ids: Collection[uuid.UUID]) -> list[int]:
    """Return the channels of some cards. They are looked up first: a planner that expects few fresh readings,
    as it does with outdated statistics, would join the readings of all cards."""
    return [channel for (channel,) in query.for_any(list(ids))]


@dataclass(frozen=True, slots=True)
class _Slice:
    at_ms: int
    cores_used: float
    cores_allocated: int
    memory_used_mib: int
    memory_allocated_mib: int


def _use(slices: Collection[_Slice]) -> UseNow:
    used = sum(part.cores_used for part in slices)
    allocated = sum(part.cores_allocated for part in slices)
    return UseNow(
        at=from_ms(max(part.at_ms for part in slices)),
        cards=len(slices),
        utilisation_percent=used / len(slices),
        utilisation_of_grant_percent=100 * used / allocated if allocated else 0.0,
        cores_used=used,
        cores_allocated=allocated,
        memory_used_mib=sum(part.memory_used_mib for part in slices),
        memory_allocated_mib=sum(part.memory_allocated_mib for part in slices),
    )


def _use_by(rows: QuerySet[Reading], owner: str) -> dict[uuid.UUID, UseNow]:
    return {key[0]: use for key, use in _use_by_keys(rows, owner).items()}


def _use_by_keys(rows: QuerySet[Reading], *owners: str) -> dict[tuple[uuid.UUID, ...], UseNow]:
    """Sum the latest reading of each slice by columns of its channel."""
    latest: dict[tuple[uuid.UUID, ...], dict[int, _Slice]] = {}
    columns: tuple[Any, ...] = (
        *("at_ms", "cores_used", "cores_allocated"),
        *("memory_used_mib", "memory_allocated_mib"),
    )
    keys = [f"channel__{owner}" for owner in owners]
    for channel_id, *row in rows.values_list("channel_id", *keys, *columns):
        latest.setdefault(tuple(row[: len(keys)]), {})[channel_id] = _Slice(*row[len(keys) :])
    return {key: _use(parts.values()) for key, parts in latest.items()}


def _visible(viewer: Actor) -> QuerySet[Reading]:
    rows = _fresh().filter(
        channel__scope=Scope.SLICE, cores_used__isnull=False, memory_used_mib__isnull=False
    )
    return rows.filter(channel__workspace_id__in=job_tenants(viewer).values("pk"))


def jobs_now(viewer: Actor, job_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, UseNow]:
    """Return the present use by job id, for the shown page of jobs.

    Jobs that the viewer may not see, or without a reading in the last 30 s, are absent.
    """
    rows = _visible(viewer)
    if len(job_ids) <= _NARROW:
        return _use_by(rows.filter(channel__job_id__in=list(job_ids)), "job_id")
    wanted = set(job_ids)
    return {job_id: use for job_id, use in _use_by(rows, "job_id").items() if job_id in wanted}


def pools_now(viewer: Actor, workspace_id: uuid.UUID) -> dict[uuid.UUID, PoolUse]:
    """Return the present use of a workspace's slices by flavor id.

    A pool without a reading in the last 30 s is absent, and so is a workspace that the viewer may not see.
    """
    return _use_by_pool(_visible(viewer).filter(channel__workspace_id=workspace_id))


def queues_use_by_pool(
    viewer: Actor,
    *,
    flavor_id: uuid.UUID | None = None,
    tenant: Tenant | None = None,
) -> dict[tuple[uuid.UUID, uuid.UUID], PoolUse]:
    """Return the present use of the jobs of a queue, by the queue's quota node and flavor id.

    The result covers all pools unless one is named, and all tenants unless one is named, with its children. A
    queue without a reading in the last 30 s in a pool is absent, and so are queues whose jobs the viewer may
    not see.
    """
    rows, nodes = _visible(viewer), Node.unscoped.order_by()
    if flavor_id is not None:
        nodes = nodes.filter(flavor=flavor_id)
    if tenant is not None:
        below = Tenant.unscoped.filter(path__startswith=tenant.path)
        rows = rows.filter(channel__workspace_id__in=below.values("pk"))
    flavors = dict(nodes.values_list("pk", "flavor_id"))
    use = _use_by_keys(rows.filter(channel__node_id__in=list(flavors)), "job_id", "node_id")
    jobs = Job.unscoped.filter(pk__in={job for job, _node in use})
    queues = dict(jobs.values_list("pk", "queue__node_id"))
    found: dict[tuple[uuid.UUID, uuid.UUID], PoolUse] = {}
    for (job, node), one in use.items():
        if job in queues:
            key = queues[job], flavors[node]
            found[key] = found.get(key, PoolUse()).add_use(one)
    return found


def jobs_use_by_pool(viewer: Actor, job_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, PoolUse]:
    """Return the present use of some jobs by flavor id.

    A pool without a reading in the last 30 s is absent, and so are jobs that the viewer may not see.
    """
    return _use_by_pool(_visible(viewer).filter(channel__job_id__in=list(job_ids)))


def _use_by_pool(rows: QuerySet[Reading]) -> dict[uuid.UUID, PoolUse]:
    use = _use_by(rows, "node_id")
    found: dict[uuid.UUID, PoolUse] = {}
    for node_id, flavor_id in Node.unscoped.filter(pk__in=use).values_list("pk", "flavor_id"):
        found[flavor_id] = found.get(flavor_id, PoolUse()).add_use(use[node_id])
    return found


def memory_now(allocation_id: uuid.UUID) -> dict[uuid.UUID, int]:
    """Return the MiB that an allocation uses now by device id; absent without a reading in the last 30 s."""
    rows = _fresh().filter(channel__allocation_id=allocation_id)
    read = rows.values_list("channel__device_id", "memory_used_mib")
    # In order of time, so that the last value stays.
    return {device: used for device, used in read if device is not None and used is not None}


@dataclass(frozen=True, slots=True)
class GpuNow:
    """The latest reading of a GPU, by the names of the catalogue; an unmeasured value is absent."""

    at: datetime
    values: dict[str, float]


def measures_now(viewer: Actor, device_ids: Collection[uuid.UUID] | None = None) -> dict[uuid.UUID, GpuNow]:
    """Return the measures of the latest reading by device id, of all by default, not older than 30 s.

    Raises: PermissionDenied without `cluster.view`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = _fresh().filter(channel__scope=Scope.CARD, channel__device_id__isnull=False)
    if device_ids is not None:
        rows = rows.filter(channel__in=_card_channels(_OF_CARDS, device_ids))
    columns = ("cores_used", "memory_used_mib", "temperature_c", "power_w")
    names = ("utilization_percent", "memory_used_mib", "temperature_c", "power_w")
    found: dict[uuid.UUID, GpuNow] = {}
    # In order of time, so that the last value stays.
    for device_id, at_ms, packed, *typed in rows.values_list(
        "channel__device_id", "at_ms", "values", *columns
    ):
        known = {name: float(value) for name, value in zip(names, typed, strict=True) if value is not None}
        found[device_id] = GpuNow(from_ms(at_ms), unpack_values(packed) | known)
    return found


def slices_now(viewer: Actor, device_id: uuid.UUID) -> dict[uuid.UUID, tuple[float | None, int | None]]:
    """Return by allocation id the compute in percent of the GPU and the MiB in use; absent without a reading.

    Raises: PermissionDenied without `cluster.view`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    rows = _fresh().filter(channel__scope=Scope.SLICE, channel__device_id=device_id)
    read = rows.values_list("channel__allocation_id", "cores_used", "memory_used_mib")
    # In order of time, so that the last value stays.
    return {pk: (cores, memory) for pk, cores, memory in read if pk is not None}
