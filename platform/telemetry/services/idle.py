"""Reports to scheduling which jobs use their GPUs and which are idle."""

from __future__ import annotations

import uuid
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db.models import Max, Min

from foundation.core import clock
from scheduling.models import DeviceSlice, JobState
from scheduling.services.idle import UseReport, record_use
from telemetry.models import Reading
from telemetry.series.readings.idle import IDLE_BELOW_PERCENT
from telemetry.series.readings.now import FRESH_FOR
from telemetry.store.times import from_ms, to_ms

WINDOW: Final = timedelta(seconds=90)
"""Use within this time counts as present use: work comes in bursts."""


class _Measured(NamedTuple):
    """The measures of one allocated GPU, or slice of one, in the window."""

    peak_percent: float
    first_at: datetime
    last_at: datetime


def idle_report() -> int:
    """Report the known use of running jobs; return the number of idle jobs.

    A job is idle if each of its GPUs was measured just now and was unused in the last 90 seconds. A job with
    a GPU without a recent reading is neither idle nor in use, unless another of its GPUs is in use.
    """
    now = clock.now()
    measured = _read_slices(now)
    held: defaultdict[uuid.UUID, list[_Measured | None]] = defaultdict(list)
    rows = DeviceSlice.unscoped.filter(released=False, allocation__task__job__state=JobState.RUNNING)
    for job_id, *key in rows.order_by().values_list("allocation__task__job_id", "allocation_id", "device_id"):
        held[job_id].append(measured.get((key[0], key[1])))
    found = {job_id: report for job_id, parts in held.items() if (report := _report_use(parts)) is not None}
    record_use(found, now=now)
    return sum(report.idle for report in found.values())


def _report_use(parts: list[_Measured | None]) -> UseReport | None:
    """Return the known use of a job; None if it is unknown whether it is idle."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    used = any(part.peak_percent >= IDLE_BELOW_PERCENT for part in known)
    if not used and len(known) < len(parts):
        return None
    return UseReport(
        idle=not used,
        first_at=max(part.first_at for part in known),
        last_at=min(part.last_at for part in known),
    )


def _read_slices(now: datetime) -> dict[tuple[uuid.UUID, uuid.UUID], _Measured]:
    """Return the use of held GPUs in the window by allocation and device; only those with a fresh reading."""
    rows = (
        Reading.unscoped.filter(
            at_ms__gt=to_ms(now - WINDOW),
            at_ms__lte=to_ms(now),
            cores_used__isnull=False,
            channel__allocation_id__isnull=False,
        )
        .order_by()
        .values("channel__allocation_id", "channel__device_id")
        .annotate(peak=Max("cores_used"), first=Min("at_ms"), last=Max("at_ms"))
        .filter(last__gte=to_ms(now - FRESH_FOR))
    )
    columns = rows.values_list("channel__allocation_id", "channel__device_id", "peak", "first", "last")
    return {
        (allocation, device): _Measured(peak, from_ms(first), from_ms(last))
        for allocation, device, peak, first, last in columns
        if allocation and device
    }
