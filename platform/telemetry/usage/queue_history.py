"""The past of one queue: how long its jobs waited, how many were admitted and evicted, and the GPUs that they
requested, compared with the quota.

Amounts are means over equal parts of a time. Waits are from submission to the first admission; an evicted job
waits again from the end of that attempt, a suspended one from its resume.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import DateTimeField, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from quotas.models import Queue, QuotaChange
from quotas.selectors.tables.quota import queue_quota
from scheduling.engine import model as em
from scheduling.metering.usage_rows import usage_rows
from scheduling.models import TERMINAL_STATES, Attempt, Job, JobState
from scheduling.selectors.pending.pending import flavor_suits
from telemetry.series.windows.window import Window, window_of
from telemetry.store.times import MINUTE_MS, TICK_RETENTION, from_ms, to_ms
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

_MOST: Final = 20_000
"""The most waits that are read: the latest ones."""
# A job that reached its own run time limit has failed.
_EVICTIONS: Final = [rule.value for rule in em.EvictRule if rule is not em.EvictRule.TIME_LIMIT]
_POINTS: Final = 96
_WAIT_POINTS: Final = 24
"""Few points, so that most parts have an admission."""
_ROLE: Final = ("gpu_mode", "gpu_models", "replicas", "gpu_cards", "gpu_cores")


class GpuStretch(NamedTuple):
    """An amount during a time, in milliseconds since 1970."""

    begin_ms: int
    end_ms: int
    amount: float


class WaitPart(NamedTuple):
    """The jobs that were first admitted in a part of the time, and their waits in seconds; None without
    jobs."""

    at: datetime
    jobs: int
    mean_s: float | None
    longest_s: float | None


class RatePart(NamedTuple):
    """Jobs per hour in a part of the time; None while the part lasts, and where older ones weren't read."""

    at: datetime
    admitted: float | None
    evicted: float | None


class DemandPart(NamedTuple):
    """GPUs of a pool in a part of the time: allocated, requested by pending jobs, and the nominal quota."""

    at: datetime
    allocated: float
    pending: float
    nominal: float | None


@dataclass(frozen=True, slots=True)
class _Times:
    """The window, and the moment up to which its values are known."""

    window: Window
    now_ms: int

    def average_by_bucket(self, stretches: Iterable[GpuStretch]) -> list[float]:
        """Return the mean of the sum of the amounts in each bucket."""
        step, first = self.window.step_ms, self.window.first
        count = self.window.last - first + 1
        parts, changes = [0.0] * count, [0.0] * (count + 1)
        for begin_ms, end_ms, amount in stretches:
            begin, end = max(begin_ms, self.window.from_ms), min(end_ms, self.window.until_ms, self.now_ms)
            if begin >= end:
                continue
            left, right = begin // step - first, (end - 1) // step - first
            if left == right:
                parts[left] += amount * (end - begin)
                continue
            parts[left] += amount * ((left + first + 1) * step - begin)
            parts[right] += amount * (end - (right + first) * step)
            changes[left + 1] += amount
            changes[right] -= amount
        found, whole = [], 0.0
        for place, part in enumerate(parts):
            whole += changes[place]
            begin = (place + first) * step
            length = max(1, min(begin + step, self.now_ms) - begin)
            found.append((part + whole * step) / length)
        return found


def queue_waits(viewer: Actor, queue: Queue, start: datetime, end: datetime) -> list[WaitPart]:
    """Return how long the jobs of a queue had waited that were first admitted in the range.

    Raises: NotFound, PermissionDenied; Invalid for a bad range.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, queue.workspace)
    window = window_of(start, end, None, retention=TICK_RETENTION, points=_WAIT_POINTS)
    rows = Attempt.unscoped.filter(
        job__queue=queue, number=1, admitted_at__gte=window.start, admitted_at__lt=window.end
    )
    waits: defaultdict[int, list[float]] = defaultdict(list)
    latest = rows.order_by("-admitted_at").values_list("job__submitted_at", "admitted_at")[:_MOST]
    for submitted, admitted in latest:
        waits[to_ms(admitted) // window.step_ms].append((admitted - submitted).total_seconds())
    return [
        WaitPart(at, len(found), sum(found) / len(found), max(found))
        if (found := waits.get(bucket))
        else WaitPart(at, 0, None, None)
        for bucket, at in window.bucket_times()
    ]


def queue_rates(viewer: Actor, queue: Queue, start: datetime, end: datetime) -> list[RatePart]:
    """Return how many jobs of a queue were admitted and evicted per hour; each time of a job counts.

    Raises: NotFound, PermissionDenied; Invalid for a bad range.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, queue.workspace)
    window = window_of(start, end, None, retention=TICK_RETENTION, points=_WAIT_POINTS)
    rows = Attempt.unscoped.filter(job__queue=queue)
    admitted = _hourly_rates(rows, "admitted_at", window)
    evicted = _hourly_rates(rows.filter(end_reason__in=_EVICTIONS), "ended_at", window)
    moments = [at for _bucket, at in window.bucket_times()]
    return list(map(RatePart, moments, admitted, evicted))


