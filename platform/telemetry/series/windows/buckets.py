"""Means per bucket, from roll-ups of the window's grain, and from finer rows after the last roll-up.

All sources give a sum and the time it covers, so the parts of a bucket on both sides of a border add up to
the exact mean. Buckets are whole-number divisions of the time, which all databases do alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from django.db.models.functions import Cast

from telemetry.models import Channel, Reading, Rolled, Tick
from telemetry.series.windows.sources import sources_of
from telemetry.series.windows.window import Window

Fine = type[Reading] | type[Tick]


@dataclass(frozen=True, slots=True)
class ColumnMeasure:
    """A column to read; `peak` takes the largest value of the bucket instead of the mean."""

    column: str
    peak: bool = False


Values = dict[str, float]
Buckets = dict[int, dict[int, Values]]
"""Values by channel id, bucket number and column. A value without a reading is absent."""


class TimeSum(NamedTuple):
    """A column over a bucket: the sum of its values times the milliseconds that they cover, and the sum of
    these.

    For a peak `total` is the largest value.
    """

    total: float
    measured_ms: int


Sums = dict[int, dict[int, dict[str, TimeSum]]]
"""Sums by channel id, bucket number and column. A sum without a reading is absent."""


def _bucket(window: Window) -> ExpressionWrapper[Any]:
    return ExpressionWrapper(F("at_ms") / window.step_ms, output_field=BigIntegerField())


def _terms(measures: Sequence[ColumnMeasure], weight: str) -> dict[str, Any]:
    """Build sums weighted by the time that a row covers, and that time, from the column `weight`."""
    terms: dict[str, Any] = {}
    for number, measure in enumerate(measures):
        # The compute of a large cluster times milliseconds does not fit into 32 bits.
        time = Cast(F(weight), BigIntegerField())
        product = ExpressionWrapper(F(measure.column) * time, output_field=FloatField())
        terms[f"value_{number}"] = Max(measure.column) if measure.peak else Sum(product)
        terms[f"weight_{number}"] = Sum(weight, filter=Q(**{f"{measure.column}__isnull": False}))
    return terms


class _Adder:
    """Adds up values and weights from either source."""

    def __init__(self, measures: Sequence[ColumnMeasure]) -> None:
        self.measures = measures
        self.sums: dict[tuple[int, int, int], tuple[float, int]] = {}

    def add_rows(self, rows: QuerySet[Any], window: Window, terms: dict[str, Any]) -> None:
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

    def build_buckets(self) -> Sums:
        found: Sums = {}
        for (channel, bucket, number), (total, weight) in self.sums.items():
            column = self.measures[number].column
            found.setdefault(channel, {}).setdefault(bucket, {})[column] = TimeSum(total, weight)
        return found


def bucket_means(
    window: Window, channels: QuerySet[Channel], fine: Fine, measures: Sequence[ColumnMeasure]
) -> Buckets:
    """Return the mean of each measure per channel and bucket over the time in which it was measured."""
    return means_of(bucket_sums(window, channels, fine, measures), measures)


def means_of(sums: Sums, measures: Sequence[ColumnMeasure]) -> Buckets:
    """Return the means of sums over the time in which each was measured; a peak stays as it is.

    The summed compute of cards stays in proportion to the number of cards with a reading.
    """
    peaks = {measure.column for measure in measures if measure.peak}
    found: Buckets = {}
    for channel, by_bucket in sums.items():
        for bucket, columns in by_bucket.items():
            cell = found.setdefault(channel, {}).setdefault(bucket, {})
            for column, one in columns.items():
                length = one.measured_ms
                if column == "cores_used" and "cards_sampled" in columns:
                    length = columns["cards_sampled"].measured_ms
                cell[column] = one.total if column in peaks else one.total / length
    return found


def bucket_sums(
    window: Window, channels: QuerySet[Channel], fine: Fine, measures: Sequence[ColumnMeasure]
) -> Sums:
    """Return the sum of each measure over time per channel and bucket, from the coarsest grain allowed."""
    adder = _Adder(measures)
    channel_ids = channels.order_by().values("id")
    for source, since_ms, until_ms in sources_of(window, fine):
        rows = source.unscoped.filter(channel__in=channel_ids, at_ms__gte=since_ms, at_ms__lt=until_ms)
        weight = "covered_ms" if issubclass(source, Rolled) else "interval_ms"
        adder.add_rows(rows, window, _terms(measures, weight))
    return adder.build_buckets()
