"""Cards that somebody holds and nobody uses."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db.models import Max, Min

from foundation.core import clock
from foundation.core.actor import Actor
from scheduling.models import Allocation
from telemetry.models import Reading
from telemetry.series.now import FRESH_FOR
from telemetry.series.sight import job_tenants
from telemetry.store.times import to_ms

# A driver's own housekeeping shows as a percent or two.
IDLE_BELOW_PERCENT: Final = 3.0


@dataclass(frozen=True, slots=True)
class IdleSlice:
    """One held card, or slice of one, that did nothing for the whole time."""

    device_id: uuid.UUID
    job_id: uuid.UUID
    workspace_id: uuid.UUID
    peak_percent: float


@dataclass(frozen=True, slots=True)
class IdleAllocated:
    """What is allocated but idle; a slice counts as one card."""

    since_s: int
    slices: tuple[IdleSlice, ...]

    @property
    def cards(self) -> int:
        return len(self.slices)

    @property
    def jobs(self) -> int:
        return len({part.job_id for part in self.slices})


def idle_allocated(viewer: Actor, since_s: int = 300) -> IdleAllocated:
    """Cards held for `since_s` seconds whose use never reached 3 % of a card, of jobs the viewer may see.

    Both ends of that time must have a reading: of a job that has just started, or of a cluster that is
    silent, nothing is said. Readings reach back two hours; a longer time finds nothing.
    """
    now = clock.now()
    since = now - timedelta(seconds=since_s)
    slack = FRESH_FOR
    live = Allocation.unscoped.filter(
        released_at__isnull=True,
        task__job__workspace__in=job_tenants(viewer),
    )
    rows = (
        Reading.unscoped.filter(
            at_ms__gte=to_ms(since - slack),
            at_ms__lte=to_ms(now),
            channel__allocation_id__in=live.values("id"),
        )
        .values("channel_id", "channel__device_id", "channel__job_id", "channel__workspace_id")
        .annotate(peak=Max("cores_used"), first=Min("at_ms"), last=Max("at_ms"))
        .filter(peak__lt=IDLE_BELOW_PERCENT, first__lte=to_ms(since), last__gte=to_ms(now - slack))
        .order_by("channel_id")
    )
    found = rows.values_list("channel__device_id", "channel__job_id", "channel__workspace_id", "peak")
    slices = tuple(
        IdleSlice(device_id, job_id, workspace_id, peak)
        for device_id, job_id, workspace_id, peak in found
        if device_id and job_id and workspace_id
    )
    return IdleAllocated(since_s, slices)
