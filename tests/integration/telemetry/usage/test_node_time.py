"""CPU and memory in usage reports are the sums over allocations, with GPUs or without."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Final

import pytest
import time_machine
from django.test import Client

from scheduling.models import Allocation, JobState
from telemetry.models import StoredReport
from telemetry.usage import store_reports as storing
from telemetry.usage.figures import to_core_hours, to_gib_hours
from telemetry.usage.grouping import GroupBy
from telemetry.usage.report import ReportFilter, UsageReport, report_period, usage_report
from telemetry.usage.store_reports import store_reports
from tests.builders import jobs
from tests.builders.world import World, world
from tests.truth.pages.reading import PageText

pytestmark = pytest.mark.django_db
NOW: Final = datetime(2026, 4, 20, 12, tzinfo=UTC)
MONTHS: Final = {"2026-03": (3, 31), "2026-04": (4, 30)}
KEYS: Final[dict[GroupBy, Callable[[Allocation], object]]] = {
    GroupBy.TENANT: lambda held: held.attempt.job.workspace_id,
    GroupBy.USER: lambda held: held.attempt.job.submitted_by_id,
    GroupBy.QUEUE: lambda held: held.attempt.job.queue_id,
    GroupBy.POOL: lambda held: held.flavor_id,
    GroupBy.JOB: lambda held: held.attempt.job_id,
}


@pytest.fixture
def made() -> World:
    """Jobs of two workspaces across the end of a month: with GPUs, without, ended and running."""
    found = world()
    plan = (
        (found.queue, found.editor, 2, 4000, 8192, 700, 600),
        (found.queue, found.admin, 0, 2500, 3000, 900, 300),
        (found.queue, found.editor, 1, 1000, 1024, 30, None),
        (found.other_queue, found.outsider, 0, 8000, 65_536, 40, None),
        (found.other_queue, found.outsider, 1, 500, 100, 1500, 1400),
    )
    for queue, user, cards, cpu, memory, began, ended in plan:
        job = jobs.job(queue, user, roles=[jobs.RoleOf(cards=cards, cpu=cpu, memory=memory, replicas=2)])
        with time_machine.travel(NOW - timedelta(hours=began), tick=False):
            attempt = jobs.allocate(job, found.nodes[0])
        if ended is not None:
            at = NOW - timedelta(hours=ended)
            Allocation.unscoped.filter(attempt=attempt).update(released_at=at)
            type(attempt).unscoped.filter(pk=attempt.pk).update(ended_at=at)
            type(job).unscoped.filter(pk=job.pk).update(state=JobState.SUCCEEDED, finished_at=at)
    return found


def count(month: str, key: Callable[[Allocation], object]) -> dict[object, tuple[float, float]]:
    """Core-hours and GiB-hours of each row, counted from moments."""
    number, days = MONTHS[month]
    start, end = datetime(2026, number, 1, tzinfo=UTC), datetime(2026, number, days, 23, 59, 59, 999999, UTC)
    cpu: Counter[object] = Counter()
    memory: Counter[object] = Counter()
    for held in Allocation.unscoped.select_related("attempt__job"):
        begun, released = max(start, held.attempt.admitted_at), min(end, held.released_at or NOW)
        hours = max(0.0, (released - begun).total_seconds() / 3600)
        if hours:
            cpu[key(held)] += hours * held.cpu_millicores / 1000  # type: ignore[assignment]
            memory[key(held)] += hours * held.memory_mib / 1024  # type: ignore[assignment]
    return {row: (cpu[row], memory[row]) for row in cpu}


def read(made: World, month: str, group_by: GroupBy, **options: object) -> UsageReport:
    period = report_period(month, "UTC", now=NOW)
    return usage_report(made.platform_admin, period, group_by=group_by, now=NOW, **options)  # type: ignore[arg-type]


def shown(report: UsageReport) -> dict[object, tuple[float, float]]:
    times = {row.key: row.node_time for row in report.rows if any(row.node_time)}
    return {
        key: (float(to_core_hours(time.cpu)), float(to_gib_hours(time.memory))) for key, time in times.items()
    }


@pytest.mark.parametrize("stored", [False, True])
def test_each_row_is_the_sum_over_its_allocations(
    made: World, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stored:
        monkeypatch.setattr(storing, "MIN_INTERVALS", 1)
        store_reports(now=NOW)
    for month, group_by in product(MONTHS, GroupBy):
        report = read(made, month, group_by)
        true = count(month, KEYS[group_by])
        found = shown(report)
        assert found.keys() == true.keys(), (month, group_by)
        for key, amounts in true.items():
            assert found[key] == pytest.approx(amounts, abs=1e-3), (month, group_by)
        total = to_core_hours(report.total_node_time.cpu)
        assert float(total) == pytest.approx(sum(cpu for cpu, _memory in true.values()), abs=1e-3)
    mine = read(made, "2026-04", GroupBy.USER, tenant=made.workspace)
    assert shown(mine).keys() == {made.editor.pk, made.admin.pk}
    narrowed = read(made, "2026-04", GroupBy.JOB, choice=ReportFilter(user=made.outsider.pk))
    assert len(shown(narrowed)) == 1


def test_a_report_that_an_older_worker_has_stored_is_completed(made: World) -> None:
    store_reports(now=NOW)
    StoredReport.unscoped.update(node_times=None)
    for key, amounts in count("2026-04", KEYS[GroupBy.TENANT]).items():
        assert shown(read(made, "2026-04", GroupBy.TENANT))[key] == pytest.approx(amounts, abs=1e-3)


def test_pages_and_files_show_them(made: World, client: Client) -> None:
    true = count("2026-04", lambda held: held.attempt.job.submitted_by.username)
    with time_machine.travel(NOW, tick=False):
        client.force_login(made.platform_admin)
        page = PageText(client.get("/ops/reports?by=user&month=2026-04&time_zone=UTC").content.decode())
        file = client.get("/api/v1/admin/usage/export?group_by=user&month=2026-04&time_zone=UTC&type=csv")
    lines = {line.name: line for line in page.lines("User", "CPU (core-hours)")}
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(file.content.decode()))}
    for name, (cpu, memory) in true.items():
        assert lines[str(name)].number("CPU (core-hours)") == pytest.approx(cpu, abs=0.051)
        assert lines[str(name)].number("Memory (GiB-hours)") == pytest.approx(memory, abs=0.051)
        assert float(rows[str(name)]["cpu_core_hours"]) == pytest.approx(cpu, abs=1e-3)
        assert float(rows[str(name)]["memory_gib_hours"]) == pytest.approx(memory, abs=1e-3)
    assert lines["otto"].number("Reserved") == 0, "a job without GPUs has a row"
