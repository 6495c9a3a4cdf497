"""The measured use of allocations: the one place where usage reads the store of readings."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db.models import F, FloatField, IntegerField, Min, Sum
from django.db.models.functions import Cast

from foundation.core.months import to_ms
from telemetry.models import Reading, RolledMinute, Scope
from telemetry.store.times import MINUTE_RETENTION, READING_RETENTION
from telemetry.usage.accounting import QUARTER_MS

STORE_RETENTION: Final = MINUTE_RETENTION
"""So long the store can tell quarters apart."""
LATE: Final = READING_RETENTION - timedelta(minutes=30)
"""So late readings may still arrive: a quarter is final when it ended that long ago."""


class MeasuredQuarter(NamedTuple):
    """The part of a quarter of an hour of an allocation that readings cover, in percent points of a GPU x
    ms.
    """

    allocation_id: uuid.UUID
    quarter: int
    measured: int
    used: int


def first_quarter() -> int:
    """Return the first quarter since 1970 of which anything was measured, a far one for nothing."""
    starts = (model.unscoped.aggregate(at=Min("at_ms"))["at"] for model in (RolledMinute, Reading))
    return min((at // QUARTER_MS for at in starts if at is not None), default=2**62)


def measured_quarters(first: int, last: int, *, now: datetime) -> Iterator[MeasuredQuarter]:
    """Yield what was measured of each allocation in the quarters from `first` until before `last`.

    A reading stands for its interval. Where none arrived, or compute is not known, nothing is yielded.
    Readings are read where they are still there, and roll-ups of a minute of the quarters before.
    """
    fine_since = -(-to_ms(now - READING_RETENTION) // QUARTER_MS)
    middle = min(last, max(first, fine_since))
    yield from _read(RolledMinute, "covered_ms", first, middle)
    yield from _read(Reading, "interval_ms", middle, last)


def _read(
    model: type[Reading] | type[RolledMinute], weight: str, first: int, last: int
) -> Iterator[MeasuredQuarter]:
    if first >= last:
        return
    rows = (
        model.unscoped.filter(
            at_ms__gte=first * QUARTER_MS,
            at_ms__lt=last * QUARTER_MS,
            channel__scope=Scope.SLICE,
            channel__allocation_id__isnull=False,
            cores_used__isnull=False,
        )
        .annotate(quarter=Cast((F("at_ms") - F("at_ms") % QUARTER_MS) / QUARTER_MS, IntegerField()))
        .values_list("channel__allocation_id", "quarter")
        .annotate(
            held=Sum(F("cores_allocated") * F(weight), output_field=FloatField()),
            busy=Sum(F("cores_used") * F(weight), output_field=FloatField()),
        )
        .order_by()
    )
    for allocation_id, quarter, held, busy in rows.iterator(chunk_size=5000):
        if allocation_id is not None:
            yield MeasuredQuarter(allocation_id, quarter, round(held), round(busy))
