"""Writes the usage intervals of ended runs, so that later changes of a pool or a job change no report."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import Exists, OuterRef

from scheduling.metering.usage_rows import rows_of_attempts, unmetered_attempts
from scheduling.models import Allocation, Attempt, UsageInterval

_BATCH: Final = 500
_BATCHES: Final = 20


def record_usage(*, now: datetime) -> int:
    """Write the intervals of ended runs without live allocations; return the number of runs.

    It may run concurrently: a run is locked and marked in the transaction that writes its intervals.
    """
    recorded = 0
    for _ in range(_BATCHES):
        done = _record_batch(now)
        recorded += done
        if done < _BATCH:
            break
    return recorded


@transaction.atomic
def _record_batch(now: datetime) -> int:
    held = Allocation.unscoped.filter(attempt=OuterRef("pk"), released_at__isnull=True)
    ended = unmetered_attempts().filter(~Exists(held), ended_at__isnull=False).order_by("ended_at", "pk")
    locked = Attempt.unscoped.select_for_update(no_key=True, of=("self",)).filter(
        pk__in=list(ended.values_list("pk", flat=True)[:_BATCH]), metered_at__isnull=True
    )
    attempts = list(locked.order_by("pk").values_list("pk", flat=True))
    UsageInterval.unscoped.bulk_create(
        [
            UsageInterval(attempt_id=attempt, **row._asdict())
            for attempt, row in rows_of_attempts(attempts, now=now)
        ],
        batch_size=_BATCH,
    )
    Attempt.unscoped.filter(pk__in=attempts).update(metered_at=now)
    return len(attempts)
