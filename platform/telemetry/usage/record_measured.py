"""Stores measured use by job and quarter of an hour before the readings expire."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from django.db import transaction

from foundation.core.months import from_ms, to_ms
from scheduling.metering.usage_rows import usage_rows
from scheduling.models import Allocation
from telemetry.models import MeasuredProgress, MeasuredUse
from telemetry.usage.accounting import QUARTER_MS, QUARTERS
from telemetry.usage.measured import LATE, STORE_RETENTION, first_quarter, measured_quarters

_QUARTERS_PER_RUN: Final = 96
Key = tuple[uuid.UUID, uuid.UUID, int]
"""A job, a flavor and a quarter."""


@dataclass(slots=True)
class _MeasuredHold:
    """The GPU time that a job held on a flavor in a quarter, and its measured and used parts."""

    workspace_id: uuid.UUID
    held: int = 0
    measured: int = 0
    used: int = 0


def record_measured(*, now: datetime) -> int:
    """Write the quarters that are not final; return how many rows of days were written.

    A repeated, late or concurrent run writes the same numbers. After an interruption a run writes at most a
    day of quarters.
    """
    present = to_ms(now) // QUARTER_MS
    final_until = to_ms(now - LATE) // QUARTER_MS
    progress = MeasuredProgress.unscoped.first()
    oldest = to_ms(now - STORE_RETENTION) // QUARTER_MS + 1
    first = max(oldest, first_quarter() if progress is None else progress.final_until_ms // QUARTER_MS)
    if first > present:
        return 0
    last = min(present, first + _QUARTERS_PER_RUN)
    written = _record(first, last + 1, now=now)
    final = max(first, min(final_until, last + 1))
    measured_until = min(to_ms(now), (last + 1) * QUARTER_MS)
    MeasuredProgress.unscoped.update_or_create(
        pk=1, defaults={"final_until_ms": final * QUARTER_MS, "measured_until_ms": measured_until}
    )
    return written


def _record(first: int, last: int, *, now: datetime) -> int:
    """Write the quarters from `first` until before `last`."""
    found = list(measured_quarters(first, last, now=now))
    if not found:
        return 0
    quarters: dict[Key, _MeasuredHold] = {}
    for row in usage_rows(first * QUARTER_MS, last * QUARTER_MS, now=now):
        for quarter in range(max(first, row.begin_ms // QUARTER_MS), min(last, -(-row.end_ms // QUARTER_MS))):
            begin, end = quarter * QUARTER_MS, (quarter + 1) * QUARTER_MS
            key = (row.job_id, row.flavor_id, quarter)
            held = quarters.setdefault(key, _MeasuredHold(row.workspace_id))
            held.held += row.cores * (min(end, row.end_ms) - max(begin, row.begin_ms))
    owners = _owners({one.allocation_id for one in found})
    for one in found:
        owner = owners.get(one.allocation_id)
        held_or_none = quarters.get((*owner, one.quarter)) if owner else None
        if held_or_none is not None:
            held_or_none.measured += one.measured
            held_or_none.used += one.used
    return _write({key: held for key, held in quarters.items() if held.measured})


def _owners(allocations: set[uuid.UUID]) -> dict[uuid.UUID, tuple[uuid.UUID, uuid.UUID]]:
    """Return the job and the flavor of allocations."""
    found: dict[uuid.UUID, tuple[uuid.UUID, uuid.UUID]] = {}
    ids = sorted(allocations)
    for start in range(0, len(ids), 500):
        rows = Allocation.unscoped.filter(pk__in=ids[start : start + 500])
        for pk, job, flavor in rows.values_list("pk", "attempt__job_id", "flavor_id"):
            found[pk] = (job, flavor)
    return found


def _write(quarters: Mapping[Key, _MeasuredHold]) -> int:
    """Write quarters into the rows of their days, with measured and used time limited to the held time."""
    days: defaultdict[tuple[uuid.UUID, uuid.UUID, int], dict[int, _MeasuredHold]] = defaultdict(dict)
    for (job, flavor, quarter), held in quarters.items():
        days[job, flavor, quarter // QUARTERS][quarter % QUARTERS] = held
    with transaction.atomic():
        known = _known({day for _, _, day in days}, {job for job, _, _ in days})
        rows = [
            _row(key, by_quarter, known.get(key))
            for key, by_quarter in sorted(days.items(), key=lambda i: i[0])
        ]
        MeasuredUse.unscoped.bulk_create(
            rows,
            batch_size=500,
            update_conflicts=True,
            unique_fields=["job_id", "flavor_id", "day"],
            update_fields=["measured", "used"],
        )
    return len(rows)


def _known(days: Iterable[int], jobs: set[uuid.UUID]) -> dict[tuple[uuid.UUID, uuid.UUID, int], MeasuredUse]:
    rows = MeasuredUse.unscoped.select_for_update().filter(day__in=sorted(days)).order_by("pk")
    return {(row.job_id, row.flavor_id, row.day): row for row in rows if row.job_id in jobs}


def _row(
    key: tuple[uuid.UUID, uuid.UUID, int], by_quarter: Mapping[int, _MeasuredHold], known: MeasuredUse | None
) -> MeasuredUse:
    measured, used = (
        np.zeros(QUARTERS, dtype="<i8") if known is None else np.frombuffer(column, dtype="<i8").copy()
        for column in ((known.measured, known.used) if known else (b"", b""))
    )
    for quarter, held in by_quarter.items():
        measured[quarter] = min(held.measured, held.held)
        used[quarter] = min(held.used, measured[quarter])
    job, flavor, day = key
    return MeasuredUse(
        workspace_id=next(iter(by_quarter.values())).workspace_id,
        job_id=job,
        flavor_id=flavor,
        day=day,
        measured=measured.tobytes(),
        used=used.tobytes(),
    )


def measured_until() -> datetime | None:
    """Return the time until which measured use is written; None before the first run."""
    progress = MeasuredProgress.unscoped.first()
    return None if progress is None else from_ms(progress.measured_until_ms)
