"""The past values of metrics, as far as they are stored."""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.db.models import Q

from alerts.metrics.budget_history import read_budget_past
from alerts.metrics.events import JOB_EVENTS, NODE_EVENTS, WITHIN, read_past_events
from alerts.metrics.promql import read_query_past
from alerts.models import AlertRule, Comparison
from clusters.gpu.measures import BY_NAME as MEASURES
from clusters.gpu.measures import MeasureKind
from foundation.core.actor import SYSTEM
from scheduling.models import Attempt, Job, JobEvent
from telemetry.series import MeasuredThing, SeriesSet, measure_series

Values = Sequence[tuple[datetime, float | None]]
_JOBS_MAX: Final = 2_000
_POINTS: Final = 288
_EVENTS: Final = frozenset(metric.name for metric in (*JOB_EVENTS, *NODE_EVENTS))


@dataclass(frozen=True, slots=True)
class MetricHistory:
    """The values of each subject, at the same times; None for an unmeasured value.

    `extreme` is the highest value of all subjects at each time, or the lowest for a rule on values below its
    threshold. `subjects` is empty if there are too many of them. `measured` has the gaps of the measurements.
    `jobs_max`: only so many jobs were read, those submitted last. `unread_clusters` could not be read.
    `ends`: a subject without a value does not exist; otherwise its value is unknown. `since`: earlier values
    are not considered.
    """

    extreme: Values
    subjects: Sequence[Values]
    measured: SeriesSet | None = None
    jobs_max: int | None = None
    unread_clusters: Sequence[str] = ()
    ends: bool = False
    since: datetime | None = None


Read = Callable[[AlertRule, datetime, datetime], MetricHistory]


def find_reader(metric: str) -> Read | None:
    """Return the reader of the past values of a metric; None if they are not stored."""
    if metric == "job.pending_s":
        return _read_pending_times
    if metric == "promql.value":
        return _read_promql
    if metric == "budget.used_percent":
        return _read_budgets
    if metric in _EVENTS:
        return _read_events
    kind, _dot, measure = metric.partition(".")
    if metric in ("node.utilization_percent", "cluster.utilization_percent"):
        return lambda rule, start, end: _read_measure("utilization_percent", kind, rule, start, end)
    if kind == "gpu" and measure in MEASURES and MEASURES[measure].kind is MeasureKind.GAUGE:
        return lambda rule, start, end: _read_measure(measure, kind, rule, start, end)
    return None


def _read_measure(measure: str, kind: str, rule: AlertRule, start: datetime, end: datetime) -> MetricHistory:
    """Read a measure of each GPU or node, or only the extreme of all if there are too many of them."""
    thing = MeasuredThing("cluster", rule.cluster_id)
    group_by = None if kind == "cluster" else kind
    found = measure_series(SYSTEM, thing, (measure,), start, end, group_by=group_by, points=_POINTS)
    if not found.omitted:
        subjects = [one.points for one in found.series]
        return MetricHistory(_find_extreme(rule, subjects), subjects, found)
    statistic = "max" if rule.comparison == Comparison.ABOVE else "min"
    found = measure_series(SYSTEM, thing, (measure,), start, end, statistic=statistic, points=_POINTS)
    return MetricHistory(_find_extreme(rule, [one.points for one in found.series]), (), found)


def _read_promql(rule: AlertRule, start: datetime, end: datetime) -> MetricHistory:
    subjects, unread = read_query_past(rule.query, rule.cluster_id, start, end, points=_POINTS)
    return MetricHistory(_find_extreme(rule, subjects), subjects, unread_clusters=unread)


def _read_budgets(rule: AlertRule, start: datetime, end: datetime) -> MetricHistory:
    path = rule.tenant.path if rule.tenant is not None else ""
    times = _list_times(start, end)
    subjects, since = read_budget_past(path, times)
    extreme = _find_extreme(rule, subjects) if subjects else [(at, None) for at in times]
    return MetricHistory(extreme, subjects, since=since)


def _list_times(start: datetime, end: datetime) -> list[datetime]:
    step = (end - start) / _POINTS
    return [start + step * place for place in range(1, _POINTS + 1)]


