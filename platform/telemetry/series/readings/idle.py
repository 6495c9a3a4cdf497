"""Cards that are allocated and not used."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db.models import Max, Min

from foundation.core import clock
from foundation.core.actor import Actor
from scheduling.models import Allocation, DeviceSlice
from telemetry.models import Reading, RolledMinute, RolledTenMinutes
from telemetry.series.readings.now import FRESH_FOR
from telemetry.series.readings.sight import job_tenants
from telemetry.store.times import MINUTE_MS, from_ms, to_ms
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

# The driver's own activity shows as one or two percent.
IDLE_BELOW_PERCENT: Final = 3.0


@dataclass(frozen=True, slots=True)
class IdleSlice:
    """One held card, or slice of one, without use for the whole time."""

    device_id: uuid.UUID
    job_id: uuid.UUID
    workspace_id: uuid.UUID
    peak_percent: float


@dataclass(frozen=True, slots=True)
class IdleAllocated:
    """The allocated but idle capacity; a slice counts as one card."""

    since_s: int
    slices: tuple[IdleSlice, ...]

    @property
    def cards(self) -> int:
        return len(self.slices)

    @property
    def jobs(self) -> int:
        return len({part.job_id for part in self.slices})


def idle_allocated(viewer: Actor, since_s: int = 300, *, workspace: Tenant | None = None) -> IdleAllocated:
    """Return the cards held for `since_s` seconds whose use never reached 3 % of a card, of jobs that the
    viewer may see, or of those in one workspace.

    Both ends of that time must have a reading: a job that has just started and a cluster without readings
    give no result. Readings reach back two hours; a longer time finds nothing.
    """
    slices = tuple(
        IdleSlice(row.device_id, row.job_id, row.workspace_id, row.peak_percent)
        for row in _idle_rows(viewer, since_s, workspace)
    )
    return IdleAllocated(since_s, slices)


class _IdleRow(NamedTuple):
    channel_id: int
    allocation_id: uuid.UUID
    device_id: uuid.UUID
    job_id: uuid.UUID
    workspace_id: uuid.UUID
    peak_percent: float


def _idle_rows(viewer: Actor, since_s: int, workspace: Tenant | None = None) -> list[_IdleRow]:
    now = clock.now()
    since = now - timedelta(seconds=since_s)
    slack = FRESH_FOR
    live = Allocation.unscoped.filter(
        released_at__isnull=True,
        task__job__workspace__in=job_tenants(viewer),
    )
    if workspace is not None:
        live = live.filter(task__job__workspace=workspace)
    rows = Reading.unscoped.filter(
        at_ms__gte=to_ms(since - slack),
        at_ms__lte=to_ms(now),
        channel__allocation_id__in=live.values("id"),
    )
    ids = ("allocation_id", "device_id", "job_id", "workspace_id")
    idle = (
        rows.values("channel_id", *(f"channel__{name}" for name in ids))
        .annotate(peak=Max("cores_used"), first=Min("at_ms"), last=Max("at_ms"))
        .filter(peak__lt=IDLE_BELOW_PERCENT, first__lte=to_ms(since), last__gte=to_ms(now - slack))
        .order_by("channel_id")
    )
    found = idle.values_list("channel_id", *(f"channel__{name}" for name in ids), "peak")
    return [_IdleRow(*row) for row in found if all(row[1:5])]


@dataclass(frozen=True, slots=True)
class IdleHold:
    """An allocation whose GPU is idle now, and the last time at which it was measured in use; None if it was
    never since `allocated_at`."""

    slice: DeviceSlice
    allocated_at: datetime
    used_at: datetime | None

    @property
    def since(self) -> datetime:
        """Return the time since which no use was measured."""
        return self.used_at or self.allocated_at


def idle_holds(viewer: Actor, *, cluster_id: uuid.UUID | None = None, since_s: int = 300) -> list[IdleHold]:
    """Return the holds that `idle_allocated` counts, with owner and start, the longest idle first.

    The last use is searched in readings and then in roll-ups, so that it is exact to the minute within two
    days. Raises: PermissionDenied without `cluster.view`, since it names jobs of every tenant.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    idle = _idle_rows(viewer, since_s)
    used = _last_use([row.channel_id for row in idle])
    rows = DeviceSlice.unscoped.filter(
        allocation__in={row.allocation_id for row in idle}, released=False
    ).select_related(
        "device__node__cluster",
        "device__node__flavor",
        "allocation__attempt__job__workspace",
        "allocation__attempt__job__submitted_by",
    )
    if cluster_id is not None:
        rows = rows.filter(device__node__cluster=cluster_id)
    by_key = {(row.allocation_id, row.device_id): row for row in rows}
    found = []
    for part in idle:
        row = by_key.get((part.allocation_id, part.device_id))
        if row is not None:
            began, at_ms = row.allocation.created_at, used.get(part.channel_id)
            found.append(IdleHold(row, began, None if at_ms is None else max(from_ms(at_ms), began)))
    return sorted(found, key=lambda hold: (hold.since, str(hold.slice.pk)))


def _last_use(channels: Collection[int]) -> dict[int, int]:
    """Return the end of the last interval in which each channel was used, in ms; absent if never used."""
    found: dict[int, int] = {}
    grains = (
        (Reading, "cores_used", 0),
        (RolledMinute, "cores_used_max", MINUTE_MS),
        (RolledTenMinutes, "cores_used_max", 10 * MINUTE_MS),
    )
    for model, column, length_ms in grains:
        rest = [channel for channel in channels if channel not in found]
        if not rest:
            break
        rows = model._default_manager.filter(channel__in=rest, **{f"{column}__gte": IDLE_BELOW_PERCENT})
        last = rows.order_by().values_list("channel_id").annotate(last=Max("at_ms"))
        found |= {channel: at_ms + length_ms for channel, at_ms in last}
    return found
