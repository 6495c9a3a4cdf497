"""Deletes rows that are older than the retention of their grain, in bounded batches.

Each batch is its own transaction, so that no query waits for a delete of a million rows; the next run deletes
the rest.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Exists, Min, Model, OuterRef

from foundation.core import clock
from telemetry.models import (
    Channel,
    GpuEvent,
    GpuProcess,
    PendingBucket,
    Reading,
    RolledMinute,
    RolledTenMinutes,
    RolledTwoHours,
    RollUp,
    TelemetryGap,
    Tick,
)
from telemetry.store.times import (
    MINUTE_MS,
    MINUTE_RETENTION,
    READING_RETENTION,
    TEN_MINUTE_RETENTION,
    TICK_RETENTION,
    TWO_HOUR_RETENTION,
    to_ms,
)

BATCH: Final = 10_000
# For one run per minute: 1,600 cards with as many slices write 19,200 readings in that time.
_BATCHES: Final = 6

_GRAINS: Final[tuple[tuple[type[Any], timedelta], ...]] = (
    (Reading, READING_RETENTION),
    (Tick, TICK_RETENTION),
    (RolledMinute, MINUTE_RETENTION),
    (RolledTenMinutes, TEN_MINUTE_RETENTION),
    (RolledTwoHours, TWO_HOUR_RETENTION),
    (GpuEvent, TWO_HOUR_RETENTION),
)
# A roll-up of a minute that is repeated after a late reading needs all readings of the minute, and the oldest
# accepted ones are two hours old. Readings wait for delayed roll-ups, up to a limit.
_SPARED: Final = timedelta(minutes=5)
_BEHIND_MOST: Final = timedelta(hours=24)
_HISTORY: Final = (Reading, Tick, RolledMinute, RolledTenMinutes, RolledTwoHours, RollUp)


def prune_rows(batch: int = BATCH) -> int:
    """Delete expired rows of every grain and return their number; safe to run at any time."""
    now = clock.now()
    oldest = PendingBucket.unscoped.filter(grain_ms=MINUTE_MS).aggregate(at=Min("at_ms"))["at"]
    deleted = 0
    for model, retention in _GRAINS:
        before_ms = to_ms(now - retention)
        if model is Reading:
            before_ms = to_ms(now - retention - _SPARED)
            if oldest is not None:
                before_ms = max(min(before_ms, oldest), to_ms(now - _BEHIND_MOST))
        deleted += _prune_measured(model, before_ms, batch)
    gaps = TelemetryGap.unscoped.filter(ended_at__lt=now - TWO_HOUR_RETENTION)
    processes = GpuProcess.unscoped.filter(last_seen_ms__lt=to_ms(now - TEN_MINUTE_RETENTION))
    ids = list(processes.order_by("last_seen_ms").values_list("id", flat=True)[:500])
    ended = GpuProcess.unscoped.filter(id__in=ids).delete()[0]
    return deleted + gaps.delete()[0] + ended + _prune_channels(batch)


def _prune_measured(model: type[Any], before_ms: int, batch: int) -> int:
    deleted = 0
    for _ in range(_BATCHES):
        with transaction.atomic():
            expired = model.unscoped.filter(at_ms__lt=before_ms)
            # All rows up to the time of the last row of the batch: a range, not a list of keys.
            times = expired.order_by("at_ms").values_list("at_ms", flat=True)
            last = times[batch - 1 : batch].first()
            deleted += (expired if last is None else expired.filter(at_ms__lte=last)).delete()[0]
        if last is None:
            break
    return deleted


def _without(model: type[Model]) -> Any:
    return ~Exists(model._base_manager.filter(channel=OuterRef("pk")))


def _prune_channels(batch: int) -> int:
    old = Channel.unscoped.filter(created_at__lt=clock.now() - TEN_MINUTE_RETENTION)
    silent = old.filter(*(_without(model) for model in _HISTORY))
    ids = list(silent.order_by("id").values_list("id", flat=True)[: min(batch, 500)])
    return Channel.unscoped.filter(id__in=ids).delete()[0] if ids else 0
