"""The measured use of allocations: the one place where usage reads the store of readings."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

from django.db.models import F, FloatField, IntegerField, Min, Sum, Value
from django.db.models.functions import Cast, Greatest

from clusters.gpu.report import INTERVAL_MOST_MS
from foundation.core.months import to_ms
from telemetry.models import Reading, RolledMinute, Scope
from telemetry.store.times import MINUTE_RETENTION, READING_RETENTION
from telemetry.usage.accounting import QUARTER_MS

STORE_RETENTION: Final = MINUTE_RETENTION
"""How long the store can distinguish quarters."""
LATE: Final = READING_RETENTION - timedelta(minutes=30)
"""How late readings may still arrive: a quarter is final when it ended that long ago."""


class MeasuredQuarter(NamedTuple):
    """The part of a quarter of an hour of an allocation that readings cover, or some of it, in percent points
    of a GPU x ms.
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
    """Yield the measured use of each allocation in the quarters from `first` until before `last`, a quarter
    in one part or two.

    A reading covers its interval, whose part after the end of a quarter counts in the next one. A quarter
    without readings or with unknown compute yields nothing. Readings are used while they are stored, and
    roll-ups of a minute for the quarters before.
    """
    fine_since = -(-to_ms(now - READING_RETENTION) // QUARTER_MS)
    middle = min(last, max(first, fine_since))
    before_ms = first * QUARTER_MS - INTERVAL_MOST_MS
    if middle == first:
        parts = _read(Reading, "interval_ms", before_ms, last * QUARTER_MS)
    else:
        parts = chain(
            _read(RolledMinute, "covered_ms", before_ms, middle * QUARTER_MS),
            _read(Reading, "interval_ms", middle * QUARTER_MS, last * QUARTER_MS),
        )
    return (part for part in parts if first <= part.quarter < last)


def _read(
    model: type[Reading] | type[RolledMinute], length: str, since_ms: int, until_ms: int
) -> Iterator[MeasuredQuarter]:
    if since_ms >= until_ms:
        return
    in_quarter = F("at_ms") % QUARTER_MS
    beyond = Greatest(Value(0), in_quarter + F(length) - QUARTER_MS)
    rows = (
        model.unscoped.filter(
            at_ms__gte=since_ms,
            at_ms__lt=until_ms,
            channel__scope=Scope.SLICE,
            channel__allocation_id__isnull=False,
            cores_used__isnull=False,
        )
        .annotate(quarter=Cast((F("at_ms") - in_quarter) / QUARTER_MS, IntegerField()))
        .values_list("channel__allocation_id", "quarter")
        .annotate(
            held=Sum(F("cores_allocated") * F(length), output_field=FloatField()),
            busy=Sum(F("cores_used") * F(length), output_field=FloatField()),
            held_beyond=Sum(F("cores_allocated") * beyond, output_field=FloatField()),
            busy_beyond=Sum(F("cores_used") * beyond, output_field=FloatField()),
        )
        .order_by()
    )
    for allocation_id, quarter, held, busy, *after in rows.iterator(chunk_size=5000):
        if allocation_id is not None:
            held_beyond, busy_beyond = after
            within = round(held - held_beyond), round(busy - busy_beyond)
            yield MeasuredQuarter(allocation_id, quarter, *within)
            if held_beyond:
                yield MeasuredQuarter(allocation_id, quarter + 1, round(held_beyond), round(busy_beyond))
