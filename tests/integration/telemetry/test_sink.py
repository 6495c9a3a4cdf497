"""The rows that the sink stores of hand-made samples."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pytest_django import DjangoAssertNumQueries

from clusters.backends.base import DeviceSample, TaskRef
from telemetry.models import Channel, Reading, Scope, Tick
from telemetry.store.times import to_ms
from tests.integration.telemetry.conftest import START, Bench


def tick(scope: Scope, **ids: Any) -> Tick:
    return Tick.unscoped.get(
        channel__scope=scope, **{f"channel__{name}": value for name, value in ids.items()}
    )


def test_a_tick_sums_what_is_known_and_what_answered(bench: Bench) -> None:
    assert bench.write(*bench.batch(START)) == 6
    whole = tick(Scope.CLUSTER)
    assert (whole.at_ms, whole.cards, whole.cards_sampled, whole.cards_allocated) == (to_ms(START), 16, 3, 2)
    assert (whole.cores_used, whole.cores_allocated) == (120.0, 160)
    assert (whole.memory_used_mib, whole.memory_allocated_mib) == (41_004, 80_960)
    assert (whole.memory_capacity_mib, whole.power_w) == (16 * 40_960, 300.0)
    assert (whole.temperature_c, whole.temperature_max_c) == (121 / 3, 41.0)
    second = tick(Scope.NODE, node_id=bench.world.nodes[1].pk)
    assert (second.cards, second.cards_sampled, second.cards_allocated, second.cores_used) == (8, 1, 0, 0.0)


def test_a_slice_carries_everyone_it_belongs_to(bench: Bench) -> None:
    bench.write(*bench.batch(START))
    channel = Channel.unscoped.get(job_id=bench.whole.pk)
    assert channel.workspace_id == bench.world.other_workspace.pk
    assert channel.user_id == bench.world.outsider.pk
    assert channel.device_id == bench.device(1).pk
    reading = Reading.unscoped.get(channel=channel)
    assert (reading.cores_used, reading.cores_allocated) == (90.0, 100)
    assert (reading.memory_used_mib, reading.memory_allocated_mib) == (30_000, 40_960)


def test_writing_twice_changes_nothing(bench: Bench) -> None:
    batch = bench.batch(START)
    assert bench.write(*batch) == 6
    before = list(Tick.unscoped.order_by("id").values())
    assert bench.write(*batch) == 0
    assert Reading.unscoped.count() == 6
    assert list(Tick.unscoped.order_by("id").values()) == before


def test_a_card_read_twice_in_a_tick_counts_once(bench: Bench) -> None:
    bench.write(bench.card(START, 0, 20.0, 100))
    bench.write(bench.card(START + timedelta(seconds=4), 0, 60.0, 200))
    whole = tick(Scope.CLUSTER)
    assert (whole.cards_sampled, whole.cores_used, whole.memory_used_mib) == (1, 60.0, 200)


def test_batches_of_two_agents_add_up_to_one_tick(bench: Bench) -> None:
    bench.write(bench.card(START, 0, 20.0, 100))
    bench.write(bench.card(START + timedelta(seconds=1), 0, 60.0, 200, node=1))
    assert tick(Scope.CLUSTER).cores_used == 80.0
    assert tick(Scope.NODE, node_id=bench.world.nodes[0].pk).cores_used == 20.0


def test_strangers_do_not_keep_the_rest_out(bench: Bench) -> None:
    stray = bench.device(0).uuid
    kept = bench.write(
        DeviceSample(START, "node-1", "GPU-unknown", 50.0, 1),
        DeviceSample(START, "node-1", stray, 50.0, 1, pod=TaskRef("team-a", "gone")),
        bench.card(START, 0, 5.0, 10),
    )
    assert kept == 1
    assert Reading.unscoped.get().cores_used == 5.0


def test_a_node_that_does_not_answer_has_no_tick(bench: Bench) -> None:
    bench.write(bench.card(START, 0, 20.0, 100))
    assert not Tick.unscoped.filter(channel__node_id=bench.world.nodes[1].pk).exists()


def test_the_number_of_queries_does_not_grow_with_the_samples(
    bench: Bench, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    bench.write(*bench.batch(START))
    small = bench.batch(START + timedelta(seconds=10))[:2]
    large = bench.batch(START + timedelta(seconds=20))
    # Savepoint and release; cards, holds; lasting and slice channels; lock; stored; inserts; what to roll.
    with django_assert_num_queries(11):
        bench.write(*small)
    with django_assert_num_queries(11):
        bench.write(*large)
