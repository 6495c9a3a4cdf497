"""Charts that a Prometheus server fills where the platform's own store has nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest

from foundation.core.actor import SYSTEM
from scheduling.models import Allocation
from telemetry.models import Channel, Scope, TelemetrySource
from telemetry.series import MeasuredThing, job_series, measure_series, node_series
from telemetry.series.windows.types import SeriesSet
from telemetry.sources.history import Buckets, SliceKey
from telemetry.store.times import to_ms
from tests.fixtures.http_receiver import Receiver, run_receiver
from tests.integration.telemetry.conftest import START, Bench

STEP = 60


@dataclass
class ScriptedServer:
    """A server that knows 42 of everything it is asked for, in every bucket."""

    devices: list[Collection[str]] = field(default_factory=list)
    slices: list[Collection[SliceKey]] = field(default_factory=list)

    def device_means(self, measure: str, devices: Collection[str], buckets: Buckets) -> Any:
        self.devices.append(set(devices))
        return {device: _all(buckets) for device in devices}

    def slice_means(self, measure: str, slices: Collection[SliceKey], buckets: Buckets) -> Any:
        self.slices.append(set(slices))
        return {key: _all(buckets) for key in slices}


def _all(buckets: Buckets) -> dict[int, float]:
    return dict.fromkeys(range(buckets.from_ms, buckets.until_ms, buckets.step_ms), 42.0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    told = ScriptedServer()
    monkeypatch.setattr("telemetry.sources.history.history_of", lambda cluster_id: told)
    return told


def read(bench: Bench, what: str, minutes: int = 10) -> SeriesSet:
    end = bench.clock_now()
    start = end - timedelta(minutes=minutes)
    if what == "node":
        return node_series(SYSTEM, bench.world.nodes[0], start, end, STEP)
    return job_series(SYSTEM, getattr(bench, what), start, end, STEP)


def values(found: SeriesSet, measure: str, subject: str) -> list[float | None]:
    line = found.get(measure, subject)
    return [] if line is None else [value for _, value in line.points]


def measured(thing: MeasuredThing, measure: str, start: datetime, **more: Any) -> list[float | None]:
    (line,) = measure_series(
        SYSTEM, thing, [measure], start, START + timedelta(minutes=10), STEP, **more
    ).series
    return [value for _, value in line.points]


def test_measures_of_gpus_are_filled_where_there_is_no_reading(bench: Bench, server: ScriptedServer) -> None:
    bench.ticks(6)  # the first minute has readings of its own, without clocks
    bench.clock.move_to(START + timedelta(minutes=10))
    gpu = MeasuredThing("gpu", bench.device(0).pk)
    assert measured(gpu, "temperature_c", START) == [40.0, *[42.0] * 7, None, None]
    assert measured(gpu, "sm_clock_mhz", START) == [None, *[42.0] * 7, None, None], "it was not measured then"
    assert {device for asked in server.devices for device in asked} == {bench.device(0).uuid}
    server.devices.clear()
    assert measured(gpu, "temperature_c", START, statistic="max") == [40.0, *[None] * 9]
    assert measured(gpu, "energy_j", START) == [6000.0, *[None] * 9], "100 W for the first minute"
    assert measured(MeasuredThing("node", bench.world.nodes[0].pk), "power_w", START)[1:] == [None] * 9
    assert server.devices == [], "a mean is no peak and no counter, and of sums it is not known of what"


def test_measures_of_a_job_are_filled_for_the_time_of_its_hold(bench: Bench, server: ScriptedServer) -> None:
    bench.ticks(2)
    hold_for(bench, began=timedelta(minutes=2), ended=timedelta(minutes=5, seconds=30))
    whole = MeasuredThing("job", bench.whole.pk)
    assert measured(whole, "power_w", START) == [None, None, 42.0, 42.0, 42.0, *[None] * 5]
    assert server.devices[-1] == {bench.device(1).uuid}
    shared = MeasuredThing("job", bench.sliced.pk)
    assert measured(shared, "power_w", START) == [None] * 10, "others use that GPU as well"


def hold_for(bench: Bench, *, began: timedelta, ended: timedelta | None = None) -> None:
    """Ten minutes after START; every hold began and ended so long after START."""
    Allocation.unscoped.update(created_at=START + began, released_at=None if ended is None else START + ended)
    bench.clock.shift(timedelta(minutes=10))


def test_only_buckets_without_a_reading_are_filled(bench: Bench, server: ScriptedServer) -> None:
    bench.ticks(6)  # the first minute has readings of its own
    bench.clock.move_to(START + timedelta(minutes=10))
    card = str(bench.device(0).pk)
    found = values(read(bench, "node"), "card_utilisation", card)
    assert found == [30.0, *[42.0] * 7, None, None]
    assert server.devices[0] == {bench.device(index).uuid for index in range(8)}


def test_a_pod_with_a_whole_gpu_gets_nothing_of_the_time_before_and_after_it(
    bench: Bench, server: ScriptedServer
) -> None:
    bench.ticks(6)
    hold_for(bench, began=timedelta(minutes=3), ended=timedelta(minutes=6))
    bench.clock.move_to(START + timedelta(minutes=10))
    found = values(read(bench, "whole"), "utilisation", "average")
    assert found == [90.0, None, None, 42.0, 42.0, 42.0, None, None, None, None]
    assert (server.devices[0], server.slices) == ({bench.device(1).uuid}, [])


def test_a_slice_is_asked_for_by_its_own_pod_alone(bench: Bench, server: ScriptedServer) -> None:
    bench.ticks(6)
    hold_for(bench, began=timedelta(0))
    bench.clock.move_to(START + timedelta(minutes=10))
    found = read(bench, "sliced")
    holds = Allocation.unscoped.filter(task__job=bench.sliced)
    gpu = bench.device(0).uuid
    assert server.slices[0] == {(gpu, hold.namespace, hold.pod_name) for hold in holds}
    assert server.devices == []
    assert values(found, "utilisation", "average")[1:8] == [42.0] * 7
    granted = values(found, "memory_granted", "total")
    assert granted[1:8] == [granted[0]] * 7


def test_a_chart_without_holes_asks_nothing(bench: Bench, server: ScriptedServer) -> None:
    bench.ticks(60)
    bench.clock.move_to(START + timedelta(minutes=10))
    for what in ("sliced", "whole"):
        read(bench, what)
    assert (server.devices, server.slices) == ([], [])


@pytest.fixture
def stub(bench: Bench, settings: Any) -> Iterator[Receiver]:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]
    with run_receiver() as receiver:
        TelemetrySource.unscoped.create(
            cluster=bench.world.cluster,
            name="prom",
            kind="prometheus",
            address=receiver.url,
            history=True,
            matchers={"cluster": "one"},
        )
        yield receiver


def test_what_is_sent_is_a_named_query_with_the_filter_of_the_viewer(bench: Bench, stub: Receiver) -> None:
    bench.ticks(6)
    hold_for(bench, began=timedelta(0))
    bench.clock.move_to(START + timedelta(minutes=10))
    stub.body = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
    read(bench, "sliced")
    assert {request.path for request in stub.requests} == {"/api/v1/query_range"}
    asked = parse_qs(stub.requests[0].body.decode())
    (query,) = asked["query"]
    holds = list(Allocation.unscoped.filter(task__job=bench.sliced))
    assert {hold.namespace for hold in holds} == {holds[0].namespace}
    selectors = query.count("avg_over_time(")
    assert selectors > 1
    assert query.count(f'namespace="{holds[0].namespace}"') == selectors
    assert query.count('cluster="one"') == selectors
    assert asked["step"] == ["60.000"] and asked["start"] == [f"{to_ms(START) // 1000 + 59}.999"]


def test_a_server_that_fails_leaves_the_chart_as_it_is_and_is_left_alone(
    bench: Bench, stub: Receiver
) -> None:
    bench.ticks(6)
    bench.clock.move_to(START + timedelta(minutes=10))
    stub.status, stub.body = 503, b""
    for _ in range(3):
        found = values(read(bench, "node"), "card_utilisation", str(bench.device(0).pk))
        assert found == [30.0, *[None] * 9]
    assert len(stub.requests) == 1
    assert Channel.unscoped.filter(scope=Scope.CARD).exists()