def _hourly_rates(rows: QuerySet[Attempt], column: str, window: Window) -> list[float | None]:
    """Return the moments of the column per hour, by bucket."""
    # The last bucket is read whole: a rate of its first minutes would be divided by its length.
    end = from_ms((window.last + 1) * window.step_ms)
    asked = rows.filter(**{f"{column}__gte": window.start, f"{column}__lt": end})
    latest = asked.order_by(f"-{column}").values_list(column, flat=True)[:_MOST]
    buckets = [to_ms(moment) // window.step_ms for moment in latest]
    counts, hours = Counter(buckets), window.step_ms / (60 * MINUTE_MS)
    first_known = buckets[-1] + 1 if len(buckets) == _MOST else window.first
    ended = to_ms(clock.now()) // window.step_ms
    return [
        counts[bucket] / hours if first_known <= bucket < ended else None
        for bucket in range(window.first, window.last + 1)
    ]


def queue_demand(
    viewer: Actor, queue: Queue, flavor: Flavor, start: datetime, end: datetime
) -> list[DemandPart]:
    """Return a queue's allocation of a pool, the requests of its pending jobs there, and its nominal quota.

    A pending job counts in each pool in which it may start.
    Raises: NotFound, PermissionDenied; Invalid for a bad range.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, queue.workspace)
    now = clock.now()
    times = _Times(window_of(start, end, None, retention=TICK_RETENTION, points=_POINTS), to_ms(now))
    allocated = times.average_by_bucket(_allocated(queue, flavor, times.window, now))
    pending = times.average_by_bucket(_pending(queue, flavor, times.window, now))
    nominal = _nominals(viewer, queue, flavor, times.window)
    moments = [at for _bucket, at in times.window.bucket_times()]
    return list(map(DemandPart, moments, allocated, pending, nominal))


def _allocated(queue: Queue, flavor: Flavor, window: Window, now: datetime) -> Iterable[GpuStretch]:
    here = Tenant.unscoped.filter(pk=queue.workspace_id)
    only = {"queue_id": [queue.pk], "flavor_id": [flavor.pk]}
    for row in usage_rows(window.from_ms, window.until_ms, now=now, workspaces=here, **only):
        yield GpuStretch(row.begin_ms, row.end_ms, row.cores / 100)


def _pending(queue: Queue, flavor: Flavor, window: Window, now: datetime) -> Iterable[GpuStretch]:
    """Yield the waits of jobs that may start in a pool, each with the GPUs that it requested."""
    start, end = from_ms(window.from_ms), window.end
    attempts = Attempt.unscoped.filter(job__queue=queue, admitted_at__gt=start)
    last = Attempt.unscoped.filter(job=OuterRef("job"), number=OuterRef("number") - 1)
    again = attempts.filter(number__gt=1).annotate(
        since=Subquery(last.values("ended_at")[:1]), why=Subquery(last.values("end_reason")[:1])
    )
    jobs = Job.unscoped.filter(queue=queue)
    given_up = jobs.filter(attempt_number=0, state__in=TERMINAL_STATES, finished_at__gt=start)
    pending = jobs.filter(state=JobState.QUEUED)
    waits: Sequence[tuple[QuerySet[Any], str, Any, Any]] = (
        (
            attempts.filter(number=1, job__submitted_at__lt=end),
            "job__",
            F("job__submitted_at"),
            F("admitted_at"),
        ),
        (again.filter(since__lt=end).exclude(why="USER"), "job__", F("since"), F("admitted_at")),
        (given_up, "", F("submitted_at"), F("finished_at")),
        (pending, "", Coalesce("queued_at", "submitted_at"), Value(now, DateTimeField())),
    )
    for rows, prefix, begin, until in waits:
        asking = rows.filter(**{f"{prefix}roles__gpu_cards__gt": 0}).annotate(begin=begin, until=until)
        columns = ("begin", "until", *(f"{prefix}roles__{name}" for name in _ROLE))
        for first, last, mode, models, tasks, cards, cores in asking.order_by("-pk").values_list(*columns)[
            :_MOST
        ]:
            if flavor_suits(flavor, mode, models):
                yield GpuStretch(to_ms(first), to_ms(last), tasks * cards * cores / 100)


def _nominals(viewer: Actor, queue: Queue, flavor: Flavor, window: Window) -> list[float | None]:
    """Return the nominal quota at the end of each bucket; None for an unlimited one."""
    own = queue_quota(viewer, queue, flavors=[flavor.pk], resources=[Resource.GPU_CORES])
    value: int | None = own[0].nominal if own else 0
    changes = list(
        QuotaChange.unscoped.filter(
            node=queue.node_id, flavor=flavor, resource=Resource.GPU_CORES, created_at__gte=window.start
        )
        .order_by("-created_at", "-pk")
        .values_list("created_at", "nominal_before")
    )
    found: list[float | None] = []
    for bucket in range(window.last, window.first - 1, -1):
        while changes and to_ms(changes[0][0]) >= (bucket + 1) * window.step_ms:
            value = changes.pop(0)[1]
        found.append(None if value is None else value / 100)
    return found[::-1]
