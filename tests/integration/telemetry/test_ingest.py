"""Batches of agents and readers are stored once, for the right owner, and for no other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from clusters.gpu.batches import (
    DeviceEvent,
    DeviceValues,
    EventKind,
    MeasureBatch,
    ProcessValues,
    SliceValues,
)
from foundation.core import clock
from scheduling.models import Allocation, DeviceSlice
from telemetry.models import Channel, GpuEvent, GpuProcess, PendingBucket, Reading, Scope, Tick
from telemetry.services.summing import sum_slots
from telemetry.store.ingest import StoredBatches, store_batches
from telemetry.store.packing import unpack_values
from telemetry.store.times import to_ms
from tests.builders import clusters, jobs
from tests.integration.telemetry.conftest import START, Bench

AT = to_ms(START)


def name_pods(bench: Bench) -> None:
    """Give each pod a uid of its own, as the cluster would."""
    for hold in Allocation.unscoped.all():
        Allocation.unscoped.filter(pk=hold.pk).update(pod_uid=f"uid-{hold.pod_name}", ensured_at=clock.now())


def uid(bench: Bench, task: int) -> str:
    return Allocation.unscoped.get(task__job=bench.sliced, task__index=task).pod_uid


def full_batch(bench: Bench, at_ms: int = AT, **parts: Any) -> MeasureBatch:
    card = bench.device(0).uuid
    of_card = {
        "utilization_percent": 30.0, "memory_used_mib": 11_000.4, "sm_clock_mhz": 1_410.0,
        "energy_j": 123_456_789.0, "temperature_c": 50.0, "power_w": 200.0, "throttle_reasons": 4.0,
    }  # fmt: skip
    values: dict[str, Any] = {
        "devices": (DeviceValues(card, of_card),),
        "slices": (
            SliceValues(card, {"utilization_percent": 10.0, "memory_used_mib": 5_000.0, "idle_s": 3.0},
                        pod_uid=uid(bench, 0), container="main"),
        ),
        "processes": (
            ProcessValues(card, 4711, "python3", {"memory_used_mib": 4_900.0}, pod_uid=uid(bench, 0)),
            ProcessValues(card, 99, "xmrig", {"utilization_percent": 5.0}),
        ),
    }  # fmt: skip
    return MeasureBatch("node-1", at_ms, **(values | parts))


@pytest.fixture
def named(bench: Bench) -> Bench:
    name_pods(bench)
    return bench


def test_everything_of_a_node_is_stored(named: Bench) -> None:
    assert store_batches(named.world.cluster.pk, [full_batch(named)]) == StoredBatches(
        stored=4, devices_at_ms=AT, slices_at_ms=AT
    )
    card = Reading.unscoped.get(channel__scope=Scope.CARD)
    assert (card.cores_used, card.memory_used_mib, card.temperature_c, card.power_w) == (
        30.0,
        11_000,
        50,
        200,
    )
    assert (card.cores_allocated, card.memory_allocated_mib, card.interval_ms) == (60, 40_000, 15_000)
    assert unpack_values(card.values) == {
        "sm_clock_mhz": 1_410.0, "energy_j": 123_456_789.0, "throttle_reasons": 4.0,
    }  # fmt: skip
    part = Reading.unscoped.select_related("channel").get(channel__scope=Scope.SLICE)
    assert (part.channel.job_id, part.channel.workspace_id) == (named.sliced.pk, named.world.workspace.pk)
    assert (part.cores_used, part.temperature_c, unpack_values(part.values)) == (10.0, None, {"idle_s": 3.0})


def test_processes_belong_to_their_allocation_or_to_none(named: Bench) -> None:
    store_batches(named.world.cluster.pk, [full_batch(named)])
    store_batches(named.world.cluster.pk, [full_batch(named, AT + 15_000)])
    known, stray = GpuProcess.unscoped.order_by("name")
    assert (known.pid, known.job_id, known.workspace_id) == (4711, named.sliced.pk, named.world.workspace.pk)
    assert (stray.name, stray.allocation_id, stray.workspace_id) == ("xmrig", None, None)
    assert (known.first_seen_ms, known.last_seen_ms) == (AT, AT + 15_000)
    memory = Reading.unscoped.filter(channel__process_id=known.pk).values_list(
        "memory_used_mib", "cores_used"
    )
    assert list(memory) == [(4_900, None)] * 2


def test_repeating_a_batch_changes_nothing(named: Bench) -> None:
    batches = [full_batch(named), full_batch(named, AT + 15_000)]
    assert store_batches(named.world.cluster.pk, batches).stored == 8
    rows = list(Reading.unscoped.order_by("id").values())
    PendingBucket.unscoped.all().delete()
    assert store_batches(named.world.cluster.pk, batches) == StoredBatches(
        duplicates=8, devices_at_ms=AT + 15_000, slices_at_ms=AT + 15_000
    )
    assert list(Reading.unscoped.order_by("id").values()) == rows
    assert not PendingBucket.unscoped.exists()


def test_cards_of_other_nodes_and_clusters_are_left_out(named: Bench) -> None:
    other = clusters.cluster(named.world.cell, "beta")
    clusters.node(clusters.flavor(other), "node-1", cards=1)
    theirs, neighbour = "GPU-beta-node-1-0", named.device(0, node=1).uuid
    values = {"utilization_percent": 100.0}
    parts: dict[str, Any] = {
        "devices": tuple(DeviceValues(uuid, values) for uuid in (theirs, neighbour, "GPU-none")),
        "slices": (SliceValues(theirs, values, pod_uid=uid(named, 0)),),
        "processes": (ProcessValues(neighbour, 1, "x", values),),
    }
    found = store_batches(named.world.cluster.pk, [full_batch(named, **parts)])
    assert (found.stored, found.unknown_devices) == (0, tuple(sorted((theirs, neighbour, "GPU-none"))))
    assert not Reading.unscoped.exists()


def test_a_pod_that_holds_nothing_of_the_card_is_left_out(named: Bench) -> None:
    card = named.device(1).uuid  # held by a pod of the other workspace
    stolen = SliceValues(card, {"utilization_percent": 1.0}, pod_uid=uid(named, 0))
    found = store_batches(
        named.world.cluster.pk, [full_batch(named, devices=(), processes=(), slices=(stolen,))]
    )
    assert (found.stored, found.unknown_pods) == (0, (uid(named, 0),))


def test_an_unknown_node_stores_nothing(named: Bench) -> None:
    batch = MeasureBatch("elsewhere", AT, devices=(DeviceValues(named.device(0).uuid, {"power_w": 1.0}),))
    assert store_batches(named.world.cluster.pk, [batch]).unknown_devices == (named.device(0).uuid,)


def test_a_late_reading_belongs_to_who_held_the_card_then(named: Bench) -> None:
    whole = Allocation.unscoped.get(task__job=named.whole)
    ended = START + timedelta(minutes=10)
    Allocation.unscoped.filter(pk=whole.pk).update(released_at=ended)
    DeviceSlice.unscoped.filter(allocation=whole).update(released=True)
    named.clock.move_to(START + timedelta(hours=1))
    card = named.device(1).uuid
    for at, stored in ((AT, 2), (to_ms(ended), 1)):  # the card and its holder; the card alone
        batch = MeasureBatch("node-1", at, devices=(DeviceValues(card, {"utilization_percent": 80.0}),))
        assert store_batches(named.world.cluster.pk, [batch]).stored == stored
    assert Reading.unscoped.get(channel__job_id=named.whole.pk).cores_allocated == 100
    after = Reading.unscoped.get(channel__scope=Scope.CARD, at_ms=to_ms(ended))
    assert (after.cores_allocated, after.memory_allocated_mib) == (0, 0)


def test_late_readings_of_an_ended_slice_are_kept_beside_the_first_of_a_new_one(named: Bench) -> None:
    """An agent delivers stored readings over the restart of a job: both of its holds are in one report."""
    first = Allocation.unscoped.get(task__job=named.whole)
    ended = START + timedelta(minutes=10)
    store_batches(named.world.cluster.pk, [of_pod(named, first, AT)])
    Allocation.unscoped.filter(pk=first.pk).update(released_at=ended)
    DeviceSlice.unscoped.filter(allocation=first).update(released=True)
    named.clock.move_to(ended)
    named.whole.attempts.update(ended_at=ended)
    jobs.allocate(named.whole, named.world.nodes[1])
    name_pods(named)
    second = Allocation.unscoped.get(task__job=named.whole, released_at__isnull=True)
    card = DeviceValues(second.slices.get().device.uuid, {"utilization_percent": 7.0})
    batches = [of_pod(named, first, AT + 15_000), MeasureBatch("node-2", to_ms(ended), devices=(card,))]
    assert store_batches(named.world.cluster.pk, batches).stored == 3
    assert Reading.unscoped.filter(channel__allocation_id=first.pk).count() == 2


def of_pod(bench: Bench, hold: Allocation, at_ms: int) -> MeasureBatch:
    part = SliceValues(
        hold.slices.get().device.uuid, {"utilization_percent": 5.0}, pod_uid=f"uid-{hold.pod_name}"
    )
    return MeasureBatch(hold.node.name, at_ms, slices=(part,))


def test_what_is_not_known_is_not_nought(named: Bench) -> None:
    batch = MeasureBatch("node-1", AT, devices=(DeviceValues(named.device(0).uuid, {"temperature_c": 41.0}),))
    assert store_batches(named.world.cluster.pk, [batch]).stored == 1
    row = Reading.unscoped.get()
    assert (row.cores_used, row.memory_used_mib, row.power_w, row.values) == (None, None, None, None)
    assert Channel.unscoped.count() == 1


def test_events_are_stored_once(named: Bench) -> None:
    fault = DeviceEvent(named.device(0).uuid, EventKind.XID, AT, 79)
    batch = full_batch(named, events=(fault, DeviceEvent(None, EventKind.ENUMERATED, AT)))
    for _ in range(2):
        store_batches(named.world.cluster.pk, [batch])
    rows = GpuEvent.unscoped.order_by("id").values_list("device_uuid", "kind", "code", "node_id")
    node = named.world.nodes[0].pk
    assert list(rows) == [(named.device(0).uuid, "xid", 79, node), ("", "enumerated", -1, node)]


def of_card(bench: Bench, at_ms: int, interval_ms: int = 15_000, **values: float) -> MeasureBatch:
    card = DeviceValues(bench.device(0).uuid, values or {"utilization_percent": 50.0})
    return MeasureBatch("node-1", at_ms, interval_ms=interval_ms, devices=(card,))


@pytest.mark.parametrize(("there", "late"), [(15_000, 15_000), (60_000, 15_000), (15_000, 60_000)])
@pytest.mark.parametrize("shift_ms", [1, 3_333, 7_500, 14_999])
def test_a_time_that_another_reading_covers_is_not_counted_again(
    bench: Bench, there: int, late: int, shift_ms: int
) -> None:
    cluster = bench.world.cluster.pk
    known = [of_card(bench, AT + at, there) for at in range(0, 240_000, there)]
    assert store_batches(cluster, known).stored == len(known)
    backlog = [of_card(bench, AT + shift_ms + at, late) for at in range(0, 180_000, late)]
    found = store_batches(cluster, backlog)
    assert (found.stored, found.duplicates) == (0, len(backlog))
    hole = [of_card(bench, AT + 240_000 + at) for at in (0, 15_000)]
    assert store_batches(cluster, hole).stored == 2, "a time that nobody stands for"


def test_readings_that_jitter_and_parts_of_two_sources_are_all_stored(bench: Bench) -> None:
    cluster = bench.world.cluster.pk
    times = [AT + 15_000 * number + (-1) ** number * 3_000 for number in range(20)]
    assert sum(store_batches(cluster, [of_card(bench, at)]).stored for at in times) == 20
    parts = [of_card(bench, at + 5_000, temperature_c=40.0) for at in times]
    assert store_batches(cluster, parts).stored == 20


def test_a_node_cannot_store_more_than_its_interval_allows(bench: Bench) -> None:
    flood = [of_card(bench, AT + number, 1_000) for number in range(2_000)]
    assert store_batches(bench.world.cluster.pk, flood).stored == 4


def test_a_workspace_keeps_its_slices_while_one_of_them_is_silent(named: Bench) -> None:
    card = named.device(0).uuid
    for at_ms, tasks in ((AT, (0, 1)), (AT + 45_000, (1,))):
        parts = [
            SliceValues(card, {"utilization_percent": 10.0, "memory_used_mib": 5.0}, pod_uid=uid(named, task))
            for task in tasks
        ]
        store_batches(named.world.cluster.pk, [MeasureBatch("node-1", at_ms, slices=tuple(parts))])
    sum_slots(named.world.cluster.pk, AT, AT + 60_000)
    rows = Tick.unscoped.filter(channel__scope=Scope.WORKSPACE).order_by("at_ms")
    told = ("channel__workspace_id", "at_ms", "cards", "cards_sampled", "cores_allocated", "cores_used")
    mine, theirs = named.world.workspace.pk, named.world.other_workspace.pk
    found = rows.values_list(*told)
    assert list(found.filter(channel__workspace_id=mine)) == [
        (mine, AT, 2, 2, 60, 20.0),
        (mine, AT + 45_000, 2, 1, 60, 10.0),
    ], "and none where nothing was read"
    assert list(found.filter(channel__workspace_id=theirs)) == [
        (theirs, AT, 1, 0, 100, None),
        (theirs, AT + 45_000, 1, 0, 100, None),
    ], "nothing of it was read, and it holds its GPU all the same"
    assert {row.memory_allocated_mib for row in rows.filter(channel__workspace_id=mine)} == {40_000}
