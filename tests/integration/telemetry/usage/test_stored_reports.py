"""The stored report of the platform is the plain sum of what was booked, whenever it was booked."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.test import Client

from foundation.core.errors import NotFound, PermissionDenied
from scheduling.metering.record_usage import record_usage
from scheduling.metering.usage_rows import unmetered_attempts, usage_rows
from scheduling.models import Allocation, Job
from telemetry.models import Channel, MeasuredUse, Reading, Scope, StoredReport
from telemetry.usage.figures import Figures
from telemetry.usage.grouping import GroupBy
from telemetry.usage.periods import Period, month_period
from telemetry.usage.prices import price_create
from telemetry.usage.record_measured import record_measured
from telemetry.usage.report import ReportFilter, UsageReport, usage_report
from telemetry.usage.store_reports import store_reports
from telemetry.usage.stored_reports import FRESH_FOR, STORED, to_figures, to_numbers
from tenants.models import Tenant, User
from tests.builders import tenancy
from tests.builders.usage_histories import History, count_by_steps, make_history
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db

SINCE = datetime(2026, 3, 26, 1, 2, tzinfo=UTC)
NOW = datetime(2026, 4, 3, 5, 7, tzinfo=UTC)
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns"]
_SUMMED = ("reserved", "billed", "borrowed", "lost", "unpriced")


def _bounds(month: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    start = datetime(month.year, month.month, 1, tzinfo=zone).astimezone(UTC)
    return start, datetime(month.year, month.month + 1, 1, tzinfo=zone).astimezone(UTC)


def _plain_sums(history: History, month: date, zone: ZoneInfo) -> dict[GroupBy, dict[object, Counter[str]]]:
    """The usage of the history, counted step by step and measured quarter by quarter, by each grouping."""
    start, end = _bounds(month, zone)
    runs = {(run.job.pk, run.flavor.pk): run for run in history.runs}
    found: dict[GroupBy, dict[object, Counter[str]]] = {one: defaultdict(Counter) for one in STORED}

    def keys_of(line: tuple[object, object]) -> dict[GroupBy, object]:
        run = runs[line]  # type: ignore[index]
        return {
            GroupBy.TENANT: run.queue.workspace_id,
            GroupBy.USER: run.user.pk,
            GroupBy.QUEUE: run.queue.pk,
            GroupBy.POOL: run.flavor.pk,
        }

    for line, counted in count_by_steps(history, start, end).items():
        for group_by, key in keys_of(line).items():
            sums = found[group_by][key]
            sums.update({name: 1000 * counted.amounts[name] for name in _SUMMED})
            if counted.cost is not None:
                sums.update(cents=int(counted.cost * 100), priced=1)
    for row in MeasuredUse.unscoped.all():
        for number in range(96):
            at = datetime.fromtimestamp((row.day * 96 + number) * 900, UTC)
            if start <= at < end:
                place = slice(8 * number, 8 * number + 8)
                held, used = (int.from_bytes(bytes(one)[place], "little") for one in (row.measured, row.used))
                for group_by, key in keys_of((row.job_id, row.flavor_id)).items():
                    found[group_by][key].update(measured=held, used=used)
    return found


def _figures(sums: Counter[str]) -> Figures:
    figures = Figures(**{name: sums[name] for name in (*_SUMMED, "measured", "used")})
    figures.amount = Decimal(sums["cents"]).scaleb(-2) if sums["priced"] else None
    return figures


def _read(
    viewer: User, period: Period, group_by: GroupBy, now: datetime, workspace: object = None
) -> UsageReport:
    choice = ReportFilter(workspace=workspace)  # type: ignore[arg-type]
    return usage_report(viewer, period, group_by=group_by, now=now, choice=choice)


def _measure(history: History, dice: random.Random) -> None:
    """Give some of what is held now readings of the last hours, with holes."""
    for hold in Allocation.unscoped.filter(released_at=None).select_related("node", "attempt"):
        if dice.random() < 0.3:
            continue
        of_hold = {"device_id": hold.pk, "allocation_id": hold.pk, "node_id": hold.node_id}
        channel = Channel.unscoped.create(scope=Scope.SLICE, cluster_id=hold.node.cluster_id, **of_hold)
        cores, last = hold.charge["gpu.cores"], int(NOW.timestamp() * 1000)
        since = max(last - 5_400_000, int(hold.attempt.admitted_at.timestamp() * 1000))
        Reading.unscoped.bulk_create(
            Reading(
                channel=channel, at_ms=at, cores_used=cores * dice.random(), cores_allocated=cores,
                memory_used_mib=1, memory_allocated_mib=2,
            )
            for at in range(since, last, 10_000) if dice.random() < 0.8
        )  # fmt: skip


def _reserved(history: History, begin_ms: int, end_ms: int) -> int:
    begin, end = (datetime.fromtimestamp(at / 1000, UTC) for at in (begin_ms, end_ms))
    return sum(1000 * one.amounts["reserved"] for one in count_by_steps(history, begin, end).values())


def _check(here: World, history: History, zone: ZoneInfo) -> None:
    """Store the reports and compare every one with the plain sum and with a report that is read live."""
    store_reports(now=NOW)
    later = NOW + timedelta(seconds=100)
    for month in (date(2026, 3, 1), date(2026, 4, 1)):
        period, expected = month_period(month, zone), _plain_sums(history, month, zone)
        days = [_reserved(history, *bounds) for bounds in pairwise(period.bounds_ms)]
        for group_by in STORED:
            found = _read(here.platform_admin, period, group_by, later)
            assert found.read_at == NOW
            assert {row.key: row.figures for row in found.rows} == {
                key: _figures(sums) for key, sums in expected[group_by].items() if sums["reserved"]
            }
            assert found.total == _figures(sum(expected[group_by].values(), Counter()))
            assert [figures.reserved for _day, figures in found.days] == days
        for workspace_id, sums in expected[GroupBy.TENANT].items():
            for group_by in STORED:
                of = _read(here.platform_admin, period, group_by, later, workspace_id)
                assert (of.total, of.read_at) == (_figures(sums), NOW)
    _check_beside_live(here, zone)


def _check_beside_live(here: World, zone: ZoneInfo) -> None:
    """Compare each stored report, with days, measured use and names, with one that is read at once."""
    reports = list(StoredReport.unscoped.all())
    stored = [_read_again(here, one, zone) for one in reports]
    StoredReport.unscoped.all().delete()
    assert stored == [_read_again(here, one, zone) for one in reports]


def _read_again(here: World, one: StoredReport, zone: ZoneInfo) -> UsageReport:
    period = month_period(one.month, zone)
    return _read(here.platform_admin, period, GroupBy(one.group_by), NOW, one.workspace_id)


@pytest.mark.parametrize("seed", range(5))
def test_stored_reports_are_the_plain_sum_after_every_booking(
    seed: int, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.usage.store_reports.MIN_INTERVALS", 1)
    dice = random.Random(seed)
    settings.ALLOTMENT_REPORT_TIME_ZONE = ZONES[seed % len(ZONES)]
    zone = ZoneInfo(settings.ALLOTMENT_REPORT_TIME_ZONE)
    with time_machine.travel(NOW, tick=False):
        here = world()
        history = make_history(here, dice, since=SINCE, now=NOW, runs=12)
        _check(here, history, zone)  # nothing is written down yet
        _measure(history, dice)
        record_measured(now=NOW)
        record_usage(now=NOW)
        _check(here, history, zone)
        Reading.unscoped.filter(at_ms__lt=int(NOW.timestamp() * 1000) - 3_600_000).update(cores_used=0)
        record_measured(now=NOW)  # late and corrected readings
        running = set(unmetered_attempts().values_list("job_id", flat=True))
        for job in Job.unscoped.exclude(pk__in=running):
            job.delete()
        _check(here, history, zone)


def test_a_stored_report_answers_while_it_is_fresh_and_only_for_the_whole() -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, random.Random(2), since=SINCE, now=NOW, runs=8)
        store_reports(now=NOW)
    period = month_period(date(2026, 4, 1), ZoneInfo("UTC"))
    soon, late = NOW + FRESH_FOR - timedelta(seconds=1), NOW + FRESH_FOR

    assert _read(here.platform_admin, period, GroupBy.TENANT, soon).read_at == NOW
    assert _read(here.platform_admin, period, GroupBy.TENANT, late).read_at == late
    before = NOW - timedelta(seconds=1)
    assert _read(here.platform_admin, period, GroupBy.TENANT, before).read_at == before
    assert _read(here.platform_admin, period, GroupBy.JOB, soon).read_at == soon
    berlin = month_period(date(2026, 4, 1), ZoneInfo("Europe/Berlin"))
    assert _read(here.platform_admin, berlin, GroupBy.TENANT, soon).read_at == soon
    part = usage_report(
        here.platform_admin, period, group_by=GroupBy.TENANT, now=soon, tenant=here.workspace
    )  # not large
    one = ReportFilter(pool=here.flavor.pk)
    narrowed = usage_report(here.platform_admin, period, group_by=GroupBy.TENANT, now=soon, choice=one)
    assert part.read_at == narrowed.read_at == soon


def _intervals(period: Period) -> Counter[object]:
    return Counter(row.workspace_id for row in usage_rows(period.start_ms, period.end_ms, now=NOW))


def test_a_large_workspace_is_stored_for_its_members_and_a_small_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, random.Random(2), since=SINCE, now=NOW, runs=20)
        period = month_period(date(2026, 4, 1), ZoneInfo("UTC"))
        last = month_period(date(2026, 3, 1), period.zone)
        most = max(_intervals(month)[here.other_queue.workspace_id] for month in (last, period))
        assert _intervals(period)[here.workspace.pk] > most
        monkeypatch.setattr("telemetry.usage.store_reports.MIN_INTERVALS", most + 1)
        store_reports(now=NOW)
    large = set(StoredReport.unscoped.exclude(workspace_id=None).values_list("workspace_id", flat=True))
    assert large == {here.workspace.pk}
    soon = NOW + timedelta(seconds=30)

    def read(tenant: Tenant, **choice: Any) -> datetime:
        found = usage_report(here.platform_admin, period, group_by=GroupBy.USER, now=soon, tenant=tenant,
                             choice=ReportFilter(**choice))  # fmt: skip
        return found.read_at

    mine = usage_report(here.viewer, period, group_by=GroupBy.USER, now=soon, tenant=here.workspace)
    assert (mine.read_at, bool(mine.rows)) == (NOW, True)
    # A viewer of one workspace alone reads the same without naming it.
    every = usage_report(here.viewer, period, group_by=GroupBy.USER, now=soon)
    assert (every.read_at, every.rows, every.days) == (NOW, mine.rows, mine.days)
    apart = ReportFilter(workspace=here.other_queue.workspace_id)
    assert not usage_report(here.viewer, period, group_by=GroupBy.USER, now=soon, choice=apart).rows
    assert read(here.workspace, workspace=here.workspace.pk) == NOW
    other = here.other_queue.workspace
    assert read(other) == read(here.workspace, workspace=other.pk) == soon
    assert read(here.workspace, queue=here.queue.pk) == soon
    assert here.workspace.parent is not None
    assert read(here.workspace.parent) == soon
    with pytest.raises(NotFound):
        usage_report(here.outsider, period, group_by=GroupBy.USER, now=soon, tenant=here.workspace)


def test_who_sees_a_part_never_reads_the_stored_whole() -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, random.Random(2), since=SINCE, now=NOW, runs=20)
        store_reports(now=NOW)
        period = month_period(date(2026, 4, 1), ZoneInfo("UTC"))
        whole = _read(here.platform_admin, period, GroupBy.TENANT, NOW)
        mine = _read(here.viewer, period, GroupBy.TENANT, NOW)
        nothing = _read(tenancy.user("stranger"), period, GroupBy.TENANT, NOW)
    assert len(whole.rows) == 2
    assert {row.key for row in mine.rows} == {here.workspace.pk}
    assert (nothing.rows, nothing.total) == ([], Figures())


def test_other_digits_of_the_currency_are_not_read_from_a_stored_report(settings: Any) -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, random.Random(2), since=SINCE, now=NOW, runs=8)
        store_reports(now=NOW)
        settings.ALLOTMENT_CURRENCY_DIGITS = 4
        period = month_period(date(2026, 4, 1), ZoneInfo("UTC"))
        found = _read(here.platform_admin, period, GroupBy.TENANT, NOW + timedelta(seconds=1))
    assert found.digits == 4
    assert found.read_at == NOW + timedelta(seconds=1)


def test_a_price_for_the_past_is_in_the_next_report(settings: Any) -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        history = make_history(here, random.Random(3), since=SINCE, now=NOW, runs=12)
        history.prices.clear()
        here.flavor.prices.all().delete()
        store_reports(now=NOW)
        amount = Decimal("1.5")
        changes = {"acting_user": here.platform_admin, "flavor": here.flavor, "slice_hour": None, "now": NOW}
        price_create(**changes, gpu_hour=amount, effective_at=NOW + timedelta(days=1))
        assert StoredReport.unscoped.exists()
        with pytest.raises(PermissionDenied):
            price_create(**changes | {"acting_user": here.viewer}, gpu_hour=amount, effective_at=SINCE)
        assert StoredReport.unscoped.exists()
        price_create(**changes, gpu_hour=amount, effective_at=SINCE)
        assert not StoredReport.unscoped.exists()


def test_only_this_month_and_the_last_one_are_kept(settings: Any) -> None:
    with time_machine.travel(NOW, tick=False):
        world()
        store_reports(now=NOW)
        store_reports(now=NOW + timedelta(days=31))
        kept = StoredReport.unscoped.order_by().values_list("month", flat=True).distinct()
        assert set(kept) == {date(2026, 4, 1), date(2026, 5, 1)}
        settings.ALLOTMENT_REPORT_TIME_ZONE = "Asia/Shanghai"
        store_reports(now=NOW + timedelta(days=31))
        zones = StoredReport.unscoped.order_by().values_list("time_zone", flat=True).distinct()
        assert list(zones) == ["Asia/Shanghai"]


def test_missing_stays_missing_and_large_numbers_whole() -> None:
    unpriced = Figures(reserved=2**53 + 1, unpriced=2**53 + 1)
    priced = Figures(reserved=5, amount=Decimal("12345678901234567.89"))
    assert to_numbers(unpriced, 2)[-1] is None
    for figures in (unpriced, priced, Figures(), Figures(amount=Decimal("0.00"))):
        assert to_figures(to_numbers(figures, 2), 2) == figures


def test_the_page_says_as_of_when(client: Client) -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        make_history(here, random.Random(2), since=SINCE, now=NOW, runs=8)
        store_reports(now=NOW)
    with time_machine.travel(NOW + timedelta(seconds=70), tick=False):
        client.force_login(here.platform_admin)
        page = client.get("/ops/reports").content.decode()
    assert f'As of <time datetime="{NOW.isoformat()}"' in page
