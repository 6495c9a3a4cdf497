"""Three grains: exact statistics, gaps stepped over, late readings rolled up again, nothing kept too long."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from clusters.gpu.batches import DeviceValues, MeasureBatch
from telemetry import tasks
from telemetry.models import (
    Channel,
    PendingBucket,
    Reading,
    RolledMinute,
    RolledTenMinutes,
    RolledTwoHours,
    RollUp,
    TelemetryGap,
    Tick,
)
from telemetry.services import roll_up as rolling
from telemetry.services.old_grain import move_old_rows
from telemetry.services.prune import prune_rows
from telemetry.services.roll_up import roll_up
from telemetry.store.ingest import store_batches
from telemetry.store.packing import unpack_stats
from telemetry.store.pending import mark_pending
from telemetry.store.times import MINUTE_MS, to_ms
from tests.builders import clusters
from tests.integration.telemetry.conftest import START, Bench

HOUR = timedelta(hours=1)


def of_slice(bench: Bench, model: Any, task: int) -> Any:
    return model.unscoped.get(channel__task_id=bench.sliced.tasks.get(index=task).pk)


def push(bench: Bench, at: datetime, *, index: int = 0, node: int = 0, **values: float) -> None:
    """Deliver a batch of one card, as an agent would."""
    device = bench.device(index, node)
    store_batches(
        bench.world.cluster.pk,
        [MeasureBatch(device.node.name, to_ms(at), devices=(DeviceValues(device.uuid, values),))],
    )


def test_means_and_extremes_are_exact(bench: Bench) -> None:
    at = bench.ticks(3)
    bench.ticks(3, at, load=6.0)
    bench.clock.move_to(START + timedelta(minutes=2))
    assert roll_up() == 11  # one cluster, two nodes, two workspaces, three cards, three slices
    row = of_slice(bench, RolledMinute, 0)
    assert (row.at_ms, row.count, row.covered_ms) == (to_ms(START), 6, 60_000)
    assert (row.cores_used, row.cores_used_min, row.cores_used_max) == (13.0, 10.0, 16.0)
    assert (row.cores_allocated, row.memory_used_mib, row.memory_allocated_mib) == (30.0, 5_000.0, 20_000.0)
    assert (row.power_w, row.cards) == (None, None)
    stats = unpack_stats(row.values)["utilization_percent"]
    assert (stats.seconds, stats.mean, stats.low, stats.high, stats.last) == (60, 13.0, 10.0, 16.0, 16.0)
    whole = RolledMinute.unscoped.get(channel__scope="cluster")
    assert (whole.cards, whole.cards_sampled, whole.cards_allocated) == (16.0, 3.0, 2.0)
    assert (whole.cores_used, whole.power_w, whole.temperature_max_c) == (126.0, 300.0, 41.0)
    over_cards = unpack_stats(whole.values)["temperature_c"]
    assert (over_cards.seconds, over_cards.low, over_cards.high) == (180, 40.0, 41.0)


def test_a_minute_waits_for_late_readings(bench: Bench) -> None:
    bench.ticks(6)
    bench.clock.move_to(START + timedelta(seconds=89))
    assert roll_up() == 0
    bench.clock.move_to(START + timedelta(seconds=90))
    assert roll_up() == 11
    assert roll_up() == 0


def test_a_long_silence_does_not_stop_the_work(bench: Bench) -> None:
    bench.ticks(6)
    later = START + 20 * HOUR
    bench.ticks(6, later)
    bench.clock.move_to(later + timedelta(minutes=3))
    assert roll_up() == 11 + 11 + 11 + 11  # both minutes, and of the first one ten minutes and two hours
    assert set(RolledMinute.unscoped.values_list("at_ms", flat=True)) == {to_ms(START), to_ms(later)}


def test_coarser_grains_say_what_one_pass_over_all_readings_would(bench: Bench) -> None:
    for number in range(0, 480, 3):  # two hours, with holes
        use = float((number * 7) % 101)
        push(
            bench, START + timedelta(seconds=15 * number), utilization_percent=use, energy_j=1_000.0 * number
        )
    bench.clock.move_to(START + timedelta(hours=2, minutes=5))
    roll_up()
    row = RolledTwoHours.unscoped.get(channel__scope="card")
    uses = [float((number * 7) % 101) for number in range(0, 480, 3)]
    assert (row.count, row.covered_ms) == (160, 160 * 15_000)
    assert row.cores_used == pytest.approx(sum(uses) / len(uses))
    stats = unpack_stats(row.values)
    assert stats["utilization_percent"].mean == pytest.approx(row.cores_used, rel=1e-6)
    assert (row.cores_used_min, row.cores_used_max) == (min(uses), max(uses))
    assert (stats["utilization_percent"].last, stats["energy_j"].last) == (uses[-1], 477_000.0)
    assert stats["energy_j"].mean == 477_000.0, "the increase counts across the holes too"
    assert RolledTenMinutes.unscoped.filter(channel__scope="card").count() == 12


def test_a_late_reading_is_rolled_up_in_every_grain_again(bench: Bench) -> None:
    push(bench, START, utilization_percent=20.0)
    bench.clock.move_to(START + timedelta(hours=1, minutes=59))
    roll_up()
    push(bench, START + timedelta(seconds=15), utilization_percent=60.0)
    push(bench, START + timedelta(minutes=9), utilization_percent=100.0, node=1)
    bench.clock.move_to(START + timedelta(hours=2, minutes=4))
    tasks.roll_up()
    assert not PendingBucket.unscoped.exists()
    models: tuple[Any, ...] = (RolledMinute, RolledTenMinutes, RolledTwoHours)
    for model in models:
        rows = model.unscoped.filter(channel__scope="card").order_by("at_ms", "channel_id")
        assert [row.cores_used for row in rows] == [40.0, 100.0]
        whole = model.unscoped.filter(channel__scope="cluster").order_by("at_ms")
        assert sum(row.cores_used * row.covered_ms for row in whole) == (20 + 60 + 100) * 15_000


def test_what_is_written_while_it_is_rolled_up_is_not_missed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(bench, START, utilization_percent=20.0)
    fold = rolling._fold_minute

    def slow(*args: Any) -> Any:
        found = fold(*args)
        push(bench, START + timedelta(seconds=15), utilization_percent=40.0)
        return found

    monkeypatch.setattr(rolling, "_fold_minute", slow)
    bench.clock.move_to(START + timedelta(minutes=2))
    assert roll_up() == 0
    monkeypatch.setattr(rolling, "_fold_minute", fold)
    assert roll_up() == 5
    assert RolledMinute.unscoped.get(channel__scope="card").cores_used == 30.0


def test_an_interval_that_fails_does_not_keep_the_others_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(bench, START, utilization_percent=20.0)
    push(bench, START + timedelta(minutes=1), utilization_percent=40.0)
    fold = rolling._fold_minute

    def failing(cluster_id: Any, since_ms: int, until_ms: int) -> Any:
        if since_ms == to_ms(START):
            raise ValueError("unreadable")
        return fold(cluster_id, since_ms, until_ms)

    monkeypatch.setattr(rolling, "_fold_minute", failing)
    bench.clock.move_to(START + timedelta(minutes=3))
    with pytest.raises(ExceptionGroup):
        roll_up()
    assert RolledMinute.unscoped.get(channel__scope="card").cores_used == 40.0
    monkeypatch.setattr(rolling, "_fold_minute", fold)
    assert roll_up() == 5


def test_a_cluster_whose_minutes_fail_keeps_no_other_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(bench, START + timedelta(minutes=5), utilization_percent=40.0)
    other = clusters.cluster(bench.world.cell, "beta")
    mark_pending(other.pk, MINUTE_MS, [to_ms(START) + MINUTE_MS * number for number in range(3)])
    monkeypatch.setattr(rolling, "_AT_ONCE", dict.fromkeys(rolling._AT_ONCE, 2))
    fold, tried = rolling._fold_minute, []

    def failing(cluster_id: Any, since_ms: int, until_ms: int) -> Any:
        if cluster_id == other.pk:
            tried.append((since_ms - to_ms(START)) // MINUTE_MS)
            raise ValueError("unreadable")
        return fold(cluster_id, since_ms, until_ms)

    monkeypatch.setattr(rolling, "_fold_minute", failing)
    bench.clock.move_to(START + timedelta(minutes=8))
    with pytest.raises(ExceptionGroup):
        roll_up()
    assert RolledMinute.unscoped.get(channel__scope="card").cores_used == 40.0
    with pytest.raises(ExceptionGroup):
        roll_up()
    assert tried == [0, 1, 2], "what failed comes after what did not"


def test_a_minute_covers_no_more_than_its_time(bench: Bench) -> None:
    key = {"channel": Channel.unscoped.create(scope="cluster", cluster_id=bench.world.cluster.pk)}
    Reading.unscoped.bulk_create(
        Reading(**key, at_ms=to_ms(START) + number, interval_ms=60_000, cores_used=50.0,
                cores_allocated=0, memory_allocated_mib=0)
        for number in range(40)
    )  # fmt: skip
    mark_pending(bench.world.cluster.pk, MINUTE_MS, [to_ms(START)])
    bench.clock.move_to(START + timedelta(hours=3))
    roll_up()
    models: tuple[Any, ...] = (RolledMinute, RolledTenMinutes, RolledTwoHours)
    assert [model.unscoped.get().covered_ms for model in models] == [60_000] * 3
    assert {model.unscoped.get().cores_used for model in models} == {50.0}


def test_a_minute_without_a_measure_has_none(bench: Bench) -> None:
    push(bench, START, temperature_c=50.0)
    push(bench, START + timedelta(seconds=15), temperature_c=54.0, memory_used_mib=7.0)
    bench.clock.move_to(START + timedelta(minutes=2))
    roll_up()
    row = RolledMinute.unscoped.get(channel__scope="card")
    assert (row.cores_used, row.cores_used_min, row.power_w, row.power_w_max) == (None, None, None, None)
    assert (row.memory_used_mib, row.temperature_c, row.temperature_max_c) == (7.0, 52.0, 54.0)
    whole = RolledMinute.unscoped.get(channel__scope="cluster")
    assert (whole.cores_used, whole.cards_sampled, whole.temperature_c) == (None, 0.0, 52.0)


def test_each_grain_is_kept_for_its_time(bench: Bench) -> None:
    def counts() -> tuple[int, ...]:
        kept = (Reading, Tick, RolledMinute, RolledTenMinutes, RolledTwoHours)
        return tuple(model.unscoped.count() for model in kept)

    bench.ticks(30)
    bench.clock.move_to(START + 2 * HOUR + timedelta(minutes=4))
    tasks.roll_up()
    assert counts() == (180, 150, 55, 11, 11)
    bench.clock.move_to(START + 2 * HOUR + timedelta(minutes=5, seconds=100))
    tasks.roll_up()
    assert counts() == (120, 150, 55, 11, 11)
    for age, left in (
        (timedelta(hours=24, seconds=100), (0, 100, 55, 11, 11)),
        (timedelta(days=2, seconds=100), (0, 0, 33, 11, 11)),
        (timedelta(days=30, seconds=1), (0, 0, 0, 0, 11)),
        (timedelta(days=400, seconds=1), (0, 0, 0, 0, 0)),
    ):
        bench.clock.move_to(START + age)
        tasks.roll_up()
        assert counts() == left, age


def test_readings_wait_for_roll_ups_that_are_behind_but_not_for_ever(bench: Bench) -> None:
    bench.ticks(1)
    bench.clock.move_to(START + 5 * HOUR)
    prune_rows()
    assert Reading.unscoped.count() == 6
    bench.clock.move_to(START + 25 * HOUR)
    prune_rows()
    assert Reading.unscoped.count() == 0


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
    PendingBucket.unscoped.all().delete()
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
    old = START - timedelta(days=401)
    TelemetryGap.unscoped.create(cluster=cluster, started_at=old, ended_at=old, cause="empty")
    TelemetryGap.unscoped.create(cluster=cluster, started_at=old, cause="unreachable")
    prune_rows()
    assert TelemetryGap.unscoped.get().cause == "unreachable"


def test_rows_of_five_minutes_become_rows_of_ten(bench: Bench) -> None:
    bench.ticks(1)
    channel = Channel.unscoped.get(scope="cluster")
    for number, use in enumerate((10.0, 30.0, 50.0)):
        RollUp.unscoped.create(
            channel=channel, at_ms=to_ms(START - HOUR) + number * 300_000, count=30, cores_used=use,
            cores_used_min=use - 1, cores_used_max=use + 1, memory_used_mib=1, memory_used_mib_min=1,
            memory_used_mib_max=1, cores_allocated=100, memory_allocated_mib=1, cards=16, cards_sampled=3,
        )  # fmt: skip
    assert move_old_rows(at_once=1) == 1
    assert RollUp.unscoped.count() == 2
    assert move_old_rows() == 1
    first, second = RolledTenMinutes.unscoped.order_by("at_ms")
    assert (first.cores_used, first.cores_used_min, first.cores_used_max, first.count) == (
        20.0,
        9.0,
        31.0,
        60,
    )
    assert (second.cores_used, second.covered_ms, second.cards_sampled) == (50.0, 300_000, 3.0)
    assert not RollUp.unscoped.exists()
    bench.clock.move_to(START + 3 * HOUR)
    roll_up()
    whole = RolledTwoHours.unscoped.filter(channel=channel).order_by("at_ms").first()
    assert whole is not None
    assert whole.cores_used == pytest.approx(30.0)
