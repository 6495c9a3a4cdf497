"""Opens and closes gaps: times in which a cluster delivered no measurements, with their cause."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q

from foundation.core import clock
from telemetry.models import GapCause, TelemetryGap

_MESSAGE_LENGTH = 300
_DELIVERS: Final = timedelta(minutes=2)
"""The greatest age of the last measurement at which a cluster counts as delivering again."""
Span = tuple[datetime, datetime]


def gap_open(cluster_id: uuid.UUID, cause: GapCause, message: str) -> None:
    """Record that this cluster delivers nothing; while a gap is open, it keeps its first cause."""
    gap = TelemetryGap(
        cluster_id=cluster_id, started_at=clock.now(), cause=cause, message=message[:_MESSAGE_LENGTH]
    )
    TelemetryGap.unscoped.bulk_create([gap], ignore_conflicts=True)


def gap_note(cluster_id: uuid.UUID, cause: GapCause, start: datetime, end: datetime) -> None:
    """Record a gap that is over, unless a gap is open, which then continues."""
    if not TelemetryGap.unscoped.filter(cluster_id=cluster_id, ended_at__isnull=True).exists():
        TelemetryGap.unscoped.create(cluster_id=cluster_id, cause=cause, started_at=start, ended_at=end)


def gap_close(cluster_id: uuid.UUID) -> None:
    """Record that the cluster delivers again."""
    TelemetryGap.unscoped.filter(cluster_id=cluster_id, ended_at__isnull=True).update(ended_at=clock.now())


def gap_cut(cluster_id: uuid.UUID, measured: Iterable[Span]) -> None:
    """Remove spans from gaps in which a cluster was measured after all, so no gap covers measured time.

    Agents deliver measurements late that they made while they could not reach the platform, and the first
    ones before the platform notices that its open gap is over.
    """
    spans = _merge_spans(measured)
    if not spans:
        return
    touched = TelemetryGap.unscoped.filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=spans[0][0]),
        cluster_id=cluster_id,
        started_at__lt=spans[-1][1],
    )
    if not touched.exists():
        return
    with transaction.atomic():
        for gap in touched.select_for_update().order_by("started_at"):
            _cut(gap, spans)


def _cut(gap: TelemetryGap, spans: Sequence[Span]) -> None:
    left = list(_remainder(gap.started_at, gap.ended_at, spans))
    if left and left[-1][1] is None and spans[-1][1] >= clock.now() - _DELIVERS:
        left.pop()
    if left == [(gap.started_at, gap.ended_at)]:
        return
    gap.delete()
    TelemetryGap.unscoped.bulk_create(
        [
            TelemetryGap(
                cluster_id=gap.cluster_id,
                started_at=start,
                ended_at=end,
                cause=gap.cause,
                message=gap.message,
            )
            for start, end in left
        ],
        ignore_conflicts=True,
    )


def _merge_spans(measured: Iterable[Span]) -> list[Span]:
    """Return the spans by time; adjacent ones are merged."""
    merged: list[Span] = []
    for start, end in sorted(measured):
        if merged and start <= merged[-1][1] + (end - start):
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _remainder(
    start: datetime, end: datetime | None, spans: Sequence[Span]
) -> Iterator[tuple[datetime, datetime | None]]:
    """Yield the parts of a gap outside the spans; the gap is open if `end` is None."""
    for first, last in spans:
        if last <= start or (end is not None and first >= end):
            continue
        if first > start:
            yield start, first
        start = last
    if end is None or start < end:
        yield start, end
