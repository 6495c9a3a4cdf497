"""Converts roll-ups of five minutes, from before the three grains, to ten minutes.

A few intervals are converted at a time, so that an upgrade does not wait; charts show them once converted.
"""

from __future__ import annotations

from typing import Any, Final

from django.db import transaction

from telemetry.models import Channel, RolledTenMinutes, RollUp
from telemetry.services.folding import HIGHEST, LOWEST, MEANS, Fold
from telemetry.store.pending import mark_pending
from telemetry.store.times import TEN_MINUTES_MS, TICK_MS, TWO_HOURS_MS, floor_ms

_AT_ONCE: Final = 36


def move_old_rows(at_once: int = _AT_ONCE) -> int:
    """Convert up to `at_once` intervals, the newest first, and return how many rows were converted."""
    moved = 0
    for _ in range(at_once):
        newest = RollUp.unscoped.order_by("-at_ms").values_list("at_ms", flat=True).first()
        if newest is None:
            break
        moved += _move(floor_ms(newest, TEN_MINUTES_MS))
    return moved


@transaction.atomic
def _move(at_ms: int) -> int:
    span = RollUp.unscoped.filter(at_ms__gte=at_ms, at_ms__lt=at_ms + TEN_MINUTES_MS)
    folds: dict[int, Fold] = {}
    columns: tuple[Any, ...] = ("channel_id", "count", *MEANS, *LOWEST, *HIGHEST)
    for row in span.select_for_update().order_by("at_ms", "id").values(*columns):
        fold = folds.setdefault(row["channel_id"], Fold())
        fold.add_row(row, row["count"], row["count"] * TICK_MS, {})
    rows = [
        fold.build_row(RolledTenMinutes, channel, at_ms, TEN_MINUTES_MS) for channel, fold in folds.items()
    ]
    # New rows that already cover this time have more values.
    RolledTenMinutes.unscoped.bulk_create(rows, ignore_conflicts=True)  # type: ignore[arg-type]
    clusters = (
        Channel.unscoped.filter(id__in=folds).order_by("cluster_id").values_list("cluster_id", flat=True)
    )
    for cluster_id in dict.fromkeys(clusters):
        mark_pending(cluster_id, TWO_HOURS_MS, [floor_ms(at_ms, TWO_HOURS_MS)])
    span.delete()
    return len(rows)
