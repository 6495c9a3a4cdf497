"""Reads the usage intervals of all jobs in a period: written ones of ended runs, others from allocations."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import F, QuerySet, Sum

from foundation.core.months import to_ms
from foundation.sql.plain_rows import read_id, read_plain
from foundation.sql.prepared import PreparedQuery
from scheduling.engine_input.job_history import PREEMPTED
from scheduling.metering.intervals import (
    Hold,
    attempt_intervals,
    billed_percent,
    borrowed_by_flavor,
    gpu_percent,
    lost_since_ms,
)
from scheduling.models import Allocation, Attempt, GpuRequestMode, UsageInterval


class UsageRow(NamedTuple):
    """An interval with its owner; amounts as in `scheduling.metering.intervals.Interval`."""

    workspace_id: uuid.UUID
    queue_id: uuid.UUID
    user_id: uuid.UUID
    job_id: uuid.UUID
    job_name: str
    flavor_id: uuid.UUID
    sliced: bool
    begin_ms: int
    end_ms: int
    cores: int
    billed: int
    borrowed: int
    lost: int


_FEW: Final = 100
Tenants = QuerySet[Any] | None
"""The requested workspaces; None for all."""
_PREEMPTED: Final = frozenset(rule.value for rule in PREEMPTED)
_ATTEMPT: Final = ("admitted_at", "started_at", "ended_at", "end_reason", "borrowed")
_JOB: Final = ("workspace_id", "queue_id", "submitted_by_id", "id", "name", "checkpoint_interval_s")
RUN_KEYS: Final = {
    "queue_id": "attempt__job__queue_id",
    "user_id": "attempt__job__submitted_by_id",
    "job_id": "attempt__job_id",
}
"""The fields of an allocation with the ids of its run."""
_COLUMNS: Final = (
    "attempt_id",
    *(f"attempt__{name}" for name in _ATTEMPT),
    *(f"attempt__job__{name}" for name in _JOB),
    "flavor_id",
    "flavor__card_memory_mib",
    "task__role__gpu_mode",
    "charge",
    "past_charges",
    "released_at",
    "granted_at",
)
_LOSSES: Final = PreparedQuery(
    lambda attempts: (
        UsageInterval.unscoped.filter(attempt_id__any_of=attempts, lost__gt=0)
        .order_by()
        .values_list("attempt_id")
        .annotate(discarded=Sum(F("lost") * (F("end_ms") - F("begin_ms"))))
    )
)


def usage_rows(
    start_ms: int, end_ms: int, *, now: datetime, workspaces: Tenants = None, **only: Collection[uuid.UUID]
) -> Iterator[UsageRow]:
    """Yield every interval that overlaps a period, not cut to it; live allocations end at `now`.

    `only` may have `queue_id`, `user_id`, `job_id` and `flavor_id`. The caller has checked permissions.
    """
    here = None if workspaces is None else inline_few_ids(workspaces)
    lists = {name: list(values) for name, values in only.items()}
    of_run = {f"{RUN_KEYS[name]}__in": values for name, values in lists.items() if name in RUN_KEYS}
    live = Allocation.unscoped.filter(attempt__metered_at__isnull=True, **of_run)
    if here is not None:
        live = live.filter(attempt__job__workspace__in=here)
    running = {
        _key_of(row): row
        for _, row in _rows_of(live, now)
        if row.end_ms > start_ms and row.begin_ms < end_ms and _matches(row, only)
    }
    named = {f"{name}__in": values for name, values in lists.items()}
    written = UsageInterval.unscoped.filter(end_ms__gt=start_ms, begin_ms__lt=end_ms, **named)
    if here is not None:
        written = written.filter(workspace_id__in=here)
    yield from _with_written(running, written)


def usage_of_attempts(attempts: QuerySet[Attempt], *, now: datetime) -> Iterator[UsageRow]:
    """Yield every interval of runs, and read nothing of others; live allocations end at `now`.

    The caller has checked permissions.
    """
    live = rows_of_attempts(attempts.filter(metered_at__isnull=True), now=now)
    running = {_key_of(row): row for _, row in live}
    yield from _with_written(running, UsageInterval.unscoped.filter(attempt_id__in=attempts.values("pk")))


def _with_written(
    running: dict[tuple[int, ...], UsageRow], written: QuerySet[UsageInterval]
) -> Iterator[UsageRow]:
    """Yield written intervals, then those of live allocations that are not among them.

    Written intervals are read last: a run that is written in between is found twice instead of missed.
    """
    for values in read_plain(written.order_by().values_list(*UsageRow._fields)):
        if isinstance(values[0], str):
            workspace, queue, user, job, name, flavor, *rest = values
            ids = (read_id(workspace), read_id(queue), read_id(user), read_id(job))
            values = (*ids, name, read_id(flavor), *rest)
        row = UsageRow._make(values)
        if running:
            running.pop(_key_of(row), None)
        yield row
    yield from running.values()


def _key_of(row: UsageRow) -> tuple[int, ...]:
    """Return the key of an interval, with ids as integers, because a UUID computes its hash each time."""
    return row.begin_ms, row.job_id.int, row.flavor_id.int, row.sliced


def inline_few_ids(workspaces: QuerySet[Any]) -> Any:
    """Return the ids of the workspaces if they are few, otherwise the subquery: the database can estimate the
    number of jobs for given ids, but not for a subquery."""
    keys = workspaces.order_by().values_list("pk", flat=True)
    few = list(keys[: _FEW + 1])
    return few if len(few) <= _FEW else keys


def _matches(row: UsageRow, only: Mapping[str, Collection[uuid.UUID]]) -> bool:
    return all(getattr(row, name) in values for name, values in only.items())


def written_losses(attempts: Sequence[uuid.UUID]) -> Counter[uuid.UUID]:
    """Return the work that preemption discarded, by run, in percent points of a GPU x milliseconds.

    Only runs whose intervals are stored are counted.
    """
    return Counter({attempt: int(discarded) for attempt, discarded in _LOSSES.for_any(attempts)})


def unmetered_attempts() -> QuerySet[Attempt]:
    """Return the runs whose intervals are not written: live ones, and some that ended lately."""
    return Attempt.unscoped.filter(metered_at__isnull=True)


@dataclass(slots=True)
class _MeteredRun:
    """One run with the amounts of its tasks."""

    owner: tuple[uuid.UUID, uuid.UUID, uuid.UUID, uuid.UUID, str]
    lost: tuple[int, int] | None
    borrowed: Mapping[str, int]
    holds: list[Hold] = field(default_factory=list)
    held: Counter[str] = field(default_factory=Counter)
    """The first charges of all its tasks, by `flavor/resource`."""

    def borrowed_cores(self) -> dict[uuid.UUID, int]:
        """Return the compute that the run borrowed of each flavor."""
        found = borrowed_by_flavor(self.borrowed, self.held)
        return {uuid.UUID(flavor): cores for flavor, cores in found.items()}


def rows_of_attempts(
    attempts: QuerySet[Attempt] | Iterable[uuid.UUID], *, now: datetime
) -> Iterator[tuple[uuid.UUID, UsageRow]]:
    """Yield the intervals of runs with the id of the run, from their allocations."""
    return _rows_of(Allocation.unscoped.filter(attempt__in=attempts), now)


def _rows_of(holds: QuerySet[Allocation], now: datetime) -> Iterator[tuple[uuid.UUID, UsageRow]]:
    rows = holds.order_by()
    runs: dict[uuid.UUID, _MeteredRun] = {}
    now_ms = to_ms(now)
    for attempt_id, *rest in rows.values_list(*_COLUMNS).iterator(chunk_size=2000):
        of_run, of_hold = tuple(rest[:11]), rest[11:]
        run = runs.get(attempt_id)
        if run is None:
            run = runs[attempt_id] = _run_of(of_run)
        *of_hold, allocated_at = of_hold
        run.holds += _holds(to_ms(allocated_at or of_run[0]), now_ms, *of_hold)
        if run.borrowed:
            flavor, _, _, charge, past, _ = of_hold
            first = past[0][1] if past else charge
            run.held.update({f"{flavor}/{resource}": amount for resource, amount in first.items()})
    for attempt_id, run in runs.items():
        for one in attempt_intervals(run.holds, borrowed=run.borrowed_cores(), lost=run.lost):
            yield attempt_id, UsageRow._make((*run.owner, *one))


def _run_of(values: tuple[Any, ...]) -> _MeteredRun:
    _, started, ended, reason, borrowed, workspace, queue, user, job, name, checkpoint_s = values
    lost = None
    if ended is not None and reason in _PREEMPTED:
        ended_ms = to_ms(ended)
        since_ms = lost_since_ms(
            started_ms=None if started is None else to_ms(started),
            ended_ms=ended_ms,
            checkpoint_interval_s=checkpoint_s,
        )
        lost = (since_ms, ended_ms)
    return _MeteredRun((workspace, queue, user, job, name), lost, borrowed)


def _holds(
    begin_ms: int,
    now_ms: int,
    flavor_id: uuid.UUID,
    card_memory_mib: int,
    mode: str,
    charge: Mapping[str, int],
    past: list[tuple[int, Mapping[str, int]]] | None,
    released: datetime | None,
) -> Iterator[Hold]:
    """Yield one interval for each charge of a task, in order of time."""
    sliced = mode != GpuRequestMode.WHOLE
    end_ms = now_ms if released is None else to_ms(released)
    for until_ms, amounts in (*(past or ()), (end_ms, charge)):
        if cores := gpu_percent(amounts):
            billed = billed_percent(amounts, sliced=sliced, card_memory_mib=card_memory_mib)
            yield Hold(flavor_id, sliced, begin_ms, until_ms, cores, billed)
        begin_ms = until_ms
