"""Means per bucket, from readings or ticks as long as they exist and from roll-ups before.

Both sources give a sum and a weight, so the two halves of a bucket that straddles the border add up to
the exact mean. Buckets are whole-number divisions of the time, which all databases do alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import (
    BigIntegerField,
    Count,
    ExpressionWrapper,
    F,
    FloatField,
    Max,
    Q,
    QuerySet,
    Sum,
)

from telemetry.models import Channel, Reading, RollUp, Tick
from telemetry.series.window import Window
from telemetry.store.times import ROLL_UP_MS

Fine = type[Reading] | type[Tick]


@dataclass(frozen=True, slots=True)
class ColumnMeasure:
    """A column to read; `peak` takes the largest value of the bucket instead of the mean."""

    column: str
    peak: bool = False


Values = dict[str, float]
Buckets = dict[int, dict[int, Values]]
"""Channel id, then bucket number, then column: value. What has no reading is absent."""


def _bucket(window: Window) -> ExpressionWrapper[Any]:
    return ExpressionWrapper(F("at_ms") / window.step_ms, output_field=BigIntegerField())


def _fine_terms(measures: Sequence[ColumnMeasure]) -> dict[str, Any]:
    terms: dict[str, Any] = {}
    for number, measure in enumerate(measures):
        total = Max if measure.peak else Sum
        terms[f"value_{number}"] = total(measure.column)
        terms[f"weight_{number}"] = Count(measure.column)
    return terms


def _rolled_terms(measures: Sequence[ColumnMeasure]) -> dict[str, Any]:
    terms: dict[str, Any] = {}
    for number, measure in enumerate(measures):
        product = ExpressionWrapper(F(measure.column) * F("count"), output_field=FloatField())
        terms[f"value_{number}"] = Max(measure.column) if measure.peak else Sum(product)
        terms[f"weight_{number}"] = Sum("count", filter=Q(**{f"{measure.column}__isnull": False}))
    return terms


class _Means:
    """Adds up values and weights from either source."""

    def __init__(self, measures: Sequence[ColumnMeasure]) -> None:
        self.measures = measures
        self.sums: dict[tuple[int, int, int], tuple[float, int]] = {}

    def add(self, rows: QuerySet[Any], window: Window, terms: dict[str, Any]) -> None:
        grouped = rows.values("channel_id", bucket=_bucket(window)).annotate(**terms).order_by()
        for row in grouped:
            for number, measure in enumerate(self.measures):
                if row[f"value_{number}"] is None:
                    continue
                value, weight = float(row[f"value_{number}"]), int(row[f"weight_{number}"])
                key = (row["channel_id"], row["bucket"], number)
                before, so_far = self.sums.get(key, (0.0, 0))
                total = max(before, value) if measure.peak else before + value
                self.sums[key] = (total, so_far + weight)

    def buckets(self) -> Buckets:
        found: Buckets = {}
        for (channel, bucket, number), (total, weight) in self.sums.items():
            measure = self.measures[number]
            value = total if measure.peak else total / weight
            found.setdefault(channel, {}).setdefault(bucket, {})[measure.column] = value
        return found


def bucket_means(
    window: Window, channels: QuerySet[Channel], fine: Fine, measures: Sequence[ColumnMeasure]
) -> Buckets:
    """Mean of each measure per channel and bucket; one query, or three where roll-ups take part.

    Roll-ups lag behind by some minutes; from where they end, the fine rows continue.
    """
    means = _Means(measures)
    channel_ids = channels.order_by().values("id")
    border = window.from_ms
    if not window.fine_only:
        newest = RollUp.unscoped.aggregate(at=Max("at_ms"))["at"]
        border = window.from_ms if newest is None else max(window.from_ms, newest + ROLL_UP_MS)
        rolled = RollUp.unscoped.filter(
            channel__in=channel_ids, at_ms__gte=window.from_ms, at_ms__lt=min(border, window.until_ms)
        )
        means.add(rolled, window, _rolled_terms(measures))
    rows = fine.unscoped.filter(channel__in=channel_ids, at_ms__gte=border, at_ms__lt=window.until_ms)
    means.add(rows, window, _fine_terms(measures))
    return means.buckets()
