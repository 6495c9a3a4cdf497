"""Condenses readings and ticks into five-minute rows, which outlive them.

A bucket is written in one transaction, oldest first, a minute after it has ended; so the newest roll-up
says how far the work has come, and no other bookkeeping can disagree with the rows. A run that is
repeated, late or beside another writes the same rows again. A reading that comes later than that minute
is in the chart of the last hours but not in the roll-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.db import transaction
from django.db.models import Avg, Count, Max, Min, QuerySet

from foundation.core import clock
from telemetry.models import Reading, RollUp, Tick
from telemetry.store.times import READINGS_KEPT_FOR, ROLL_UP_MS, floor_ms, span_ms, to_ms

_GRACE_MS: Final = 60_000
# Two hours of buckets fit into one run; a worker that was away longer has nothing older to condense.
_BUCKETS_PER_RUN: Final = span_ms(READINGS_KEPT_FOR) // ROLL_UP_MS + 1

_COMMON: Final[dict[str, Any]] = {
    "rows": Count("id"),
    "cores_used_mean": Avg("cores_used"),
    "cores_used_min": Min("cores_used"),
    "cores_used_max": Max("cores_used"),
    "memory_used_mean": Avg("memory_used_mib"),
    "memory_used_mib_min": Min("memory_used_mib"),
    "memory_used_mib_max": Max("memory_used_mib"),
    "cores_allocated_mean": Avg("cores_allocated"),
    "memory_allocated_mean": Avg("memory_allocated_mib"),
    "temperature_mean": Avg("temperature_c"),
    "power_mean": Avg("power_w"),
    "power_w_max": Max("power_w"),
}
_OF_READINGS: Final[dict[str, Any]] = {"temperature_max": Max("temperature_c")}
_OF_TICKS: Final[dict[str, Any]] = {
    "temperature_max": Max("temperature_max_c"),
    "cards_mean": Avg("cards"),
    "cards_sampled_mean": Avg("cards_sampled"),
    "cards_allocated_mean": Avg("cards_allocated"),
    "memory_capacity_mean": Avg("memory_capacity_mib"),
}
# An aggregate may not bear the name of a column of its own model; these are put right when stored.
_COLUMN: Final = {
    "channel_id": "channel_id",
    "rows": "count",
    "cores_used_mean": "cores_used",
    "memory_used_mean": "memory_used_mib",
    "cores_allocated_mean": "cores_allocated",
    "memory_allocated_mean": "memory_allocated_mib",
    "temperature_mean": "temperature_c",
    "temperature_max": "temperature_max_c",
    "power_mean": "power_w",
    "cards_mean": "cards",
    "cards_sampled_mean": "cards_sampled",
    "cards_allocated_mean": "cards_allocated",
    "memory_capacity_mean": "memory_capacity_mib",
}
_KEY: Final = ("id", "channel", "at_ms")
_FIELDS: Final = [field.name for field in RollUp._meta.concrete_fields if field.name not in _KEY]


def roll_up() -> int:
    """Write every roll-up that is due, at most two hours' worth, and return how many rows."""
    return sum(_roll_up(bucket) for bucket in _due())


def _next(from_ms: int) -> int | None:
    """Start of the first bucket at or after `from_ms` that has a row; a silence is stepped over."""
    found = [
        source.unscoped.filter(at_ms__gte=from_ms).aggregate(at=Min("at_ms"))["at"]
        for source in (Reading, Tick)
    ]
    return min((floor_ms(at, ROLL_UP_MS) for at in found if at is not None), default=None)


def _due() -> Iterator[int]:
    last = RollUp.unscoped.aggregate(at=Max("at_ms"))["at"]
    bucket = _next(0 if last is None else last + ROLL_UP_MS)
    closed = to_ms(clock.now()) - _GRACE_MS
    for _ in range(_BUCKETS_PER_RUN):
        if bucket is None or bucket + ROLL_UP_MS > closed:
            return
        yield bucket
        bucket = _next(bucket + ROLL_UP_MS)


def _within(rows: QuerySet[Any], bucket: int, aggregates: dict[str, Any]) -> Iterable[dict[str, Any]]:
    span = rows.filter(at_ms__gte=bucket, at_ms__lt=bucket + ROLL_UP_MS)
    found: Iterable[dict[str, Any]] = span.values("channel_id").annotate(**_COMMON, **aggregates).order_by()
    return found


def _row(bucket: int, values: dict[str, Any]) -> RollUp:
    return RollUp(at_ms=bucket, **{_COLUMN.get(name, name): value for name, value in values.items()})


@transaction.atomic
def _roll_up(bucket: int) -> int:
    rows = [_row(bucket, values) for values in _within(Reading.unscoped.all(), bucket, _OF_READINGS)]
    rows += [_row(bucket, values) for values in _within(Tick.unscoped.all(), bucket, _OF_TICKS)]
    RollUp.unscoped.bulk_create(
        rows, update_conflicts=True, unique_fields=["channel", "at_ms"], update_fields=_FIELDS
    )
    return len(rows)
