"""The GPUs of one job: lines of one or each beside the mean, and the reasons for lower clocks over time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from django.test import Client

from clusters.gpu.batches import DeviceValues, MeasureBatch, SliceValues
from foundation.core.errors import NotFound
from scheduling.models import DeviceSlice, GpuRequestMode, Job
from telemetry.series import MeasuredThing, job_gpus, job_series, measure_series
from telemetry.services.roll_up import roll_up
from telemetry.store.ingest import store_batches
from telemetry.store.times import to_ms
from tests.builders import clusters, jobs
from tests.integration.telemetry.conftest import START, Bench
from tests.integration.telemetry.test_measure_series import get, name_pods

MINUTE: Final = timedelta(minutes=1)
THERMAL, POWER, IDLE = 0x40, 0x4, 0x1
HOT: Final = range(5, 8)
"""Minutes in which the third GPU is too hot; in the second half of each minute only."""
CLOCKS: Final = (1000.0, 1200.0, 1400.0)


def reasons(gpu: int, minute: int, half: int) -> int:
    if gpu == 2:
        return THERMAL if minute in HOT and half else 0
    return POWER if gpu == 0 and minute == 6 else 0


@pytest.fixture
def large(bench: Bench) -> Iterator[Job]:
    """A job of three whole GPUs, one of them the eleventh of its node, measured for twenty minutes."""
    node = clusters.node(bench.world.flavor, "node-9", cards=12)
    made = jobs.job(bench.world.queue, bench.world.editor, "large", roles=[jobs.RoleOf(cards=3)])
    jobs.allocate(made, node)
    name_pods()
    parts = DeviceSlice.unscoped.filter(allocation__task__job=made).select_related("device", "allocation")
    eleventh = node.devices.get(index=10)
    DeviceSlice.unscoped.filter(pk=parts.get(device__index=2).pk).update(device=eleventh)
    held = list(parts.order_by("device__index"))
    assert [part.device.index for part in held] == [0, 1, 10]
    for minute in range(20):
        batches = [
            MeasureBatch(
                "node-9", to_ms(START + minute * MINUTE) + half * 30_000, 30_000,
                devices=tuple(
                    DeviceValues(
                        part.device.uuid,
                        {"sm_clock_mhz": CLOCKS[gpu], "throttle_reasons": reasons(gpu, minute, half),
                         "utilization_percent": 10.0 * (gpu + 1)},
                    )
                    for gpu, part in enumerate(held)
                ),
                slices=tuple(
                    SliceValues(
                        part.device.uuid, {"utilization_percent": 10.0 * (gpu + 1), "memory_used_mib": 100},
                        pod_uid=part.allocation.pod_uid,
                    )
                    for gpu, part in enumerate(held)
                ),
            )
            for half in (0, 1)
        ]  # fmt: skip
        bench.clock.move_to(START + (minute + 1) * MINUTE)
        store_batches(bench.world.cluster.pk, batches)
    bench.clock.move_to(START + 30 * MINUTE)
    roll_up()
    yield made


def read(bench: Bench, job: Job, measure: str, step: int = 60, **more: Any) -> dict[str, list[float | None]]:
    span = (START, START + 20 * MINUTE, step)
    found = measure_series(bench.world.viewer, MeasuredThing("job", job.pk), [measure], *span, **more)
    return {line.label: [value for _, value in line.points] for line in found.series}


def test_one_gpu_of_a_job_is_read_by_itself(bench: Bench, large: Job) -> None:
    gpus = job_gpus(bench.world.viewer, large)
    assert [name for _, name in gpus] == ["node-9 · GPU 0", "node-9 · GPU 1", "node-9 · GPU 10"]
    assert read(bench, large, "sm_clock_mhz") == {"sm_clock_mhz": [pytest.approx(1200.0)] * 20}
    each = read(bench, large, "sm_clock_mhz", group_by="gpu")
    assert each == {name: [clock] * 20 for (_, name), clock in zip(gpus, CLOCKS, strict=True)}
    assert list(each) == [name for _, name in gpus], "GPU 10 comes last"
    last = gpus[2][0]
    one = read(bench, large, "sm_clock_mhz", group_by="gpu", gpu=last)
    assert one == {"node-9 · GPU 10": [1400.0] * 20}
    use = read(bench, large, "utilization_percent", gpu=last)
    assert use == {"utilization_percent": [pytest.approx(30.0)] * 20}
    found = job_series(bench.world.viewer, large, START, START + 20 * MINUTE, 60, gpu=last)
    subjects = {line.subject for line in found.series if line.measure == "utilisation"}
    assert {subject.rpartition("/")[2] for subject in subjects} == {str(last), "average"}
    with pytest.raises(NotFound):
        job_gpus(bench.world.outsider, large)


def test_a_gpu_that_is_not_of_the_job_says_nothing(bench: Bench, large: Job) -> None:
    foreign = bench.device(1).pk
    assert read(bench, large, "sm_clock_mhz", gpu=foreign) == {"sm_clock_mhz": [None] * 20}
    assert read(bench, large, "utilization_percent", gpu=foreign) == {"utilization_percent": [None] * 20}


@pytest.mark.parametrize("step", [60, 600])
def test_reasons_between_two_points_are_seen_in_every_grain(bench: Bench, large: Job, step: int) -> None:
    minutes = step // 60
    wanted = [
        float(
            max(reasons(0, minute, 0) for minute in range(first, first + minutes))
            | max(reasons(2, minute, 1) for minute in range(first, first + minutes))
        )
        for first in range(0, 20, minutes)
    ]
    assert wanted[:6] == [0, 0, 0, 0, 0, THERMAL] if step == 60 else wanted == [THERMAL | POWER, 0]
    assert read(bench, large, "throttle_reasons", step, statistic="seen") == {"throttle_reasons": wanted}


def test_energy_without_a_counter_is_estimated_from_power(bench: Bench) -> None:
    """Two GPUs of 200 W and 300 W, the second of which counts its energy in the first five minutes."""
    first, second = bench.device(2), bench.device(3)
    for minute in range(10):
        counted = {"energy_j": 17_000.0 * minute} if minute < 5 else {}
        devices = (
            DeviceValues(first.uuid, {"power_w": 200.0}),
            DeviceValues(second.uuid, {"power_w": 300.0, **counted}),
        )
        bench.clock.move_to(START + minute * MINUTE)
        store_batches(
            bench.world.cluster.pk,
            [MeasureBatch("node-1", to_ms(START + minute * MINUTE), 60_000, devices=devices)],
        )
    bench.clock.move_to(START + 30 * MINUTE)
    roll_up()
    for step in (60, 600):
        for gpu, estimated in ((first, True), (second, step == 60)):
            found = measure_series(
                bench.world.platform_admin, MeasuredThing("gpu", gpu.pk), ["energy_j"],
                START, START + 10 * MINUTE, step,
            )  # fmt: skip
            (line,) = found.series
            assert line.estimated is estimated
            values = [value for _, value in line.points]
            if gpu == first:
                assert values == [200 * step] * (600 // step)
            elif step == 60:
                assert values == [0, *[17_000] * 4, *[18_000] * 5], (
                    "counted where it was, estimated after that"
                )


def test_a_chart_of_estimated_energy_says_so(bench: Bench, client: Client) -> None:
    gpu = bench.device(2)
    devices = (DeviceValues(gpu.uuid, {"power_w": 200.0}),)
    store_batches(bench.world.cluster.pk, [MeasureBatch("node-1", to_ms(START), 60_000, devices=devices)])
    bench.clock.move_to(START + 5 * MINUTE)
    client.force_login(bench.world.platform_admin)
    found = client.get(f"/ops/gpus/{gpu.uuid}/charts/energy?range=1h").json()
    (line,) = found["figure"]["data"]
    assert line["name"] == "Energy, estimated from power"
    assert found["figure"]["layout"]["showlegend"] is True
    assert max(value or 0 for value in line["y"]) == 12.0


def traces(client: Client, job: Job, chart: str, query: str) -> dict[str, Any]:
    span = f"from={START:%Y-%m-%dT%H:%M:%SZ}&to={START + 20 * MINUTE:%Y-%m-%dT%H:%M:%SZ}"
    answer = client.get(f"/w/team-a/jobs/{job.pk}/charts/{chart}?{span}&{query}")
    assert answer.status_code == 200, answer.content
    drawn = {trace["name"]: trace for trace in answer.json()["figure"]["data"] if "name" in trace}
    return {"": answer.json(), **drawn}


def test_charts_of_a_job_draw_the_chosen_gpus_beside_the_mean(
    bench: Bench, large: Job, client: Client
) -> None:
    client.force_login(bench.world.viewer)
    last = job_gpus(bench.world.viewer, large)[2][0]
    assert "GPU 0" not in traces(client, large, "clocks", "")
    each = traces(client, large, "clocks", "gpu=each")
    assert {name: set(each[name]["y"]) - {None} for name in each if name} == {
        "SM": {1200.0}, "GPU 0": {1000.0}, "GPU 1": {1200.0}, "GPU 10": {1400.0},
    }  # fmt: skip
    one = traces(client, large, "clocks", f"gpu={last}")
    assert "SM, set: –" in one
    assert set(one["SM · node-9 · GPU 10"]["y"]) - {None} == {1400.0}
    assert "SM · node-9 · GPU 0" not in one
    assert f"groupBy=gpu&gpu={last}" in one[""]["csv"]
    use = traces(client, large, "utilisation", f"gpu={last}")
    assert set(use) - {""} == {"Compute", "GPU memory", "main-0 · node-9 · GPU 10"}
    memory = traces(client, large, "memory", "gpu=each")
    assert {"GPU 0", "GPU 1", "GPU 10"} <= set(memory)
    assert {"GPU 0"} & set(traces(client, large, "memory", "")) == set()
    html = client.get(f"/w/team-a/jobs/{large.pk}?tab=metrics&gpu={last}").content.decode()
    assert f'<option value="{last}" selected>node-9 · GPU 10</option>' in html
    assert '<option value="each">' in html
    assert f"gpu={last}" in html.partition('id="charts"')[2].partition("data-chart-url=")[2][:300]


def test_the_form_is_not_there_for_a_single_gpu(bench: Bench, client: Client) -> None:
    name_pods()
    client.force_login(bench.world.viewer)
    html = client.get(f"/w/team-a/jobs/{bench.sliced.pk}").content.decode()
    assert 'name="gpu"' not in html
    assert bench.sliced.roles.get().gpu_mode == GpuRequestMode.SLICE


def test_reasons_for_lower_clocks_are_a_timeline_in_words(bench: Bench, large: Job, client: Client) -> None:
    client.force_login(bench.world.viewer)
    found = traces(client, large, "reasons", "")
    table = found[""]["figure"]["layout"]["meta"]["table"]
    moments = {minute: f"{START + minute * MINUTE:%Y-%m-%dT%H:%M:%SZ}" for minute in (5, 6, 7, 8)}
    assert table["head"] == ["Reasons for lower clocks", "From", "To"]
    assert table["rows"] == [
        ["Power limit (software)", moments[6], moments[7]],
        ["Thermal slowdown (hardware)", moments[5], moments[8]],
    ]
    bar = found["Thermal slowdown (hardware)"]
    assert bar["x"] == [moments[5], moments[6], moments[7], moments[8]]
    assert "GPU idle" not in found
    second = job_gpus(bench.world.viewer, large)[1][0]
    none = traces(client, large, "reasons", f"gpu={second}")
    assert set(none) == {""}
    assert none[""]["summary"] == "Reasons for lower clocks: None", "measured, and none was seen"
    before = "from=2026-03-01T00:00:00Z&to=2026-03-01T01:00:00Z"
    empty = client.get(f"/w/team-a/jobs/{large.pk}/charts/reasons?{before}")
    assert empty.json()["summary"] == "Reasons for lower clocks: no data"


def test_the_api_reads_one_gpu_of_a_job_and_what_was_seen(bench: Bench, large: Job) -> None:
    base = {"level": "job", "id": large.pk, "start": START.isoformat(), "step": 600,
            "end": (START + 20 * MINUTE).isoformat()}  # fmt: skip
    first = job_gpus(bench.world.viewer, large)[0][0]
    answer = get(bench.world.viewer, measure="throttle_reasons", statistic="seen", gpu=first, **base)
    assert answer.json()["series"][0]["values"] == [POWER, 0]
    refused = get(bench.world.platform_admin, **{**base, "level": "gpu", "id": first, "gpu": first})
    assert refused.status_code == 400
    wrong = get(bench.world.viewer, measure="sm_clock_mhz", statistic="seen", **base)
    assert wrong.status_code == 400
