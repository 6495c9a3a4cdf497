"""Opens and closes gaps: times in which a cluster delivered nothing, and why."""

from __future__ import annotations

import uuid
from datetime import datetime

from foundation.core import clock
from telemetry.models import GapCause, TelemetryGap

_MESSAGE_LENGTH = 300


def gap_open(cluster_id: uuid.UUID, cause: GapCause, message: str) -> None:
    """Note that nothing comes from this cluster; while a gap is open, its first cause stands."""
    gap = TelemetryGap(
        cluster_id=cluster_id, started_at=clock.now(), cause=cause, message=message[:_MESSAGE_LENGTH]
    )
    TelemetryGap.unscoped.bulk_create([gap], ignore_conflicts=True)


def gap_note(cluster_id: uuid.UUID, cause: GapCause, start: datetime, end: datetime) -> None:
    """Note a gap that is over; not where one is open, which goes on."""
    if not TelemetryGap.unscoped.filter(cluster_id=cluster_id, ended_at__isnull=True).exists():
        TelemetryGap.unscoped.create(cluster_id=cluster_id, cause=cause, started_at=start, ended_at=end)


def gap_close(cluster_id: uuid.UUID) -> None:
    """Note that the cluster delivers again."""
    TelemetryGap.unscoped.filter(cluster_id=cluster_id, ended_at__isnull=True).update(ended_at=clock.now())
