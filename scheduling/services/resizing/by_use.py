"""Adapts the memory of slices of throughput queues to their measured use, up to what they requested.

Measured use is recorded here, and the wanted memory of a slice is computed from it. The engine decides which
slices are changed and which jobs are preempted for that, and the commit begins the changes. A slice that is
no longer measured has no wanted memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from clusters.models import Cell
from foundation.core.errors import Conflict, NotFound, Refused
from foundation.messaging import leases, outbox
from quotas.models import AllocationMode
from quotas.models.queue import PreemptOthers
from scheduling.engine import model as em
from scheduling.lifecycle.transitions import StaleJob
from scheduling.models import (
    Allocation,
    GpuRequestMode,
    Job,
    JobState,
    MemoryResize,
    SliceUse,
    Task,
    TaskState,
)
from scheduling.models.idle_stretch import STALE_AFTER
from scheduling.services.resizing.resize import begin_resize, held_slices
from scheduling.services.resizing.wanted_memory import SliceMemory, find_wanted_memory

log = structlog.get_logger(__name__)
_MAX_GAP: Final = timedelta(seconds=90)
RULE: Final = "MEASURED_USE"


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The latest measurements of a task, in MiB of the GPU that it uses most: the peaks of ten minutes and of
    90 seconds, and the times of the first and last measurement in the latter.
    """

    peak_mib: int
    recent_mib: int
    first_at: datetime
    last_at: datetime


def find_resizable() -> QuerySet[Allocation]:
    """Return the running slices whose memory follows their use; none unless the setting is enabled."""
    if not settings.ALLOTMENT_RESIZE_BY_USE:
        return Allocation.unscoped.none()
    return Allocation.unscoped.filter(
        released_at__isnull=True,
        removal_asked_at__isnull=True,
        restarting=False,
        task__state=TaskState.RUNNING,
        task__role__gpu_mode=GpuRequestMode.SLICE,
        attempt__job__state=JobState.RUNNING,
        attempt__job__queue__allocation_mode=AllocationMode.DYNAMIC,
        attempt__job__queue__while_borrowing=PreemptOthers.LOWER_PRIORITY,
        node__cluster__live_resize=True,
    )


def record_slice_use(reports: Mapping[uuid.UUID, MemoryReport], *, now: datetime) -> None:
    """Record the measured use of slices, by allocation, and the wanted memory that follows from it."""
    rows = find_resizable().filter(pk__in=list(reports)).prefetch_related("slices").order_by("pk")
    known = {row.allocation_id: row for row in SliceUse.unscoped.filter(allocation__in=list(reports))}
    latest = MemoryResize.unscoped.filter(allocation__in=list(reports)).order_by("created_at", "pk")
    changes: dict[uuid.UUID, MemoryResize] = {row.allocation_id: row for row in latest}
    for allocation in rows:
        held = min((part.memory_mib for part in allocation.slices.all()), default=0)
        if not held:
            continue
        report, use = reports[allocation.pk], known.get(allocation.pk)
        row = use or SliceUse(allocation=allocation, asked_mib=held, since=report.first_at)
        if use is not None and report.first_at > use.seen_at + _MAX_GAP:
            row.since = report.first_at
        change = changes.get(allocation.pk)
        if change is not None and change.asked_by and change.ended_at is not None:
            row.asked_mib = held  # a user has chosen this amount
        row.seen_at, row.peak_mib, row.recent_mib = report.last_at, report.peak_mib, report.recent_mib
        under_way = change is not None and change.ended_at is None
        row.wanted_mib = None if under_way else find_wanted_memory(_describe(row, held, now))
        row.save()


def _describe(row: SliceUse, held: int, now: datetime) -> SliceMemory:
    def age_of(at: datetime | None) -> float | None:
        return None if at is None else (now - at).total_seconds()

    return SliceMemory(
        asked=row.asked_mib,
        held=held,
        peak=row.peak_mib,
        recent=row.recent_mib,
        measured_s=(row.seen_at - row.since).total_seconds(),
        lent_s=age_of(row.lent_at),
        returned_s=age_of(row.returned_at),
    )


def forget_stale_use(now: datetime) -> None:
    """Remove the wanted memory of slices that are no longer measured or resizable; delete ended ones."""
    SliceUse.unscoped.filter(allocation__released_at__isnull=False).delete()
    stale = Q(seen_at__lt=now - STALE_AFTER) | ~Q(allocation__in=find_resizable())
    SliceUse.unscoped.filter(stale, wanted_mib__isnull=False).update(wanted_mib=None)


def resize_by_use(*, cell_id: uuid.UUID, epoch: int, decision: em.Decision, now: datetime) -> bool:
    """Begin a change that the engine decided, if it is still valid; return whether it was begun.

    Raises: LeaseLost when another process has taken the cell over.
    """
    (wanted,) = decision.allocations
    try:
        with transaction.atomic():
            leases.lock_current(Cell, cell_id, epoch)
            return _begin(uuid.UUID(decision.job), wanted, now)
    except (Conflict, NotFound, Refused, StaleJob) as error:
        log.info("resize by use not begun", job=decision.job, why=str(error))
        return False


def _begin(job_id: uuid.UUID, wanted: em.Allocation, now: datetime) -> bool:
    job = Job.unscoped.select_for_update(of=("self",), no_key=True).select_related("queue").get(pk=job_id)
    tasks = Task.unscoped.select_related("role").filter(job=job, role__name=wanted.role, index=wanted.index)
    task = tasks.get()
    task.job = job
    allocation, slices = held_slices(task, locked=True)
    use = SliceUse.unscoped.filter(allocation=allocation).first()
    mib, before = wanted.slices[0].memory, slices[0].memory_mib
    fresh = use is not None and use.wanted_mib == mib and now - use.seen_at <= STALE_AFTER
    if use is None or not fresh or not find_resizable().filter(pk=allocation.pk).exists():
        return False
    numbers: dict[str, int | str] = {"rule": RULE, "peak": use.peak_mib}
    begin_resize(task, allocation, slices, mib, asked_by="", extra=numbers, now=now)
    if mib < before:
        use.lent_at = now
    else:
        use.returned_at = now
    use.wanted_mib = None
    use.save(update_fields=["wanted_mib", "lent_at", "returned_at"])
    outbox.add_hint(outbox.Topic.EXECUTE, allocation.node.cluster_id)
    return True
