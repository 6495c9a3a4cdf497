"""Five-minute rows: exact means, gaps stepped over, nothing written twice or too early."""

from __future__ import annotations

from datetime import timedelta

import pytest

from telemetry import tasks
from telemetry.models import Channel, Reading, RollUp, TelemetryGap, Tick
from telemetry.services.prune import prune_rows
from telemetry.services.roll_up import roll_up
from telemetry.store.times import to_ms
from tests.integration.telemetry.conftest import START, Bench


def of_slice(bench: Bench, task: int) -> RollUp:
    task_id = bench.sliced.tasks.get(index=task).pk
    return RollUp.unscoped.get(channel__task_id=task_id)


def test_means_and_extremes_are_exact(bench: Bench) -> None:
    at = bench.ticks(15)
    bench.ticks(15, at, load=6.0)
    bench.clock.move_to(START + timedelta(minutes=6))
    assert roll_up() == 9  # one cluster, two nodes, three cards, three slices
    row = of_slice(bench, 0)
    assert (row.at_ms, row.count) == (to_ms(START), 30)
    assert (row.cores_used, row.cores_used_min, row.cores_used_max) == (13.0, 10.0, 16.0)
    assert (row.cores_allocated, row.memory_used_mib, row.memory_allocated_mib) == (30.0, 5_000.0, 20_000.0)
    assert (row.power_w, row.cards) == (None, None)
    whole = RollUp.unscoped.get(channel__scope="cluster")
    assert (whole.cards, whole.cards_sampled, whole.cards_allocated) == (16.0, 3.0, 2.0)
    assert (whole.cores_used, whole.power_w, whole.temperature_max_c) == (126.0, 300.0, 41.0)


def test_a_bucket_waits_a_minute_for_late_readings(bench: Bench) -> None:
    bench.ticks(30)
    bench.clock.move_to(START + timedelta(minutes=5, seconds=59))
    assert roll_up() == 0
    bench.clock.move_to(START + timedelta(minutes=6))
    assert roll_up() == 9
    assert roll_up() == 0


def test_a_long_silence_does_not_stop_the_work(bench: Bench) -> None:
    bench.ticks(30)
    later = START + timedelta(hours=20)
    bench.ticks(30, later)
    bench.clock.move_to(later + timedelta(minutes=6))
    assert roll_up() == 18
    assert set(RollUp.unscoped.values_list("at_ms", flat=True)) == {to_ms(START), to_ms(later)}


def test_a_half_written_run_is_made_whole(bench: Bench) -> None:
    bench.ticks(60)
    bench.clock.move_to(START + timedelta(minutes=11))
    roll_up()
    before = list(RollUp.unscoped.order_by("at_ms", "channel").values_list("channel", "at_ms", "cores_used"))
    RollUp.unscoped.filter(at_ms__gt=to_ms(START)).delete()
    roll_up()
    after = list(RollUp.unscoped.order_by("at_ms", "channel").values_list("channel", "at_ms", "cores_used"))
    assert after == before


def test_each_grain_is_kept_for_its_time(bench: Bench) -> None:
    bench.ticks(30)
    bench.clock.move_to(START + timedelta(minutes=6))
    tasks.roll_up()
    assert (Reading.unscoped.count(), Tick.unscoped.count(), RollUp.unscoped.count()) == (180, 90, 9)
    bench.clock.move_to(START + timedelta(hours=2, seconds=100))
    tasks.roll_up()
    assert Reading.unscoped.count() == 120
    bench.clock.move_to(START + timedelta(hours=24, seconds=100))
    tasks.roll_up()
    assert (Reading.unscoped.count(), Tick.unscoped.count(), RollUp.unscoped.count()) == (0, 60, 9)
    assert Channel.unscoped.count() == 22  # cluster, two nodes, 16 cards, three slices
    bench.clock.move_to(START + timedelta(days=30, seconds=1))
    tasks.roll_up()
    assert RollUp.unscoped.count() == 0


def test_channels_go_when_nothing_speaks_of_them(bench: Bench) -> None:
    bench.ticks(1)
    assert Channel.unscoped.filter(job_id__isnull=False).exists()
    bench.clock.move_to(START + timedelta(days=31))
    for _ in range(3):
        prune_rows()
    assert not Channel.unscoped.exists()


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_pruning_goes_in_batches_and_comes_to_an_end(bench: Bench, batch: int) -> None:
    bench.ticks(20)
    bench.clock.move_to(START + timedelta(hours=3))
    runs = 0
    while Reading.unscoped.exists():
        before = Reading.unscoped.count()
        prune_rows(batch)
        assert before - Reading.unscoped.count() <= 6 * (batch + 5)  # whole instants go together
        runs += 1
        assert runs <= 20


def test_old_gaps_go_and_open_ones_stay(bench: Bench) -> None:
    cluster = bench.world.cluster
    old = START - timedelta(days=31)
    TelemetryGap.unscoped.create(cluster=cluster, started_at=old, ended_at=old, cause="empty")
    TelemetryGap.unscoped.create(cluster=cluster, started_at=old, cause="unreachable")
    prune_rows()
    assert TelemetryGap.unscoped.get().cause == "unreachable"
