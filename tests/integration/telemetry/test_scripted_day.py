"""A scripted day: totals of every chart and report, at every grain, are the integrals of the script."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.db import transaction

from telemetry.models import Reading, RolledMinute
from telemetry.series import (
    MeasuredThing,
    SeriesSet,
    cluster_series,
    job_series,
    measure_series,
    node_series,
    workspace_series,
)
from telemetry.usage.grouping import GroupBy
from telemetry.usage.periods import month_period
from telemetry.usage.report import ReportRow, usage_report
from tests.builders import scripted_day as script
from tests.builders.scripted_day import DAY, HOLDS, JOBS, NODES, Amount, Hold
from tests.integration.telemetry.scripted_world import END, Day, live_the_day, make_day, moment

pytestmark = pytest.mark.django_db

TOLERANCE: Final = 0.005
GPUS: Final = {node: [node] * count for node, count in NODES.items()}
# Step in seconds, and its spans of the day: at most a thousand points, and two hours of readings.
SPANS: Final = {
    15: [(DAY - 6600, DAY - 300)],
    60: [(0, DAY // 2), (DAY // 2, DAY)],
    600: [(0, DAY)],
    7200: [(0, DAY)],
}


@pytest.fixture(scope="module")
def day(django_db_setup: None, django_db_blocker: Any) -> Iterator[Day]:
    """Yield one day for all tests of the module, which only read it."""
    with django_db_blocker.unblock(), time_machine.travel(END, tick=False) as clock, transaction.atomic():
        made = make_day(clock)
        live_the_day(made)
        yield made
        transaction.set_rollback(True)


def of(**wanted: Any) -> list[Hold]:
    return [hold for hold in HOLDS if all(getattr(hold, name) == value for name, value in wanted.items())]


def of_jobs(*names: str) -> list[Hold]:
    return [hold for hold in HOLDS if hold.job in names]


def check(step: int, read: Any, lines: dict[tuple[str, str], tuple[Amount, Amount]]) -> None:
    """Compare lines with the script: for each, the integral that is drawn, and the time that it covers.

    Each point must be the mean of its bucket up to what a sample at a border may add, and all points
    together, times the time that they cover, must be the integral within half a percent.
    """
    for key, (integral, weight) in lines.items():
        drawn = exact = 0.0
        for begin, end in SPANS[step]:
            found: SeriesSet = read(moment(begin), moment(end), step)
            line = found.get(*key)
            assert line is not None, key
            assert found.step_s == step
            for point, value in line.points:
                a = (point - moment(0)).total_seconds()
                time, amount = weight(a, a + step), integral(a, a + step)
                if value is None:
                    assert time <= 150, f"{key} at {point}: {time} s are missing"
                    continue
                assert time > 0 or value == 0 or weight(a - 75, a + step + 75) > 0, f"{key} at {point}"
                drawn += value * time
                exact += amount
        assert exact > 0, key
        assert drawn == pytest.approx(exact, rel=TOLERANCE), f"{key} at {step} s"


def shown(use: list[Hold], gpus: list[str], known: list[str]) -> dict[tuple[str, str], tuple[Amount, Amount]]:
    """Return what charts of a cluster or node draw."""
    measured, time = script.gpu_seconds(gpus), script.node_seconds(known)
    return {
        ("utilisation", ""): (script.used_seconds(use), measured),
        ("memory_used", ""): (script.memory_seconds(use), time),
        ("cards_allocated", ""): (script.busy_gpu_seconds(use, known), time),
        ("cores_allocated", ""): (
            lambda a, b: script.allocated_seconds(use, known, lambda h: h.cores / len(gpus))(a, b), time,
        ),
        ("memory_allocated", ""): (script.allocated_seconds(use, known, lambda h: h.memory), time),
    }  # fmt: skip


@pytest.mark.parametrize("step", SPANS)
def test_charts_of_the_cluster_and_its_nodes(day: Day, step: int) -> None:
    pushed = [hold for hold in HOLDS if hold.node in NODES]
    every = [gpu for gpus in GPUS.values() for gpu in gpus]
    check(step, lambda *span: cluster_series(day.admin, day.one, *span), shown(pushed, every, list(NODES)))
    for node, gpus in GPUS.items():
        lines = shown(of(node=node), gpus, [node])
        for gpu in range(len(gpus)):
            held, pk = of(node=node, gpu=gpu), str(day.device(node, gpu).pk)
            lines["card_utilisation", pk] = (script.used_seconds(held), script.node_seconds([node]))
            lines["card_memory_used", pk] = (script.memory_seconds(held), script.node_seconds([node]))
        lines = {key: found for key, found in lines.items() if found[0](*SPANS[step][0]) > 0}
        check(step, lambda *span, of=day.nodes[node]: node_series(day.admin, of, *span), lines)


@pytest.mark.parametrize("step", SPANS)
def test_charts_of_workspaces_and_jobs_as_their_tenants_see_them(day: Day, step: int) -> None:
    for job in JOBS:
        held = of_jobs(job.name)
        if not script.held_seconds(held)(*SPANS[step][0]):
            continue
        viewer, row = day.users[job.user], day.jobs[job.name]
        held_time, any_time = script.held_seconds(held), script.union_seconds(held)
        lines = {
            ("utilisation", "average"): (script.used_seconds(held), held_time),
            ("memory_used", "total"): (script.memory_seconds(held), any_time),
        }
        check(step, lambda *span, v=viewer, r=row: job_series(v, r, *span), lines)
        measure = {("utilization_percent", ""): (script.used_seconds(held), held_time)}
        if step >= 60:
            check(step, _reader(viewer, MeasuredThing("job", row.pk)), measure)
    for name, workspace in day.workspaces.items():
        own = [job for job in JOBS if job.workspace == name]
        held = of_jobs(*(job.name for job in own))
        known = ["delta"] if name == "team-d" else list(NODES)
        if not script.held_seconds(held)(*SPANS[step][0]) or (name == "team-d" and step == 15):
            continue
        viewer, time = day.users[own[0].user], script.node_seconds(known)
        if name == "team-d":
            time = script.union_seconds(held)  # its cluster is measured only while it runs
        lines = {
            ("utilisation", ""): (script.used_seconds(held), script.held_seconds(held)),
            ("cards_allocated", ""): (script.allocated_seconds(held, known, lambda h: 1), time),
            ("memory_allocated", ""): (script.allocated_seconds(held, known, lambda h: h.memory), time),
        }
        check(step, lambda *span, v=viewer, w=workspace: workspace_series(v, w.pk, *span), lines)
        if step >= 60:
            thing = MeasuredThing("workspace", workspace.pk)
            use = {("utilization_percent", ""): (script.used_seconds(held), script.held_seconds(held))}
            check(step, _reader(viewer, thing), use)


def _reader(viewer: Any, thing: MeasuredThing) -> Any:
    return lambda *span: measure_series(viewer, thing, ["utilization_percent"], *span)


@pytest.mark.parametrize("step", [60, 600, 7200])
def test_measures_of_gpus_nodes_and_the_cluster_weigh_each_gpu_by_its_measured_time(
    day: Day, step: int
) -> None:
    """The nodes sample at different intervals, which does not change their weights."""
    key = ("utilization_percent", "")
    pushed = [hold for hold in HOLDS if hold.node in NODES]
    every = [gpu for gpus in GPUS.values() for gpu in gpus]
    check(step, _reader(day.admin, MeasuredThing("cluster", day.one.pk)),
          {key: (script.used_seconds(pushed), script.gpu_seconds(every))})  # fmt: skip
    for node, gpus in GPUS.items():
        check(step, _reader(day.admin, MeasuredThing("node", day.nodes[node].pk)),
              {key: (script.used_seconds(of(node=node)), script.gpu_seconds(gpus))})  # fmt: skip
        gpu = day.device(node, 0)
        check(step, _reader(day.admin, MeasuredThing("gpu", gpu.pk)),
              {key: (script.used_seconds(of(node=node, gpu=0)), script.gpu_seconds([node]))})  # fmt: skip


KEYS: Final = {
    GroupBy.TENANT: lambda job: job.workspace,
    GroupBy.USER: lambda job: job.user,
    GroupBy.QUEUE: lambda job: job.queue,
    GroupBy.POOL: lambda job: job.pool,
    GroupBy.JOB: lambda job: job.name,
}


def ids(day: Day, group_by: GroupBy) -> dict[str, Any]:
    rows: dict[GroupBy, dict[str, Any]] = {
        GroupBy.TENANT: day.workspaces, GroupBy.USER: day.users, GroupBy.QUEUE: day.queues,
        GroupBy.POOL: day.pools, GroupBy.JOB: day.jobs,
    }  # fmt: skip
    return {name: row.pk for name, row in rows[group_by].items()}


def check_row(row: ReportRow, held: list[Hold]) -> None:
    figures = row.figures
    reserved = sum(hold.cores * (hold.end - hold.begin) for hold in held) * 1000
    measured = sum(hold.cores * script.length(script.measured_of(hold, 0, DAY)) for hold in held) * 1000
    used = script.used_seconds(held)(0, DAY) * 1000
    assert figures.reserved == reserved, row.name
    assert figures.used == pytest.approx(used, rel=TOLERANCE), row.name
    assert figures.idle == pytest.approx(measured - used, abs=TOLERANCE * measured), row.name
    assert figures.measured == pytest.approx(measured, rel=TOLERANCE), row.name
    assert figures.unmeasured == pytest.approx(reserved - measured, abs=TOLERANCE * reserved), row.name
    lost = sum(h.cores * (h.end - h.begin) for h in held if h.reason == "RECLAIM_NOMINAL") * 1000
    assert figures.lost == lost, row.name


@pytest.mark.parametrize("group_by", list(KEYS))
def test_usage_reports_of_the_operator_and_of_each_tenant(day: Day, group_by: GroupBy) -> None:
    period = month_period(date(2026, 3, 1), ZoneInfo("UTC"))
    wanted: dict[Any, list[Hold]] = {}
    named = ids(day, group_by)
    for job in JOBS:
        wanted.setdefault(named[KEYS[group_by](job)], []).extend(of_jobs(job.name))
    whole = usage_report(day.admin, period, group_by=group_by, now=END)
    assert {row.key for row in whole.rows} == set(wanted)
    for row in whole.rows:
        check_row(row, wanted[row.key])
    for workspace in day.workspaces:
        own = [job for job in JOBS if job.workspace == workspace]
        mine = usage_report(day.users[own[0].user], period, group_by=group_by, now=END)
        assert {row.key for row in mine.rows} == {named[KEYS[group_by](job)] for job in own}
        for row in mine.rows:
            check_row(row, [h for h in wanted[row.key] if h.job in {job.name for job in own}])


def test_the_day_was_condensed_and_its_readings_are_gone(day: Day) -> None:
    """The totals above are read from roll-ups: readings older than the last two hours are deleted."""
    oldest = Reading.unscoped.order_by("at_ms").values_list("at_ms", flat=True).first()
    assert oldest is not None and oldest >= moment(DAY - 7_500).timestamp() * 1000
    minutes = RolledMinute.unscoped.filter(channel__scope="cluster", channel__cluster_id=day.one.pk).count()
    assert minutes == pytest.approx(script.node_seconds(NODES)(0, DAY) / 60, abs=2)
