"""Condenses readings and ticks into minutes, minutes into ten minutes, and these into two hours.

The work to do is in `PendingBucket`, which all writers of readings mark. An interval is rolled up after its
end, and again after each late reading. It is read without a lock; its rows are written only if there was no
write into it since then, so a repeated, late or concurrent run does no harm.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Final

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Window
from django.db.models.functions import RowNumber

from clusters.gpu.measures import MeasureKind
from foundation.core import clock
from telemetry.models import (
    PendingBucket,
    Reading,
    Rolled,
    RolledMinute,
    RolledTenMinutes,
    RolledTwoHours,
    Scope,
    Tick,
)
from telemetry.services.folding import FIELDS, MEANS, Fold
from telemetry.services.summing import sum_slots
from telemetry.store.assigning import TYPED
from telemetry.store.packing import add_beside, first_stat, kind_of, unpack_stats, unpack_values
from telemetry.store.pending import mark_pending
from telemetry.store.times import MINUTE_MS, TEN_MINUTES_MS, TWO_HOURS_MS, floor_ms, to_ms

ROLLED: Final[dict[int, type[Rolled]]] = {
    MINUTE_MS: RolledMinute,
    TEN_MINUTES_MS: RolledTenMinutes,
    TWO_HOURS_MS: RolledTwoHours,
}
_COARSER: Final = {MINUTE_MS: TEN_MINUTES_MS, TEN_MINUTES_MS: TWO_HOURS_MS}
_FINER: Final = {coarse: fine for fine, coarse in _COARSER.items()}
# Delay after the end of an interval until its roll-up: minutes wait for agents, the others for minutes.
_GRACE_MS: Final = {MINUTE_MS: 30_000, TEN_MINUTES_MS: 90_000, TWO_HOURS_MS: 150_000}
# The most intervals of one run. After two hours without a run the minutes of one cluster fit into one run.
_AT_ONCE: Final = {MINUTE_MS: 130, TEN_MINUTES_MS: 30, TWO_HOURS_MS: 12}
_MOST_FAILURES: Final = 1_000
_READ: Final = ("cores_used", "cores_allocated", "memory_used_mib", "memory_allocated_mib", "temperature_c",
                "power_w")  # fmt: skip
_TICK: Final = (*MEANS, "temperature_max_c")

Folds = dict[int, Fold]


def roll_up() -> int:
    """Roll up due intervals, the finest grain first and each from the oldest on; return the rows written.

    An interval that fails does not delay the others; its error is raised after all were tried.
    """
    written, failures = 0, []
    for grain_ms in ROLLED:
        for bucket in _due(grain_ms):
            try:
                written += _roll(bucket)
            except Exception as error:  # raised below, together with the others
                error.add_note(f"while rolling up {bucket} of cluster {bucket.cluster_id}")
                failures.append(error)
                PendingBucket.unscoped.filter(pk=bucket.pk, failures__lt=_MOST_FAILURES).update(
                    failures=F("failures") + 1
                )
    if failures:
        raise ExceptionGroup("some measurements could not be rolled up", failures)
    return written


def _due(grain_ms: int) -> list[PendingBucket]:
    """Return the intervals to roll up now: clusters alternate, and failed ones come last in their cluster."""
    ended = to_ms(clock.now()) - grain_ms - _GRACE_MS[grain_ms]
    turn = Window(RowNumber(), partition_by=["cluster_id"], order_by=["failures", "at_ms", "id"])
    waits = PendingBucket.unscoped.filter(
        cluster_id=OuterRef("cluster_id"),
        grain_ms__lt=grain_ms,
        at_ms__gte=OuterRef("at_ms"),
        at_ms__lt=OuterRef("at_ms") + grain_ms,
    )
    rows = PendingBucket.unscoped.filter(~Exists(waits), grain_ms=grain_ms, at_ms__lte=ended)
    return list(rows.annotate(turn=turn).order_by("turn", "at_ms", "id")[: _AT_ONCE[grain_ms]])


def _roll(bucket: PendingBucket) -> int:
    grain_ms, until = bucket.grain_ms, bucket.at_ms + bucket.grain_ms
    if grain_ms == MINUTE_MS:
        if bucket.sums:
            sum_slots(bucket.cluster_id, bucket.at_ms, until)
        folds = _fold_minute(bucket.cluster_id, bucket.at_ms, until)
    else:
        folds = _fold_rolled(ROLLED[_FINER[grain_ms]], bucket.cluster_id, bucket.at_ms, until)
    return _store(bucket, folds)


@transaction.atomic
def _store(bucket: PendingBucket, folds: Folds) -> int:
    if not PendingBucket.unscoped.filter(pk=bucket.pk, token=bucket.token).delete()[0]:
        return 0  # written into since it was read: left to the next run
    model = ROLLED[bucket.grain_ms]
    rows = [fold.build_row(model, channel, bucket.at_ms, bucket.grain_ms) for channel, fold in folds.items()]
    model.unscoped.bulk_create(
        rows, update_conflicts=True, unique_fields=["channel", "at_ms"], update_fields=FIELDS
    )
    coarser = _COARSER.get(bucket.grain_ms)
    if coarser is not None and rows:
        mark_pending(bucket.cluster_id, coarser, [floor_ms(bucket.at_ms, coarser)])
    return len(rows)


def _fold_minute(cluster_id: uuid.UUID, since_ms: int, until_ms: int) -> Folds:
    folds: Folds = {}
    groups: dict[tuple[str, uuid.UUID | None], Fold] = {}
    for channel, scope, node, workspace, interval, row in _rows(Tick, cluster_id, since_ms, until_ms, _TICK):
        fold = folds.setdefault(channel, Fold())
        fold.add_row(row, 1, interval, {})
        groups[scope, {Scope.NODE: node, Scope.WORKSPACE: workspace}.get(Scope(scope))] = fold
    of_group: dict[int, list[tuple[str, uuid.UUID | None]]] = {}
    for channel, scope, node, workspace, interval, row in _rows(
        Reading, cluster_id, since_ms, until_ms, (*_READ, "values")
    ):
        values = unpack_values(row.pop("values"))
        typed = (row["cores_used"], row["memory_used_mib"], row["temperature_c"], row["power_w"])
        values.update((name, value) for name, value in zip(TYPED, typed, strict=True) if value is not None)
        stats = {name: first_stat(name, value, interval) for name, value in values.items()}
        folds.setdefault(channel, Fold()).add_row(row, 1, interval, stats)
        if scope == Scope.CARD:
            of_group[channel] = [(Scope.NODE, node), (Scope.CLUSTER, None)]
        elif scope == Scope.SLICE:
            of_group[channel] = [(Scope.WORKSPACE, workspace)]
    for channel, keys in of_group.items():
        for key in keys:
            if key in groups:
                # No counters: one that ends with its GPU would look like one that restarted.
                stats = folds[channel].stats
                add_beside(
                    groups[key].stats,
                    {n: s for n, s in stats.items() if kind_of(n) is not MeasureKind.COUNTER},
                )
    return folds


def _rows(
    model: Any, cluster_id: uuid.UUID, since_ms: int, until_ms: int, columns: tuple[str, ...]
) -> Iterator[tuple[int, str, uuid.UUID | None, uuid.UUID | None, int, dict[str, Any]]]:
    """Yield channel, scope, node, workspace, covered time and columns of each row, by time."""
    span = model.unscoped.filter(
        at_ms__gte=since_ms, at_ms__lt=until_ms, channel__cluster_id=cluster_id
    ).order_by("at_ms", "id")
    of_channel = ("channel_id", "channel__scope", "channel__node_id", "channel__workspace_id", "interval_ms")
    for channel, scope, node, workspace, interval, *values in span.values_list(*of_channel, *columns):
        yield channel, scope, node, workspace, interval, dict(zip(columns, values, strict=True))


def _fold_rolled(finer: type[Rolled], cluster_id: uuid.UUID, since_ms: int, until_ms: int) -> Folds:
    folds: Folds = {}
    span = finer.unscoped.filter(at_ms__gte=since_ms, at_ms__lt=until_ms, channel__cluster_id=cluster_id)
    for row in span.order_by("at_ms", "id").values("channel_id", *FIELDS):
        fold = folds.setdefault(row["channel_id"], Fold())
        fold.add_row(row, row["count"], row["covered_ms"], unpack_stats(row["values"]))
    return folds
