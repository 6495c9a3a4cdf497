"""A cluster that only counts its GPUs, as with NVIDIA's device plugin: measurements of agents and exporters
belong to the cards that represent the GPUs, and to the pods that run there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from django.test import Client

from clusters.gpu.batches import (
    DeviceEvent,
    DeviceValues,
    EventKind,
    MeasureBatch,
    ProcessValues,
    SliceValues,
)
from clusters.gpu.named import named_by_node
from clusters.models import Device
from foundation.core import clock
from foundation.core.actor import SYSTEM
from scheduling.models import Allocation
from telemetry.models import NodeAgent, Reading, Scope
from telemetry.series.readings.now import jobs_now, utilisation_now
from telemetry.sources.adapt import read_samples
from telemetry.sources.declarations import MeasureOrigin
from telemetry.sources.directory import load_directory
from telemetry.sources.merge import Answer, merge_answers
from telemetry.sources.samples import RawSample
from telemetry.store.ingest import StoredBatches, store_batches
from telemetry.store.times import to_ms
from tests.integration.telemetry.conftest import Bench


@pytest.fixture
def counted(bench: Bench) -> Bench:
    """Return the bench with the cards of both nodes as places; `whole` holds card 1 of the first."""
    for device in Device.unscoped.select_related("node"):
        Device.unscoped.filter(pk=device.pk).update(uuid=named_by_node("sim", device.node.name, device.index))
    Allocation.unscoped.filter(task__job=bench.whole).update(pod_uid="whole-uid")
    return bench


def gpu(index: int) -> str:
    return f"GPU-{index:08d}-0000-0000-0000-000000000000"


def store(
    bench: Bench, use: dict[int, float], *, processes: dict[int, str] | None = None, after_s: int = 0
) -> StoredBatches:
    """Store measurements of an agent: the use of GPUs by index, and the pods of processes on them."""
    bench.clock.shift(timedelta(seconds=after_s))
    pods = processes or {}
    batch = MeasureBatch(
        "node-1",
        to_ms(clock.now()),
        devices=tuple(
            DeviceValues(gpu(n), {"utilization_percent": value, "memory_used_mib": 100.0 * n})
            for n, value in use.items()
        ),
        slices=tuple(
            SliceValues(gpu(n), {"utilization_percent": use[n], "memory_used_mib": 7.0}, pod_uid=uid)
            for n, uid in pods.items()
        ),
        processes=tuple(ProcessValues(gpu(n), 10 + n, "train", {}, pod_uid=uid) for n, uid in pods.items()),
    )
    return store_batches(bench.world.cluster.pk, [batch])


def uuids_by_card(bench: Bench) -> list[str]:
    rows = Device.unscoped.filter(node=bench.world.nodes[0]).order_by("index")
    return list(rows.values_list("hardware_uuid", flat=True))


def used(bench: Bench) -> list[float | None]:
    latest = utilisation_now(SYSTEM, node_ids=[bench.world.nodes[0].pk])
    cards = Device.unscoped.filter(node=bench.world.nodes[0]).order_by("index")
    return [latest[card.pk].utilisation_percent if card.pk in latest else None for card in cards]


def test_gpus_are_measured_in_the_order_of_the_driver(counted: Bench) -> None:
    listed = [{"uuid": gpu(n), "index": n} for n in range(8)]
    NodeAgent.unscoped.create(node=counted.world.nodes[0], seen_at=clock.now(), devices=listed)
    use = {n: float(n) for n in reversed(range(8))}
    assert store(counted, use).unknown_devices == ()
    assert uuids_by_card(counted) == [gpu(n) for n in range(8)]
    assert used(counted) == [float(n) for n in range(8)]


def test_a_gpu_is_at_the_place_of_the_pod_that_uses_it(counted: Bench) -> None:
    idle = dict.fromkeys(range(8), 0.0)
    stored = store(counted, idle | {5: 80.0}, processes={5: "whole-uid"})
    assert (stored.unknown_devices, stored.unknown_pods) == ((), ())
    assert used(counted) == [0.0, 80.0, *[0.0] * 6]
    order = [gpu(n) for n in (0, 5, 2, 3, 4, 1, 6, 7)]
    assert uuids_by_card(counted) == order
    assert jobs_now(SYSTEM, [counted.whole.pk])[counted.whole.pk].cores_used == 80.0
    # Without evidence for anything else the GPU stays at its place.
    store(counted, idle | {5: 60.0}, after_s=15)
    assert uuids_by_card(counted) == order
    assert jobs_now(SYSTEM, [counted.whole.pk])[counted.whole.pk].cores_used == 60.0
    # The pod of another job there, or a process without a known pod, moves nothing.
    store(counted, idle, processes={3: "stranger"}, after_s=15)
    assert uuids_by_card(counted) == order


def test_a_replaced_gpu_takes_the_place_of_the_old_one(counted: Bench) -> None:
    store(counted, dict.fromkeys(range(8), 0.0))
    store(counted, dict.fromkeys((0, 1, 2, 3, 4, 6, 7), 0.0), after_s=15)
    assert uuids_by_card(counted) == [gpu(n) for n in range(8)], "one that is silent keeps its place"
    store(counted, dict.fromkeys((0, 1, 2, 3, 4, 6, 7, 9), 0.0), after_s=15)
    assert uuids_by_card(counted) == [gpu(n) for n in (0, 1, 2, 3, 4, 9, 6, 7)]
    ninth = store(counted, dict.fromkeys((0, 1, 2, 3, 4, 6, 7, 9, 8), 0.0), after_s=15)
    assert ninth.unknown_devices == (gpu(8),)


def test_nodes_that_register_their_gpus_are_left_alone(bench: Bench) -> None:
    known = bench.device(0).uuid
    batch = MeasureBatch("node-1", to_ms(clock.now()), devices=(DeviceValues(known, {"power_w": 9.0}),
                                                         DeviceValues(gpu(1), {"power_w": 9.0})))  # fmt: skip
    assert store_batches(bench.world.cluster.pk, [batch]).unknown_devices == (gpu(1),)
    assert set(uuids_by_card(bench)) == {""}


def scrape(bench: Bench, samples: Sequence[RawSample]) -> list[MeasureBatch]:
    now_ms = to_ms(clock.now())
    answer = Answer("dcgm", MeasureOrigin.DCGM, read_samples(MeasureOrigin.DCGM, samples), now_ms, 15_000)
    return merge_answers([answer], load_directory(bench.world.cluster.pk), now_ms=now_ms).batches


def test_an_exporter_reports_the_node_of_a_gpu_and_its_pod(counted: Bench) -> None:
    hold = Allocation.unscoped.get(task__job=counted.whole)
    Allocation.unscoped.filter(pk=hold.pk).update(ensured_at=clock.now())
    pod = {"namespace": hold.namespace, "pod": hold.pod_name, "container": "main"}

    def sample(n: int, value: float, host: str = "node-1", **labels: str) -> RawSample:
        return RawSample("DCGM_FI_DEV_GPU_UTIL", {"UUID": gpu(n), "Hostname": host, **labels}, value)

    samples = [sample(n, 1.0) for n in range(7)] + [sample(7, 90.0, **pod), sample(30, 5.0, "elsewhere")]
    samples += [RawSample("DCGM_FI_DEV_FB_USED", {**one.labels}, 900.0) for one in samples]
    batches = scrape(counted, samples)
    assert {device.uuid for batch in batches for device in batch.devices} == {gpu(n) for n in range(8)}
    assert store_batches(counted.world.cluster.pk, batches).unknown_devices == ()
    assert used(counted)[1] == 90.0
    assert jobs_now(SYSTEM, [counted.whole.pk])[counted.whole.pk].cores_used == 90.0
    slices = Reading.unscoped.filter(channel__scope=Scope.SLICE, channel__job_id=counted.whole.pk)
    assert list(slices.values_list("cores_used", flat=True)) == [90.0]
    # A place that is already known needs no label.
    bare = [RawSample("DCGM_FI_DEV_GPU_UTIL", {"UUID": gpu(7)}, 50.0)]
    assert [batch.node for batch in scrape(counted, bare)] == ["node-1"]


def test_the_page_of_such_a_gpu_opens_and_names_the_gpu_and_what_befell_it(
    counted: Bench, client: Client
) -> None:
    store(counted, dict.fromkeys(range(8), 33.0))
    event = DeviceEvent(gpu(2), EventKind.XID, to_ms(clock.now()), 79)
    store_batches(counted.world.cluster.pk, [MeasureBatch("node-1", to_ms(clock.now()), events=(event,))])
    client.force_login(counted.world.platform_admin)
    address = f"/ops/gpus/{counted.device(2).uuid}"
    page = client.get(address).content.decode()
    assert gpu(2) in page and "XID 79" in page
    assert client.get(f"{address}/live").status_code == 200
    assert client.get(f"{address}/charts/memory").status_code == 200
    assert address in client.get("/ops/gpus").content.decode()
    found = client.get("/ops/gpus", {"uuid": gpu(2)[:12]}).content.decode()
    assert address in found
    assert "XID 79" not in client.get(f"/ops/gpus/{counted.device(3).uuid}").content.decode()