def _read_events(rule: AlertRule, start: datetime, end: datetime) -> MetricHistory:
    """Count the events of each subject in the time before each point; without events it has no value."""
    path = rule.tenant.path if rule.tenant is not None else ""
    past = read_past_events(rule.metric, path, rule.cluster_id, start, end)
    # Keys are ordered by time: those of jobs by the time of submission.
    newest = sorted(past.times, reverse=True)
    limited = rule.metric.startswith("job.") and len(newest) > _JOBS_MAX
    times = _list_times(start, end)
    subjects: list[Values] = []
    for subject in newest[:_JOBS_MAX] if limited else newest:
        at = past.times[subject]
        counts = [bisect_right(at, time) - bisect_right(at, time - WITHIN) for time in times]
        subjects.append(
            [(time, float(count) if count else None) for time, count in zip(times, counts, strict=True)]
        )
    extreme: Values = _find_extreme(rule, subjects) if subjects else [(time, None) for time in times]
    if rule.comparison == Comparison.ABOVE:
        extreme = [(time, value or 0.0) for time, value in extreme]
    return MetricHistory(
        extreme, subjects, jobs_max=_JOBS_MAX if limited else None, ends=True, since=past.since
    )


def _find_extreme(rule: AlertRule, subjects: Sequence[Values]) -> Values:
    choose = max if rule.comparison == Comparison.ABOVE else min
    found: list[tuple[datetime, float | None]] = []
    for points in zip(*subjects, strict=True):
        known = [value for _at, value in points if value is not None]
        found.append((points[0][0], choose(known) if known else None))
    return found


def _read_pending_times(rule: AlertRule, start: datetime, end: datetime) -> MetricHistory:
    """Compute how long each job had waited, from its submission, runs, suspensions and resumes."""
    times = _list_times(start, end)
    subjects: list[Values] = []
    by_job = _list_pending_spans(rule, start)
    for spans in list(by_job.values())[:_JOBS_MAX]:
        values = []
        for at in times:
            waited = next(
                ((at - began).total_seconds() for began, ended in spans if began <= at < ended), None
            )
            values.append((at, waited))
        if any(value is not None for _at, value in values):
            subjects.append(values)
    extreme = []
    choose = max if rule.comparison == Comparison.ABOVE else min
    for place, at in enumerate(times):
        known = [value for values in subjects if (value := values[place][1]) is not None]
        extreme.append((at, choose(known) if known else None))
    jobs_max = _JOBS_MAX if len(by_job) > _JOBS_MAX else None
    return MetricHistory(extreme, subjects, jobs_max=jobs_max, ends=True)


def _list_pending_spans(
    rule: AlertRule, start: datetime
) -> Mapping[uuid.UUID, list[tuple[datetime, datetime]]]:
    """Return, by job, the times from an entry into the queue to the next admission, suspension or end.

    The jobs that were submitted last come first: `_JOBS_MAX`, and one more if there are more.
    """
    lately = Job.unscoped.filter(Q(finished_at__isnull=True) | Q(finished_at__gt=start))
    if rule.tenant is not None:
        lately = lately.filter(workspace__path__startswith=rule.tenant.path)
    jobs = lately.order_by("-submitted_at").values_list("pk", "submitted_at", "finished_at")
    jobs = jobs[: _JOBS_MAX + 1]
    entries: defaultdict[uuid.UUID, list[tuple[datetime, bool]]] = defaultdict(list)
    for pk, submitted, finished in jobs:
        entries[pk] = [(submitted, True), *([(finished, False)] if finished else [])]
    keys = list(entries)
    for pk, admitted, ended in Attempt.unscoped.filter(job__in=keys).values_list(
        "job_id", "admitted_at", "ended_at"
    ):
        entries[pk] += [(admitted, False), *([(ended, True)] if ended else [])]
    moved = JobEvent.unscoped.filter(job__in=keys, code__in=("suspended", "resumed"))
    for pk, at, code in moved.values_list("job_id", "at", "code"):
        entries[pk].append((at, code == "resumed"))
    return {pk: list(_join(found)) for pk, found in entries.items()}


def _join(entries: Sequence[tuple[datetime, bool]]) -> Iterator[tuple[datetime, datetime]]:
    """Yield each time from an entry into the queue to its end; the last may still last."""
    began: datetime | None = None
    for at, waits in sorted(entries):
        if began is not None:
            yield began, at
        began = at if waits else None
    if began is not None:
        yield began, datetime.max.replace(tzinfo=UTC)
