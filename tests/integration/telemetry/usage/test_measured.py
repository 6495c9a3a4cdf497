"""Measured use in reports: sums of readings, kept when the store forgets, and not zero for unknown."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from scheduling.metering.intervals import gpu_percent
from scheduling.models import Allocation, Attempt, DeviceSlice
from telemetry.models import Channel, MeasuredProgress, MeasuredUse, Reading, RolledMinute, Scope
from telemetry.usage.figures import Figures
from telemetry.usage.measured import LATE
from telemetry.usage.periods import month_period
from telemetry.usage.record_measured import record_measured
from telemetry.usage.report import ReportFilter, load_account
from tests.integration.telemetry.conftest import Bench

pytestmark = pytest.mark.django_db
START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
TICK_S = 10


@pytest.fixture
def charged(bench: Bench) -> Bench:
    """Return the bench with the charges that an admission would have written."""
    for row in Allocation.unscoped.all():
        part = DeviceSlice.unscoped.get(allocation=row)
        row.charge = {"gpu.cards": 1, "gpu.cores": part.cores, "gpu.memory": part.memory_mib}
        row.save()
    return bench


def read(bench: Bench, job: object, since: datetime, until: datetime, percent: float) -> None:
    """Store readings of all tasks of a job at one use of their cards, every ten seconds."""
    for hold in Allocation.unscoped.filter(attempt__job=job).select_related("task", "attempt__job"):
        part = DeviceSlice.unscoped.get(allocation=hold)
        channel, _ = Channel.unscoped.get_or_create(
            allocation_id=hold.pk,
            device_id=part.device_id,
            defaults={
                "scope": Scope.SLICE,
                "cluster_id": bench.world.cluster.pk,
                "node_id": hold.node_id,
                "task_id": hold.task_id,
                "job_id": hold.attempt.job_id,
                "workspace_id": hold.attempt.job.workspace_id,
            },
        )
        ticks = int((until - since).total_seconds()) // TICK_S
        first = int(since.timestamp() * 1000)
        Reading.unscoped.bulk_create(
            Reading(
                channel=channel,
                at_ms=first + n * TICK_S * 1000,
                cores_used=percent,
                cores_allocated=part.cores,
                memory_used_mib=1,
                memory_allocated_mib=2,
            )
            for n in range(ticks)
        )


def figures(bench: Bench, zone: str = "UTC", month: int = 3) -> dict[str, Figures]:
    now = bench.clock_now()
    found = load_account(month_period(date(2026, month, 1), ZoneInfo(zone)), None, ReportFilter(), now=now)
    return {line.job_name: line.figures for line in found.lines.values()}


def gpu_seconds(core_ms: int) -> float:
    return core_ms / 100_000


def test_used_idle_and_unmeasured_add_up_to_reserved(charged: Bench) -> None:
    end = START + timedelta(hours=1)
    # Two slices of 30 %: half used for 20 minutes, then 10 minutes of silence, then idle.
    read(charged, charged.sliced, START, START + timedelta(minutes=20), 15.0)
    read(charged, charged.sliced, START + timedelta(minutes=30), end, 0.0)
    charged.clock.move_to(end)
    record_measured(now=end)

    found = figures(charged)["sliced"]
    assert gpu_seconds(found.reserved) == 2 * 0.3 * 3600
    assert gpu_seconds(found.used) == pytest.approx(2 * 0.15 * 1200, rel=0.005)
    assert gpu_seconds(found.idle) == pytest.approx(2 * 0.15 * 1200 + 2 * 0.3 * 1800, rel=0.005)
    assert gpu_seconds(found.unmeasured) == pytest.approx(2 * 0.3 * 600, rel=0.005)
    assert found.used + found.idle + found.unmeasured == found.reserved


def test_of_a_job_without_readings_nothing_is_known(charged: Bench) -> None:
    end = START + timedelta(minutes=30)
    read(charged, charged.sliced, START, end, 10.0)
    charged.clock.move_to(end)
    record_measured(now=end)

    silent = figures(charged)["whole"]
    assert (silent.measured, silent.used, silent.unmeasured) == (0, 0, silent.reserved)
    assert gpu_seconds(silent.reserved) == 1800


def test_measured_use_stays_when_readings_are_gone_and_late_ones_are_counted(charged: Bench) -> None:
    half, end = START + timedelta(minutes=30), START + timedelta(hours=1)
    read(charged, charged.whole, START, half, 50.0)
    charged.clock.move_to(half)
    record_measured(now=half)
    assert gpu_seconds(figures(charged)["whole"].used) == pytest.approx(900, rel=0.005)

    charged.clock.move_to(end)
    read(charged, charged.whole, half, end, 100.0)  # stored by an agent while the platform was down
    for _ in range(2):
        record_measured(now=end)
    assert gpu_seconds(figures(charged)["whole"].used) == pytest.approx(2700, rel=0.005)

    much_later = end + LATE + timedelta(minutes=20)
    charged.clock.move_to(much_later)
    record_measured(now=much_later)
    Reading.unscoped.all().delete()
    record_measured(now=much_later)
    record_measured(now=much_later + timedelta(hours=1))
    assert gpu_seconds(figures(charged)["whole"].used) == pytest.approx(2700, rel=0.005)
    assert MeasuredProgress.unscoped.get().final_until_ms >= int(end.timestamp() * 1000)


def test_measured_use_lies_in_the_day_of_the_time_zone(charged: Bench) -> None:
    # In Kathmandu, 5:45 ahead, 2 March ends at 18:15 in UTC: in the middle of an hour.
    since, until = datetime(2026, 3, 2, 18, 0, tzinfo=UTC), datetime(2026, 3, 2, 18, 30, tzinfo=UTC)
    read(charged, charged.whole, since, until, 40.0)
    charged.clock.move_to(until)
    record_measured(now=until)

    period = month_period(date(2026, 3, 1), ZoneInfo("Asia/Kathmandu"))
    days = load_account(period, None, ReportFilter(), now=until).days
    assert [gpu_seconds(days[n].used) for n in (1, 2)] == pytest.approx([360, 360], rel=0.005)
    assert gpu_seconds(days[2].reserved) == 900 * (1 + 2 * 0.3)


def test_nothing_counts_as_used_beyond_what_was_allocated(charged: Bench) -> None:
    end = START + timedelta(minutes=15)
    read(charged, charged.sliced, START, end, 90.0)
    charged.clock.move_to(end)
    record_measured(now=end)

    found = figures(charged)["sliced"]
    assert found.used == found.measured == found.reserved
    assert MeasuredUse.unscoped.count() == 1
    assert gpu_percent(Allocation.unscoped.filter(attempt__job=charged.sliced)[0].charge) == 30


def test_quarters_whose_readings_are_gone_come_from_roll_ups(charged: Bench) -> None:
    """After an outage of the workers the store has only roll-ups of the first hours."""
    end = START + timedelta(hours=5)
    read(charged, charged.whole, START, START + timedelta(minutes=1), 0.0)
    channel = Channel.unscoped.get()
    Reading.unscoped.all().delete()
    RolledMinute.unscoped.bulk_create(
        RolledMinute(
            channel=channel,
            at_ms=int((START + timedelta(minutes=n)).timestamp() * 1000),
            count=4,
            covered_ms=45_000,
            cores_used=None if n == 7 else 80.0,
            cores_allocated=100,
            memory_allocated_mib=1,
        )
        for n in range(30)
    )
    charged.clock.move_to(end)
    record_measured(now=end)

    found = figures(charged)["whole"]
    assert gpu_seconds(found.measured) == 29 * 45
    assert gpu_seconds(found.used) == 29 * 45 * 0.8
    assert gpu_seconds(found.reserved) == 5 * 3600


def test_a_reading_counts_in_each_quarter_for_its_part(charged: Bench) -> None:
    """A reading that crosses the end of a quarter counts in each quarter for its part."""
    quarter = START + timedelta(minutes=15)
    begun, first, end = (quarter + timedelta(seconds=s) for s in (-4, -3, 17))
    Attempt.unscoped.filter(job=charged.whole).update(admitted_at=begun)
    read(charged, charged.whole, first, end, 40.0)  # the first reading lasts until 7 s into the next quarter
    charged.clock.move_to(end)
    record_measured(now=end)

    found = figures(charged)["whole"]
    assert gpu_seconds(found.reserved) == 21
    assert (gpu_seconds(found.measured), gpu_seconds(found.used)) == (20, 8)


@pytest.mark.parametrize("gone", [False, True], ids=["readings", "roll-ups"])
def test_a_long_reading_at_the_end_of_a_final_quarter_counts_in_the_next_one(
    charged: Bench, *, gone: bool
) -> None:
    """The first quarter that a run writes gets the rest of a reading of the one before it."""
    quarter = START + timedelta(minutes=15)
    read(charged, charged.whole, quarter - timedelta(seconds=60), quarter - timedelta(seconds=50), 40.0)
    Reading.unscoped.update(interval_ms=300_000)
    if gone:
        reading = Reading.unscoped.get()
        values = {"cores_used": 40.0, "cores_allocated": 100, "memory_allocated_mib": 1}
        RolledMinute.unscoped.create(
            channel=reading.channel, at_ms=reading.at_ms, count=1, covered_ms=300_000, **values
        )
        Reading.unscoped.all().delete()
    MeasuredProgress.unscoped.create(
        pk=1, final_until_ms=int(quarter.timestamp() * 1000), measured_until_ms=0
    )
    end = quarter + timedelta(hours=4 if gone else 1)
    charged.clock.move_to(end)
    record_measured(now=end)
    found = figures(charged)["whole"]
    assert (gpu_seconds(found.measured), gpu_seconds(found.used)) == (240, 96)
