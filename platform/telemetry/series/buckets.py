"""Means per bucket, from roll-ups of the grain that a window is read from, and finer rows where they end.

All sources give a sum and the time it stands for, so the parts of a bucket that straddles a border add up to
the exact mean. Buckets are whole-number divisions of the time, which all databases do alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import (
    BigIntegerField,
    ExpressionWrapper,
    F,
    FloatField,
    Max,
    Q,
    QuerySet,
    Sum,
)

from telemetry.models import Channel, Reading, Rolled, Tick
from telemetry.series.sources import sources_of
from telemetry.series.window import Window

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


def _terms(measures: Sequence[ColumnMeasure], weight: str) -> dict[str, Any]:
    """Sums weighted by the time that a row stands for, and that time; the column `weight` has it."""
    terms: dict[str, Any] = {}
    for number, measure in enumerate(measures):
        product = ExpressionWrapper(F(measure.column) * F(weight), output_field=FloatField())
        terms[f"value_{number}"] = Max(measure.column) if measure.peak else Sum(product)
        terms[f"weight_{number}"] = Sum(weight, filter=Q(**{f"{measure.column}__isnull": False}))
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
    """Mean of each measure per channel and bucket, from the coarsest grain that the window allows."""
    means = _Means(measures)
    channel_ids = channels.order_by().values("id")
    for source, since_ms, until_ms in sources_of(window, fine):
        rows = source.unscoped.filter(channel__in=channel_ids, at_ms__gte=since_ms, at_ms__lt=until_ms)
        weight = "covered_ms" if issubclass(source, Rolled) else "interval_ms"
        means.add(rows, window, _terms(measures, weight))
    return means.buckets()
