"""Reports of usage are exactly what counting every step of time by itself gives."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.core.management import CommandError, call_command

from scheduling.metering.record_usage import record_usage
from scheduling.metering.usage_rows import unmetered_attempts, usage_rows
from scheduling.models import Job, UsageInterval
from telemetry.usage.figures import Figures, to_hours
from telemetry.usage.grouping import GroupBy
from telemetry.usage.periods import month_period
from telemetry.usage.report import ReportFilter, UsageReport, load_account, usage_report
from tests.builders import tenancy
from tests.builders.usage_histories import Counted, count_by_steps, make_history
from tests.builders.world import world

pytestmark = pytest.mark.django_db

SINCE = datetime(2026, 3, 26, tzinfo=UTC)
NOW = datetime(2026, 4, 3, 5, 7, tzinfo=UTC)
# Berlin changes its clocks on 29 March, Lord Howe by half an hour on 5 April; Kathmandu is 5:45 ahead.
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns"]


def amounts(figures: Figures) -> dict[str, int]:
    names = ("reserved", "billed", "borrowed", "lost", "unpriced")
    return {name: getattr(figures, name) for name in names if getattr(figures, name)}


def in_core_ms(counted: Counted) -> dict[str, int]:
    return {name: amount * 1000 for name, amount in counted.amounts.items() if amount}


@pytest.mark.parametrize("seed", range(6))
def test_every_line_of_a_month_is_what_counting_by_steps_gives(seed: int) -> None:
    dice = random.Random(seed)
    with time_machine.travel(NOW, tick=False):
        history = make_history(world(), dice, since=SINCE, now=NOW, runs=14)
        zone = ZoneInfo(ZONES[seed % len(ZONES)])
        for month in (date(2026, 3, 1), date(2026, 4, 1)):
            period = month_period(month, zone)
            start = datetime(month.year, month.month, 1, tzinfo=zone).astimezone(UTC)
            end = datetime(month.year, month.month + 1, 1, tzinfo=zone).astimezone(UTC)
            expected = count_by_steps(history, start, end)
            live = load_account(period, None, ReportFilter(), now=NOW)
            if month.month == 4:
                assert record_usage(now=NOW)
                assert UsageInterval.unscoped.exists()
            written = load_account(period, None, ReportFilter(), now=NOW)
            for found in (live, written):
                assert {key: amounts(line.figures) for key, line in found.lines.items()} == {
                    key: in_core_ms(counted) for key, counted in expected.items()
                }
                assert {key: line.figures.amount for key, line in found.lines.items()} == {
                    key: counted.cost for key, counted in expected.items()
                }
                assert sum(day.reserved for day in found.days) == sum(
                    line.figures.reserved for line in found.lines.values()
                )


def test_days_begin_and_end_by_the_clocks_of_the_time_zone() -> None:
    berlin = month_period(date(2026, 3, 1), ZoneInfo("Europe/Berlin"))
    lengths = [(b - a) / 3_600_000 for a, b in zip(berlin.bounds_ms, berlin.bounds_ms[1:], strict=False)]
    assert (len(lengths), lengths[28], sum(lengths)) == (31, 23, 31 * 24 - 1)

    dice = random.Random(5)
    with time_machine.travel(NOW, tick=False):
        history = make_history(world(), dice, since=SINCE, now=NOW, runs=10)
        found = load_account(berlin, None, ReportFilter(), now=NOW)
        for number, day in enumerate(found.days):
            begin, end = (
                datetime.fromtimestamp(at / 1000, UTC) for at in berlin.bounds_ms[number : number + 2]
            )
            counted = count_by_steps(history, begin, end)
            assert day.reserved == 1000 * sum(one.amounts["reserved"] for one in counted.values())


def summed(report: UsageReport) -> Figures:
    total = Figures()
    for row in report.rows:
        total.add_figures(row.figures)
    return total


def test_every_row_is_the_sum_of_its_drill_down() -> None:
    dice = random.Random(11)
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, dice, since=SINCE, now=NOW, runs=30)
        period = month_period(date(2026, 3, 1), ZoneInfo("Asia/Kathmandu"))

        def report(group_by: GroupBy, **choice: object) -> UsageReport:
            chosen = ReportFilter(**choice)  # type: ignore[arg-type]
            return usage_report(here.platform_admin, period, group_by=group_by, now=NOW, choice=chosen)

        whole = report(GroupBy.TENANT)
        assert whole.total.reserved
        names = {
            GroupBy.TENANT: "workspace",
            GroupBy.USER: "user",
            GroupBy.QUEUE: "queue",
            GroupBy.POOL: "pool",
        }
        for group_by, name in names.items():
            first = report(group_by)
            assert summed(first) == first.total == whole.total
            for row in first.rows:
                for below in GroupBy:
                    inner = report(below, **{name: row.key})
                    assert summed(inner) == inner.total == row.figures


def test_a_report_stays_when_jobs_and_pools_change() -> None:
    dice = random.Random(3)
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, dice, since=SINCE, now=NOW, runs=12)
        period = month_period(date(2026, 3, 1), ZoneInfo("UTC"))
        record_usage(now=NOW)
        before = load_account(period, None, ReportFilter(), now=NOW)
        running = set(unmetered_attempts().values_list("job_id", flat=True))
        here.flavor.card_memory_mib = 7
        here.flavor.save()
        for job in Job.unscoped.exclude(pk__in=running):
            job.delete()
        after = load_account(period, None, ReportFilter(), now=NOW)

        def ended(found: object) -> dict[object, object]:
            return {k: line for k, line in found.lines.items() if k[0] not in running}  # type: ignore[attr-defined]

        assert ended(before)
        assert ended(after) == ended(before)
        assert record_usage(now=NOW) == 0


def test_money_is_rounded_once_for_each_job_and_pool() -> None:
    dice = random.Random(8)
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, dice, since=SINCE, now=NOW, runs=20)
        period = month_period(date(2026, 3, 1), ZoneInfo("UTC"))
        found = load_account(period, None, ReportFilter(), now=NOW)
        report = usage_report(here.platform_admin, period, group_by=GroupBy.USER, now=NOW)
    parts = [line.figures.amount for line in found.lines.values() if line.figures.amount is not None]
    assert all(part == part.quantize(Decimal("0.01")) for part in parts)
    assert sum(parts) == report.total.amount == sum(row.figures.amount or 0 for row in report.rows)


def test_who_may_see_no_job_reads_an_empty_report() -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, random.Random(2), since=SINCE, now=NOW, runs=6)
        record_usage(now=NOW)
        period = month_period(date(2026, 3, 1), ZoneInfo("UTC"))
        stranger = tenancy.user("stranger")
        report = usage_report(stranger, period, group_by=GroupBy.JOB, now=NOW)
    assert (report.rows, report.total) == ([], Figures())
    assert list(usage_rows(0, 2**50, now=NOW, queue_id=[])) == []


def test_the_command_prints_and_writes_the_report(tmp_path: Path) -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, random.Random(2), since=SINCE, now=NOW, runs=6)
        out, file, sheet = StringIO(), tmp_path / "usage.json", tmp_path / "usage.xlsx"
        call_command(
            "usage", month="2026-03", by="user", json=str(file), xlsx=str(sheet), user="root", stdout=out
        )
        period = month_period(date(2026, 3, 1), ZoneInfo("UTC"))
        expected = usage_report(here.platform_admin, period, group_by=GroupBy.USER, now=NOW)
        with pytest.raises(CommandError, match="NOT_FOUND"):
            call_command("usage", tenant="team-b", user=here.viewer.username)
    body = json.loads(file.read_text("utf-8"))
    assert [row["name"] for row in body["rows"]] == [row.name for row in expected.rows]
    assert body["total"]["reserved_gpu_hours"] == float(to_hours(expected.total.reserved))
    assert sheet.read_bytes().startswith(b"PK")
    assert all(row.name in out.getvalue() for row in expected.rows)
