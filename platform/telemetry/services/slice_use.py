"""Reports to scheduling how much GPU memory slices use, if their memory is resized by use."""

from __future__ import annotations

import uuid
from collections import defaultdict
from datetime import timedelta
from typing import Any, Final

from django.db.models import Count, Max, Min, Q

from foundation.core import clock
from scheduling.models import DeviceSlice
from scheduling.services.resizing.by_use import MemoryReport, find_resizable, record_slice_use
from telemetry.models import Reading
from telemetry.series.readings.now import FRESH_FOR
from telemetry.store.times import from_ms, to_ms

PEAK_WINDOW: Final = timedelta(minutes=10)
RECENT_WINDOW: Final = timedelta(seconds=90)


def report_slice_use() -> int:
    """Report the measurements of resizable slices; return the number of tasks reported.

    A task of which a GPU has no reading of the last 30 seconds is not reported.
    """
    now = clock.now()
    held = DeviceSlice.unscoped.filter(released=False, allocation__in=find_resizable())
    cards = dict(held.order_by().values_list("allocation_id").annotate(Count("pk")))
    if not cards:
        return 0
    recent = Q(at_ms__gt=to_ms(now - RECENT_WINDOW))
    rows = (
        Reading.unscoped.filter(
            at_ms__gt=to_ms(now - PEAK_WINDOW),
            at_ms__lte=to_ms(now),
            memory_used_mib__isnull=False,
            channel__allocation_id__in=list(cards),
        )
        .order_by()
        .values("channel__allocation_id", "channel_id")
        .annotate(
            peak=Max("memory_used_mib"),
            recent=Max("memory_used_mib", filter=recent),
            first=Min("at_ms", filter=recent),
            last=Max("at_ms"),
        )
        .filter(last__gte=to_ms(now - FRESH_FOR))
    )
    parts: defaultdict[uuid.UUID, list[tuple[Any, ...]]] = defaultdict(list)
    columns = ("channel__allocation_id", "peak", "recent", "first", "last")
    for allocation, *values in rows.values_list(*columns):
        parts[allocation].append(tuple(values))
    reports = {
        allocation: MemoryReport(
            peak_mib=max(part[0] for part in found),
            recent_mib=max(part[1] for part in found),
            first_at=from_ms(max(part[2] for part in found)),
            last_at=from_ms(min(part[3] for part in found)),
        )
        for allocation, found in parts.items()
        if len(found) == cards[allocation]
    }
    record_slice_use(reports, now=now)
    return len(reports)
