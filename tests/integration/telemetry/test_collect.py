"""Collecting from clusters: readings, or a gap with its cause."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from clusters.backends.base import BackendUnavailable, DeviceSample
from clusters.gpu.batches import AgentReport, DeviceValues, MeasureBatch
from clusters.models import Cluster, ClusterHealth
from telemetry import tasks
from telemetry.models import NodeAgent, Reading, TelemetryGap, Tick
from telemetry.series import cluster_series
from telemetry.services import collect
from telemetry.services.collect import samples_collect
from telemetry.store.ingest import store_batches
from telemetry.store.times import to_ms
from tests.builders import clusters
from tests.integration.telemetry.conftest import START, Bench


class Scripted:
    """A replacement of a backend: it answers with the given readings, or fails half-way."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.failing = ""
        self.silent = False

    def read_samples(self) -> Iterator[DeviceSample]:
        at = self.bench.clock_now()
        for sample in [] if self.silent else self.bench.batch(at):
            yield sample
            if self.failing:
                raise BackendUnavailable(self.failing)

    def read_reports(self) -> tuple[AgentReport, ...]:
        return ()


@pytest.fixture
def backend(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    made = Scripted(bench)

    def backend_for(cluster: Cluster) -> Scripted:
        if cluster.name != bench.world.cluster.name:
            raise BackendUnavailable("no route to host")
        return made

    monkeypatch.setattr(collect, "backend_for", backend_for)
    return made


def test_a_silence_is_a_gap_with_its_cause_and_not_a_zero(bench: Bench, backend: Scripted) -> None:
    for tick in range(6):
        bench.clock.move_to(START + timedelta(seconds=10 * tick))
        backend.failing = "connection refused" if tick in (2, 3) else ""
        tasks.collect_samples()
    gap = TelemetryGap.unscoped.get()
    assert (gap.started_at, gap.ended_at) == (START + timedelta(seconds=20), START + timedelta(seconds=40))
    assert (gap.cause, gap.message) == ("unreachable", "connection refused")
    # Nothing of the half-read batches was stored.
    assert Tick.unscoped.filter(channel__scope="cluster").count() == 4
    end = START + timedelta(minutes=1)
    bench.clock.move_to(end)
    found = cluster_series(bench.world.platform_admin, bench.world.cluster, START, end, 10)
    line = found.get("utilisation")
    assert line is not None
    assert [value for _, value in line.points] == [40.0, 40.0, None, None, 40.0, 40.0]
    assert [(gap.cause, gap.message, gap.cluster) for gap in found.gaps] == [
        ("unreachable", "connection refused", "sim")
    ]


def test_an_unreachable_cluster_is_not_asked(bench: Bench, backend: Scripted) -> None:
    Cluster.unscoped.update(health=ClusterHealth.UNREACHABLE, health_message="handshake failed")
    assert samples_collect() == 0
    assert samples_collect() == 0
    assert TelemetryGap.unscoped.get().message == "handshake failed"


def test_a_cluster_never_reached_has_no_gap(bench: Bench, backend: Scripted) -> None:
    Cluster.unscoped.update(health=ClusterHealth.UNKNOWN)
    assert samples_collect() == 0
    assert not TelemetryGap.unscoped.exists()


def test_a_cluster_without_readings_is_a_gap_of_its_own_kind(bench: Bench, backend: Scripted) -> None:
    backend.silent = True
    samples_collect()
    assert TelemetryGap.unscoped.get().cause == "empty"


def test_one_dead_cluster_does_not_stop_the_others(bench: Bench, backend: Scripted) -> None:
    other = clusters.cluster(bench.world.cell, "alpha")
    assert samples_collect() == 6
    assert TelemetryGap.unscoped.get().cluster == other
    assert samples_collect() == 0  # the same instant again: nothing new
    assert Reading.unscoped.count() == 6


def test_an_unexpected_error_is_raised_after_all_had_their_turn(
    bench: Bench, backend: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters.cluster(bench.world.cell, "alpha")

    def backend_for(cluster: Cluster) -> Scripted:
        if cluster.name == "alpha":
            raise ZeroDivisionError
        return backend

    monkeypatch.setattr(collect, "backend_for", backend_for)
    with pytest.raises(ExceptionGroup) as caught:
        samples_collect()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
    assert Reading.unscoped.count() == 6


def test_a_cluster_without_cards_has_no_gap(bench: Bench, backend: Scripted) -> None:
    backend.silent = True
    Cluster.unscoped.get().nodes.update(present=False)
    assert samples_collect() == 0
    assert not TelemetryGap.unscoped.exists()


def push(bench: Bench, *measured_at: datetime) -> None:
    """Store what an agent measured at these times, now."""
    device = DeviceValues(bench.device(0).uuid, {"utilization_percent": 50.0})
    batches = [MeasureBatch("node-1", to_ms(at), devices=(device,)) for at in measured_at]
    store_batches(bench.world.cluster.pk, batches)


def test_a_gap_covers_nothing_that_an_agent_delivers_late(bench: Bench, backend: Scripted) -> None:
    """The agent could not reach the platform, which ran: its stored readings arrive afterwards."""
    backend.silent = True
    samples_collect()
    late = [START + timedelta(minutes=10, seconds=15 * number) for number in range(40)]
    bench.clock.move_to(START + timedelta(hours=1))
    push(bench, *late)
    ends = [(gap.started_at, gap.ended_at) for gap in TelemetryGap.unscoped.order_by("started_at")]
    assert ends == [(START, START + timedelta(minutes=10)), (START + timedelta(minutes=20), None)]
    live = START + timedelta(hours=1, seconds=20)
    bench.clock.move_to(live + timedelta(seconds=5))
    push(bench, live)
    ends = [(gap.started_at, gap.ended_at) for gap in TelemetryGap.unscoped.order_by("started_at")]
    assert ends[1:] == [(START + timedelta(minutes=20), live)], "over since the first measurement"
    push(bench, START + timedelta(minutes=30))
    assert TelemetryGap.unscoped.count() == 3
    assert {gap.cause for gap in TelemetryGap.unscoped.all()} == {"empty"}


def test_a_cluster_whose_agents_push_has_no_gap(bench: Bench, backend: Scripted) -> None:
    backend.silent = True
    samples_collect()
    assert TelemetryGap.unscoped.get().ended_at is None
    push(bench, START + timedelta(seconds=10))
    Cluster.unscoped.update(health=ClusterHealth.UNREACHABLE)
    samples_collect()
    assert TelemetryGap.unscoped.get().ended_at == START + timedelta(seconds=10)
    bench.clock.move_to(START + timedelta(minutes=3))
    Cluster.unscoped.update(health=ClusterHealth.HEALTHY)
    samples_collect()
    assert TelemetryGap.unscoped.filter(ended_at=None).get().cause == "empty"


@pytest.mark.parametrize(
    ("away", "agent", "lost"), [(30, False, 0), (600, False, 600), (600, True, 0), (9000, True, 1800)]
)
def test_an_absence_of_the_platform_is_a_gap(
    bench: Bench, backend: Scripted, away: int, agent: bool, lost: int
) -> None:
    samples_collect()
    if agent:
        NodeAgent.unscoped.create(node=bench.world.nodes[0], seen_at=START, devices_at=START)
    bench.clock.move_to(START + timedelta(seconds=away))
    samples_collect()
    samples_collect()
    gaps = [(gap.cause, gap.started_at, gap.ended_at) for gap in TelemetryGap.unscoped.all()]
    assert gaps == ([("platform", START, START + timedelta(seconds=lost))] if lost else [])
