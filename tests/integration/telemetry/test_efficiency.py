"""The losses on the page about efficiency, against worlds with known figures."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from clusters.gpu.batches import MeasureBatch, ProcessValues, SliceValues
from clusters.models import Cluster, Device, Flavor, Node
from clusters.selectors.shapes import PoolRoom, pool_rooms
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.errors import NotFound, PermissionDenied
from scheduling.models import Allocation, DeviceSlice, UsageInterval
from telemetry.series.readings.agents import stray_processes
from telemetry.series.readings.idle import idle_holds
from telemetry.series.readings.over_use import OverUse, slice_lines
from telemetry.services.prune import prune_rows
from telemetry.services.roll_up import roll_up
from telemetry.store.ingest import store_batches
from telemetry.store.times import to_ms
from telemetry.usage.forecast import QuotaForecast, QuotaTrend, quota_forecasts, workspace_forecasts
from tenants.models import User
from tests.builders import clusters
from tests.integration.telemetry.conftest import START, Bench


def write(bench: Bench, at: datetime, use: float) -> None:
    bench.clock.move_to(at)
    bench.write(bench.card(at, 1, use, 30_000), bench.pod(at, bench.whole, 0, use, 30_000))


def test_an_idle_gpu_is_listed_with_its_owner_and_since_when(bench: Bench) -> None:
    for number in range(60):
        write(bench, START + timedelta(seconds=10 * number), 80.0 if number < 20 else 1.0)
    (hold,) = idle_holds(SYSTEM)
    assert hold.since == hold.used_at == START + timedelta(seconds=190)
    assert hold.slice.allocation.attempt.job == bench.whole
    assert hold.slice.device == bench.device(1)
    assert idle_holds(SYSTEM, cluster_id=bench.world.cluster.pk) == [hold]
    other = clusters.cluster(bench.world.cell, "other")
    assert idle_holds(SYSTEM, cluster_id=other.pk) == []
    with pytest.raises(PermissionDenied):
        idle_holds(bench.world.viewer)


def test_a_gpu_that_was_never_used_is_idle_since_it_was_allocated(bench: Bench) -> None:
    for number in range(40):
        write(bench, START + timedelta(seconds=10 * number), 0.0)
    (hold,) = idle_holds(SYSTEM)
    assert (hold.used_at, hold.since) == (None, hold.slice.allocation.created_at)


def test_the_last_use_is_found_in_roll_ups_when_readings_are_gone(bench: Bench) -> None:
    for number in range(6):
        write(bench, START + timedelta(seconds=10 * number), 80.0)
    bench.clock.move_to(START + timedelta(minutes=3))
    roll_up()
    late = START + timedelta(hours=5)
    for number in range(40):
        write(bench, late + timedelta(seconds=10 * number), 0.0)
    prune_rows()
    (hold,) = idle_holds(SYSTEM)
    assert hold.since == START + timedelta(minutes=1)


def test_slices_are_listed_with_use_and_those_above_their_allocation_come_first(bench: Bench) -> None:
    assert {(line.memory_used_mib, line.over) for line in slice_lines(SYSTEM)} == {(None, ())}
    first, second = DeviceSlice.unscoped.filter(exclusive=False).order_by("allocation__task__index")
    for row in (first, second):
        Allocation.unscoped.filter(pk=row.allocation_id).update(pod_uid=f"uid-{row.allocation.task.index}")

    def store(number: int, *values: dict[str, float]) -> None:
        bench.clock.move_to(START + timedelta(seconds=15 * number))
        parts = tuple(
            SliceValues(bench.device(0).uuid, one, pod_uid=f"uid-{index}") for index, one in enumerate(values)
        )
        batch = MeasureBatch("node-1", to_ms(clock.now()), slices=parts)
        assert store_batches(bench.world.cluster.pk, [batch]).stored == len(values)

    store(0, {"utilization_percent": 30, "memory_used_mib": 20_000}, {"memory_used_mib": 19_000})
    lines = slice_lines(SYSTEM)
    assert [(line.memory_used_mib, line.over) for line in lines] == [(20_000, ()), (19_000, ())]
    store(1, {"utilization_percent": 50, "memory_used_mib": 20_000}, {"memory_used_mib": 20_001})
    found = {line.slice.allocation.task.index: line.over for line in slice_lines(SYSTEM)}
    assert found == {0: (OverUse.COMPUTE,), 1: (OverUse.MEMORY,)}, "a mean of 40 % where 30 % are allocated"
    changed = {"memory_used_mib": 1.0, "memory_limit_mib": 20_000.0, "memory_enforced_mib": 40_000.0}
    store(2, {"memory_used_mib": 1.0}, changed)
    found = {line.slice.allocation.task.index: line.over for line in slice_lines(SYSTEM)}
    assert found == {0: (OverUse.COMPUTE,), 1: (OverUse.LIMIT,)}
    with pytest.raises(PermissionDenied):
        slice_lines(bench.world.editor)


def test_processes_without_an_allocation_are_listed_with_their_use(bench: Bench) -> None:
    device = bench.device(3)
    stray = ProcessValues(device.uuid, 42, "miner", {"utilization_percent": 35.0, "memory_used_mib": 6_000.0})
    silent = ProcessValues(device.uuid, 43, "ghost", {})
    Allocation.unscoped.filter(task__job=bench.whole).update(pod_uid="owner")
    owned = ProcessValues(bench.device(1).uuid, 44, "train", {"memory_used_mib": 1.0}, pod_uid="owner")
    batch = MeasureBatch("node-1", to_ms(START), processes=(stray, silent, owned))
    store_batches(bench.world.cluster.pk, [batch])
    found = {one.process.name: (one.device, one.utilization_percent, one.memory_used_mib)
             for one in stray_processes(SYSTEM)}  # fmt: skip
    assert found == {"miner": (device, 35.0, 6_000), "ghost": (device, None, None)}
    bench.clock.shift(timedelta(minutes=11))
    assert stray_processes(SYSTEM) == []
    with pytest.raises(PermissionDenied):
        stray_processes(bench.world.viewer)


def test_a_process_belongs_to_its_pod_for_a_minute_after_release(bench: Bench) -> None:
    Allocation.unscoped.filter(task__job=bench.whole).update(pod_uid="owner", released_at=START)
    process = ProcessValues(bench.device(1).uuid, 44, "train", {"memory_used_mib": 1.0}, pod_uid="owner")
    for seconds, stray in ((0, 0), (59, 0), (61, 1)):
        at = START + timedelta(seconds=seconds)
        bench.clock.move_to(at)
        store_batches(bench.world.cluster.pk, [MeasureBatch("node-1", to_ms(at), processes=(process,))])
        assert len(stray_processes(SYSTEM)) == stray


def room(flavor: Flavor) -> PoolRoom:
    return next(one for one in pool_rooms(viewer=SYSTEM) if one.flavor == flavor)


def test_room_counts_tasks_by_shape_and_what_large_ones_cannot_use(bench: Bench) -> None:
    flavor = bench.world.flavor  # two nodes of eight; GPUs 0 and 1 of the first are in use
    found = room(flavor)
    assert {shape.size: shape.tasks for shape in found.shapes} == {1: 14, 2: 7, 4: 3, 8: 1}
    left = 100 - 60  # what the two slices leave of GPU 0
    assert found.free == 1400 + left
    assert found.fragmented_percent == pytest.approx(100 * (1 - 800 / (1400 + left)))
    assert found.stranded == {"partly-allocated": left}
    Device.unscoped.filter(node=bench.world.nodes[1], index=0).update(healthy=False)
    Node.unscoped.filter(pk=bench.world.nodes[0].pk).update(cordoned=True)
    found = room(flavor)
    assert {shape.size: shape.tasks for shape in found.shapes} == {1: 7, 2: 3, 4: 1, 8: 0}
    assert found.stranded == {"cordoned": 600 + left, "unhealthy": 100}
    assert found.fragmented_percent == 100.0
    Node.unscoped.update(cordoned=True)
    assert (room(flavor).free, room(flavor).fragmented_percent) == (0, None)


def test_room_in_a_pool_of_slices_looks_at_compute_and_memory(bench: Bench) -> None:
    Flavor.unscoped.update(gpu_mode="slice")
    Node.unscoped.filter(pk=bench.world.nodes[1].pk).update(ready=False)
    device = bench.device(0)
    Device.unscoped.filter(node=bench.world.nodes[0], index__gte=2).update(cores_granted=100)
    assert (device.cores_granted, device.memory_granted) == (60, 40_000)
    found = room(bench.world.flavor)
    by_memory = (device.memory_capacity - 40_000) * 100 // (25 * device.memory_capacity)
    assert {shape.size: shape.tasks for shape in found.shapes}[25] == min(1, by_memory)
    assert found.stranded["not-ready"] == 800


def forecast(bench: Bench) -> QuotaForecast:
    return next(
        one
        for one in quota_forecasts(SYSTEM, now=clock.now())
        if one.tenant == bench.world.workspace and one.flavor == bench.world.flavor
    )


def held(bench: Bench, day: int, gpus: int, *, sliced: bool = False) -> None:
    """Write down that a job held GPUs for the whole of a past day."""
    now_ms, day_ms = to_ms(clock.now()), 86_400_000
    UsageInterval.unscoped.create(
        attempt_id=bench.sliced.attempts.get().pk, workspace_id=bench.world.workspace.pk,
        queue_id=bench.world.queue.pk, user_id=bench.world.editor.pk, job_id=bench.sliced.pk, job_name="x",
        flavor_id=bench.world.flavor.pk, sliced=sliced, begin_ms=now_ms - day * day_ms,
        end_ms=now_ms - (day - 1) * day_ms, cores=100 * gpus, billed=100 * gpus, borrowed=0, lost=0,
    )  # fmt: skip


def test_quota_that_grows_evenly_is_forecast_to_the_day(bench: Bench) -> None:
    Allocation.unscoped.update(released_at=clock.now())
    bench.clock.shift(timedelta(days=30))
    assert forecast(bench).trend is QuotaTrend.SHORT
    for day, gpus in zip(range(7, 0, -1), range(7), strict=True):
        held(bench, day, gpus)
    found = forecast(bench)
    # By one GPU a day it is at 6.5 now; the quota of 8 is full after a day and a half.
    assert found.trend is QuotaTrend.FILLS
    assert found.growth_per_day == pytest.approx(100)
    assert found.fills_at == clock.now() + timedelta(days=1.5)
    for day in range(1, 8):
        held(bench, day, day - 1, sliced=True)  # as much less as there was more
    assert (forecast(bench).trend, forecast(bench).fills_at) == (QuotaTrend.STEADY, None)


def test_the_page_shows_all_of_it_and_no_zero_for_what_is_unknown(bench: Bench, client: Client) -> None:
    client.force_login(bench.world.platform_admin)
    page = client.get("/ops/efficiency").content.decode()
    assert "No GPU was measured in the last 30 s." in page
    assert "No idle GPUs." not in page
    values = re.findall(r'<span class="value">([^<]*)', page)
    assert values[:3] == ["–", "–", "–"], "nothing is measured, and no agent reports"
    assert "slice-" in page and '<td class="num" data-label="GPU memory used">–</td>' in page
    for number in range(40):
        write(bench, START + timedelta(seconds=10 * number), 0.0)
    page = client.get("/ops/efficiency/live").content.decode()
    assert 'href="/w/team-b/jobs/' in page
    assert "Never used" in page
    assert re.findall(r'<span class="value">([^<]*)', page)[0] == "1"
    Cluster.unscoped.update(health="unreachable")
    assert "unreachable" in client.get("/ops/efficiency").content.decode().lower()
    client.force_login(bench.world.viewer)
    assert client.get("/ops/efficiency").status_code == 403


def read(user: User, route: str) -> dict[str, Any]:
    client = APIClient()
    client.force_authenticate(user)
    answer = client.get(f"/api/v1/{route}")
    assert answer.status_code == 200, answer.data
    return dict(answer.data)


def test_the_rest_api_returns_the_same_figures_and_says_what_was_not_measured(bench: Bench) -> None:
    admin = bench.world.platform_admin
    body = read(admin, "admin/efficiency")
    assert (body["idle_measured"], body["agents_report"], body["idle"]) == (False, False, [])
    assert [(one["compute_percent"], one["compute_used_percent"], one["memory_used_mib"])
            for one in body["slices"]] == [(30, None, None)] * 2  # fmt: skip
    for number in range(40):
        write(bench, START + timedelta(seconds=10 * number), 0.0)
    body = read(admin, f"admin/efficiency?cluster={bench.world.cluster.name}")
    (idle,) = body["idle"]
    assert (idle["job_id"], idle["gpu"]) == (str(bench.whole.pk), bench.device(1).uuid)
    assert (idle["workspace"], idle["never_used"], body["idle_measured"]) == ("team-b", True, True)
    (pool,) = [one for one in body["pools"] if one["pool"] == bench.world.flavor.name]
    assert pool["free_gpus"] == 14.4
    assert pool["stranded_gpus"] == {"partly-allocated": 0.4}
    assert {shape["size"]: shape["tasks"] for shape in pool["shapes"]} == {1: 14, 2: 7, 4: 3, 8: 1}
    other = clusters.cluster(bench.world.cell, "other")
    body = read(admin, f"admin/efficiency?cluster={other.name}")
    assert [body[name] for name in ("idle", "slices", "pools", "forecasts")] == [[], [], [], []]


def test_members_see_when_the_quota_of_their_workspace_is_full(bench: Bench, client: Client) -> None:
    Allocation.unscoped.update(released_at=clock.now())
    bench.clock.shift(timedelta(days=30))
    for day, gpus in zip(range(7, 0, -1), range(7), strict=True):
        held(bench, day, gpus)
    viewer = bench.world.viewer
    found = read(viewer, "workspaces/team-a/quota/forecast")["items"]
    assert {one["workspace"] for one in found} == {"team-a"}
    (full,) = [one for one in found if one["trend"] == "fills"]
    assert full["growth_gpus_per_day"] == pytest.approx(1)
    assert full["full_at"] == "2026-04-02T20:00:00Z"
    client.force_login(viewer)
    page = client.get("/w/team-a/quota").content.decode()
    assert "Quota forecast" in page
    assert page.count('<tr id="forecast-') == len(found)
    with pytest.raises(NotFound):
        workspace_forecasts(viewer, bench.world.other_workspace, now=clock.now())
