"""The simulated week of the demo is consistent: jobs, their holdings, reports and series."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import time_machine
from django.db.models import F, Sum

from alerts.models import Alert
from allotment.demo.history.jobs import draw_week
from allotment.demo.history.measured import OUTAGE
from allotment.demo.history.recording import read_recording
from allotment.demo.history.seed import history_tick, week_start
from allotment.demo.history.telemetry import WeekMeasured, write_sums
from allotment.demo.start import prepare_installation
from clusters.backends.base import PodObservation
from clusters.backends.registry import backend_for
from clusters.models import Cluster, ClusterHealth, Device, Node, NodeEvent, SimulatedPod
from foundation.audit.chain import seal_records, verify_chain
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from foundation.models import AuditRecord
from quotas.models import GpuUse, LedgerEntry, Queue
from quotas.selectors.tables.quota import queue_quota
from scheduling.execution.observe import observe_cluster
from scheduling.metering.record_usage import record_usage
from scheduling.models import (
    TERMINAL_STATES,
    Allocation,
    Attempt,
    Decision,
    DeviceSlice,
    Job,
    JobEvent,
    JobState,
    UsageInterval,
)
from scheduling.services.policy_replay.past_quotas import read_past_quotas
from scheduling.services.start_prediction.history import read_history
from telemetry.models import (
    Channel,
    MeasuredUse,
    Reading,
    RolledMinute,
    RolledTenMinutes,
    RolledTwoHours,
    Scope,
    Tick,
)
from telemetry.series import SeriesQuery, read_series
from telemetry.services.collect import samples_collect
from telemetry.store.times import (
    MINUTE_MS,
    MINUTE_RETENTION,
    READING_RETENTION,
    TEN_MINUTES_MS,
    TICK_MS,
    TICK_RETENTION,
    TWO_HOURS_MS,
    to_ms,
)
from telemetry.usage.figures import Figures
from telemetry.usage.grouping import GroupBy
from telemetry.usage.preemptions import PreemptedBy, preemption_report
from telemetry.usage.queue_history import queue_demand
from telemetry.usage.report import report_period, usage_report
from tenants.models import Tenant, User

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
NOW: Final = "2026-12-03T15:20:00Z"
"""The week crosses the turn of a month."""
_MONTHS: Final = ("2026-11", "2026-12")
_LINES: Final = ("utilisation", "card_utilisation", "card_memory_used", "card_temperature", "card_power")
"""Lines of a node, and those of each of its GPUs."""


def test_the_recording_is_of_the_jobs_that_are_drawn_and_no_gpu_is_held_twice() -> None:
    jobs, holds = draw_week(), defaultdict(list)
    for run in read_recording():
        job = jobs[run.job]
        assert job.at_s <= run.admit_s
        assert run.end_s is None or run.admit_s < run.end_s
        roles = {role["name"]: role for role in job.body["roles"]}
        assert len(run.places) == sum(role["replicas"] for role in roles.values())
        for place in run.places:
            gpu = roles[place.role]["resources"]["gpu"]
            assert (len(place.gpus), place.cores) == (gpu["cards"], gpu.get("cores", 100))
            for index in place.gpus:
                holds[place.node, index].append((run.admit_s, run.end_s or 2**40, place.cores))
    for held in holds.values():
        changes = sorted([(a, cores) for a, _, cores in held] + [(b, -cores) for _, b, cores in held])
        assert max(np.cumsum([cores for _, cores in changes])) <= 100


def _every_job_of_the_week_has_a_past_that_is_possible(week: WeekMeasured) -> None:
    states = set(Job.unscoped.values_list("state", flat=True).distinct())
    assert states == {JobState.QUEUED, JobState.RUNNING, *TERMINAL_STATES}
    for job in Job.unscoped.prefetch_related("attempts", "events"):
        attempts = sorted(job.attempts.all(), key=lambda one: one.number)
        assert [one.number for one in attempts] == list(range(1, job.attempt_number + 1))
        times = [job.submitted_at, *(t for one in attempts for t in (one.admitted_at, one.ended_at) if t)]
        assert times == sorted(times)
        assert times[-1] <= week.now
        assert [one.ended_at is None for one in attempts[:-1]] == [False] * len(attempts[:-1])
        assert (job.state == JobState.RUNNING) == bool(attempts and attempts[-1].ended_at is None)
        story = sorted(job.events.all(), key=lambda event: event.pk)
        assert [event.at for event in story] == sorted(event.at for event in story)
        waits = "requeued" if attempts else "submitted"
        assert story[-1].code == (waits if job.state == JobState.QUEUED else job.state)
    rules = set(Decision.unscoped.filter(kind="evict").values_list("code", flat=True))
    assert rules == {"RECLAIM_NOMINAL", "IN_QUEUE_PRIORITY", "FAIR_SHARE"}
    assert Decision.unscoped.filter(beneficiary__isnull=False).exclude(
        job__workspace=F("beneficiary__workspace")
    )


def _the_quotas_of_the_week_are_those_of_now(week: WeekMeasured) -> None:
    """A replay of the week finds them; without, none of its jobs would start."""
    past = read_past_quotas(week.cluster.cell_id, begin=week.start - timedelta(hours=1), end=week.now)
    assert (past.at_begin, past.steps) == ({}, [])
    assert not Tenant.unscoped.filter(created_at__gt=week.start).exists()


def _charts_of_queues_show_the_quota_of_the_whole_day(week: WeekMeasured) -> None:
    shown = []
    for queue in Queue.unscoped.select_related("workspace"):
        for row in queue_quota(SYSTEM, queue, resources=[Resource.GPU_CORES]):
            parts = queue_demand(SYSTEM, queue, row.flavor, week.now - timedelta(days=1), week.now)
            nominal = None if row.nominal is None else row.nominal / 100
            assert {part.nominal for part in parts} == {nominal}, (queue, row.flavor)
            shown.append(nominal)
    assert max(value or 0 for value in shown) > 0


def _what_was_set_up_is_older_than_the_week_in_the_audit_log_as_on_its_page(week: WeekMeasured) -> None:
    created = AuditRecord.unscoped.filter(action="tenant.create")
    assert {(row.entity_id, row.created_at) for row in created} == {
        (str(tenant.pk), tenant.created_at) for tenant in Tenant.unscoped.all()
    }
    others = AuditRecord.unscoped.exclude(entity="job")
    assert not others.filter(created_at__gte=week.start).exists()
    joined = NodeEvent.unscoped.filter(code="added")
    assert joined.count() == Node.unscoped.count()
    assert not joined.filter(at__gte=week.start).exists()
    assert not User.objects.filter(date_joined__gte=week.start).exists()


def _what_runs_at_the_end_is_held_and_runs_on(week: WeekMeasured) -> None:
    """Books, nodes, GPUs and the cluster say the same, and a first look at the cluster changes nothing."""
    held, cpu, holders = Counter[tuple[object, object, str]](), Counter[object](), Counter[object]()
    for one in Allocation.unscoped.filter(released_at=None).select_related("attempt__job__queue"):
        for resource, amount in one.charge.items():
            held[one.attempt.job.queue.node_id, one.flavor_id, resource] += amount
        cpu[one.node_id] += one.cpu_millicores
    for part in DeviceSlice.unscoped.filter(released=False):
        holders[part.device_id] += 1
    books = LedgerEntry.unscoped.filter(reserved__gt=0).values_list(
        "node_id", "flavor_id", "resource", "reserved"
    )
    assert {row[:3]: row[3] for row in books} == +held
    assert dict(Node.unscoped.filter(cpu_granted__gt=0).values_list("pk", "cpu_granted")) == +cpu
    assert dict(Device.unscoped.filter(holders__gt=0).values_list("pk", "holders")) == +holders
    running = Job.unscoped.filter(state=JobState.RUNNING)
    before = list(running.order_by("pk").values_list("pk", "attempt_number", "started_at", "version"))
    assert len(before) > 5 and sum(holders.values()) > 50
    pods = SimulatedPod.unscoped.filter(phase="running", holds=True)
    assert pods.count() == Allocation.unscoped.filter(released_at=None).count()
    observe_cluster(cluster_id=week.cluster.pk)
    assert list(running.order_by("pk").values_list("pk", "attempt_number", "started_at", "version")) == before
    shown = {seen.ref.name: seen.at for seen in _seen_pods(week.cluster)}
    for one in Allocation.unscoped.filter(released_at=None).select_related("attempt"):
        assert abs((shown[one.pod_name] - one.attempt.started_at).total_seconds()) < 0.01


def _seen_pods(cluster: Cluster) -> list[PodObservation]:
    batch = backend_for(cluster).observe_pods(None, whole=True)
    return [seen for seen in batch.observations if isinstance(seen, PodObservation)]


def _the_usage_report_is_the_integral_of_the_allocations(week: WeekMeasured) -> None:
    held_ms = sum(
        one.charge.get("gpu.cores", 0) * (to_ms(one.released_at or week.now) - to_ms(one.attempt.admitted_at))
        for one in Allocation.unscoped.select_related("attempt")
    )
    ended_ms = held_ms - sum(
        one.charge.get("gpu.cores", 0) * (to_ms(week.now) - to_ms(one.attempt.admitted_at))
        for one in Allocation.unscoped.filter(released_at=None).select_related("attempt")
    )
    before = _reports(week)
    while record_usage(now=week.now):
        pass
    after = _reports(week)
    intervals = UsageInterval.unscoped.aggregate(held=Sum(F("cores") * (F("end_ms") - F("begin_ms"))))["held"]
    assert intervals == ended_ms
    assert held_ms == sum(one.reserved for one in after)
    past, present = (
        model._base_manager.aggregate(sum=Sum("core_ms"))["sum"] for model in (GpuUse, LedgerEntry)
    )
    rate = LedgerEntry.unscoped.filter(resource="gpu.cores").aggregate(sum=Sum("reserved"))["sum"]
    present += rate * (to_ms(week.now) - to_ms(week.now.replace(day=1, hour=0, minute=0, second=0)))
    # What budgets count is what the reports of the two months say.
    assert [one.reserved for one in before] == [one.reserved for one in after] == [past, present]
    assert 0 < sum(one.lost for one in after) < held_ms / 5
    assert after[1].amount
    periods = [report_period(month, "UTC", now=week.now) for month in _MONTHS]
    preempted = [row for period in periods for row in preemption_report(SYSTEM, period).rows]
    assert sum(row.lost for row in preempted) == sum(one.lost for one in after)
    assert sum(row.count for row in preempted) == Decision.unscoped.filter(beneficiary__isnull=False).count()
    assert {row.by for row in preempted} == {PreemptedBy.OWN, PreemptedBy.TENANT}


def _reports(week: WeekMeasured) -> list[Figures]:
    return [
        usage_report(
            SYSTEM, report_period(month, "UTC", now=week.now), group_by=GroupBy.TENANT, now=week.now
        ).total
        for month in _MONTHS
    ]


def _series_are_the_integral_of_what_was_held(week: WeekMeasured) -> None:
    """In every two hours, of the cluster and of each workspace, but for the outage."""
    begun, ended = (to_ms(week.start + moment) for moment in OUTAGE)
    held: defaultdict[tuple[object, int], float] = defaultdict(float)
    for one in DeviceSlice.unscoped.select_related("allocation__attempt__job"):
        since, until = (
            to_ms(one.allocation.attempt.admitted_at),
            to_ms(one.allocation.released_at or week.now),
        )
        for bucket in range(since // TWO_HOURS_MS, -(-until // TWO_HOURS_MS)):
            part = min(until, (bucket + 1) * TWO_HOURS_MS) - max(since, bucket * TWO_HOURS_MS)
            for key in (None, one.allocation.attempt.job.workspace_id):
                held[key, bucket] += one.cores * part / TWO_HOURS_MS
    scopes = Channel.unscoped.filter(scope__in=[Scope.CLUSTER, Scope.WORKSPACE])
    checked = 0
    for channel in scopes:
        for row in RolledTwoHours.unscoped.filter(channel=channel):
            expected = held[channel.workspace_id, row.at_ms // TWO_HOURS_MS]
            assert row.cores_allocated == pytest.approx(expected, abs=0.1)
            assert row.cores_used <= row.cores_allocated + 0.1
            checked += 1
    assert checked > 5 * 80
    ten = RolledTenMinutes.unscoped.filter(channel__in=scopes).values_list("at_ms", flat=True)
    silent = set(range(begun, ended, TEN_MINUTES_MS))
    assert silent.isdisjoint(ten)
    whole = RolledTenMinutes.unscoped.filter(channel__scope=Scope.CLUSTER).order_by("at_ms")
    steps = {b - a for a, b in pairwise(whole.values_list("at_ms", flat=True))}
    assert steps == {TEN_MINUTES_MS, TEN_MINUTES_MS + ended - begun}


def _what_was_measured_is_no_more_than_what_was_held(week: WeekMeasured) -> None:
    held: defaultdict[object, int] = defaultdict(int)
    for one in DeviceSlice.unscoped.select_related("allocation__attempt"):
        since, until = (
            to_ms(one.allocation.attempt.admitted_at),
            to_ms(one.allocation.released_at or week.now),
        )
        held[one.allocation.attempt.job_id] += one.cores * (until - since)
    sums: defaultdict[object, list[int]] = defaultdict(lambda: [0, 0])
    for row in MeasuredUse.unscoped.all():
        measured, used = (np.frombuffer(column, dtype="<i8") for column in (row.measured, row.used))
        assert (used <= measured + 1).all()
        sums[row.job_id][0] += int(measured.sum())
        sums[row.job_id][1] += int(used.sum())
    assert sums
    assert all(measured <= held[job] for job, (measured, _) in sums.items())


def _charts_reports_and_predictions_have_data_at_once(week: WeekMeasured) -> None:
    cluster = Cluster.unscoped.get()
    for span in (timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(days=7)):
        query = SeriesQuery(
            level="cluster", pk=cluster.pk, start=week.now - span, end=week.now, step=None,
            measures=(), lines=("utilisation", "cores_allocated"),
        )  # fmt: skip
        for line in read_series(SYSTEM, query).series:
            known = [value for _at, value in line.points if value is not None]
            assert len(known) > 0.9 * len(line.points)
    bandwidth = SeriesQuery(
        level="cluster", pk=cluster.pk, start=week.start, end=week.now, measures=("memory_copy_percent",)
    )
    (copied,) = read_series(SYSTEM, bandwidth).series
    known = [value for _at, value in copied.points if value is not None]
    assert len(known) > 0.9 * len(copied.points) and 0 < max(known) < 55
    cell = cluster.cell_id
    assert read_history(cell, {}, now=week.now) is not None
    assert Alert.unscoped.filter(state="resolved").count() == 3


def _rows_are_kept_as_long_as_the_platform_keeps_them(week: WeekMeasured) -> None:
    """Of each grain the history has all of that time, but for the outage, and nothing before."""
    gpu = Channel.unscoped.get(scope=Scope.CARD, device_id=week.devices[0].id)
    cluster = Channel.unscoped.get(scope=Scope.CLUSTER)
    for model, channel, step_ms, kept in (
        (Reading, gpu, TICK_MS, READING_RETENTION),
        (Tick, cluster, TICK_MS, TICK_RETENTION),
        (RolledMinute, gpu, MINUTE_MS, MINUTE_RETENTION),
        (RolledMinute, cluster, MINUTE_MS, MINUTE_RETENTION),
        (RolledTenMinutes, gpu, TEN_MINUTES_MS, week.now - week.start),
    ):
        rows = model._base_manager.filter(channel=channel, at_ms__lt=to_ms(week.now))
        times = list(rows.order_by("at_ms").values_list("at_ms", flat=True))
        assert times[0] == to_ms(week.now - kept), model
        lost = week.outage_ms[1] - week.outage_ms[0] if kept > MINUTE_RETENTION else 0
        assert len(times) == (kept // timedelta(milliseconds=1) - lost) // step_ms


def _the_rest_is_written_once_in_the_background(week: WeekMeasured) -> None:
    job = Attempt.unscoped.filter(started_at__isnull=False).latest("ended_at").job_id
    assert not Channel.unscoped.filter(job_id=job).exists()
    assert history_tick() == 0
    Cluster.unscoped.update(health=ClusterHealth.HEALTHY)
    samples_collect()  # the history ends where the platform's measurements begin
    assert history_tick() > 0
    channels = Channel.unscoped.filter(job_id=job)
    assert RolledTenMinutes.unscoped.filter(channel__in=channels).exists()
    names = ("temperature_c", "power_w", "sm_clock_mhz", "memory_copy_percent", "energy_j")
    gpu = week.devices[0]
    for start in (week.start, week.now - timedelta(hours=1), week.now - timedelta(hours=24)):
        queries = (
            SeriesQuery(level="gpu", pk=gpu.id, start=start, end=week.now, measures=names),
            SeriesQuery(level="node", pk=gpu.node_id, start=start, end=week.now, lines=_LINES),
        )
        for line in (line for query in queries for line in read_series(SYSTEM, query).series):
            known = [value for _at, value in line.points if value is not None]
            assert len(known) > 0.9 * len(line.points) and max(known) > 0, (start, line.measure)
    counted = RolledTenMinutes.unscoped.count()
    assert history_tick() == 0
    assert RolledTenMinutes.unscoped.count() == counted


def _the_audit_of_the_week_is_sealed_and_says_that_it_is_simulated(week: WeekMeasured) -> None:
    while seal_records():
        pass
    verdict = verify_chain()
    assert verdict.broken is None
    assert verdict.unsealed == 0


def test_a_new_demo_has_a_week_of_history_that_agrees_with_itself(tmp_path: Path) -> None:
    """One test, because the week is large."""
    with time_machine.travel(NOW, tick=False):
        prepare_installation(home=tmp_path, demo=True)
        week = WeekMeasured.read_week(start=week_start(clock.now()), now=clock.now())
        counted = Job.unscoped.count(), JobEvent.unscoped.count()
        write_sums(week)
        for check in (
            _every_job_of_the_week_has_a_past_that_is_possible,
            _the_quotas_of_the_week_are_those_of_now,
            _charts_of_queues_show_the_quota_of_the_whole_day,
            _what_was_set_up_is_older_than_the_week_in_the_audit_log_as_on_its_page,
            _what_runs_at_the_end_is_held_and_runs_on,
            _the_usage_report_is_the_integral_of_the_allocations,
            _series_are_the_integral_of_what_was_held,
            _what_was_measured_is_no_more_than_what_was_held,
            _charts_reports_and_predictions_have_data_at_once,
            _the_rest_is_written_once_in_the_background,
            _rows_are_kept_as_long_as_the_platform_keeps_them,
            _the_audit_of_the_week_is_sealed_and_says_that_it_is_simulated,
        ):
            check(week)
        prepare_installation(home=tmp_path, demo=True)
        assert (Job.unscoped.count(), JobEvent.unscoped.count()) == counted
