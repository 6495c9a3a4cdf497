"""Readings and log lines of the simulated cluster."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.backends.base import DeviceSample, PodPhase, TaskRef
from clusters.backends.simulated import faults


def cards(sim: Any) -> dict[str, DeviceSample]:
    return {sample.device_uuid: sample for sample in sim.backend.read_samples() if sample.pod is None}


def slices(sim: Any) -> dict[str, DeviceSample]:
    return {sample.pod.name: sample for sample in sim.backend.read_samples() if sample.pod is not None}


def test_an_idle_card_is_cool_and_empty(sim: Any) -> None:
    readings = cards(sim)
    assert len(readings) == 10
    for sample in readings.values():
        assert sample.utilisation_percent == 0
        assert sample.memory_used_mib < 10
        assert 30 <= (sample.temperature_c or 0) <= 35
    assert {cards(sim)[card.uuid].power_w for card in sim.node("whole-01").devices} == {55}


def test_a_busy_card_stays_within_its_bounds_and_moves_smoothly(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={"gpu_utilisation": 0.7}))
    card = sim.spec("x").devices[0]
    sim.until("a", PodPhase.RUNNING)
    curve = []
    for _ in range(300):
        curve.append(cards(sim)[card.uuid])
        sim.pass_time(1)
    for sample in curve:
        assert 0 <= sample.utilisation_percent <= 100
        assert sample.memory_used_mib <= card.memory_mib
        assert 30 <= (sample.temperature_c or 0) <= 80
        assert 55 <= (sample.power_w or 0) <= 400
    settled = [sample.utilisation_percent for sample in curve[100:]]
    assert 60 < sum(settled) / len(settled) < 80
    assert len({round(value, 1) for value in settled}) > 20
    steps = [abs((b.temperature_c or 0) - (a.temperature_c or 0)) for a, b in pairwise(curve)]
    assert max(steps) < 1.5
    assert (curve[5].temperature_c or 0) + 10 < (curve[200].temperature_c or 0)  # heat follows load


def test_a_card_cools_down_after_its_pod(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 300}))
    uuid = sim.spec("x").devices[0].uuid
    sim.until("a", PodPhase.SUCCEEDED, limit_s=400)
    hot = cards(sim)[uuid]
    sim.pass_time(30)
    warm = cards(sim)[uuid]
    sim.pass_time(1200)
    cold = cards(sim)[uuid]
    assert (hot.utilisation_percent, warm.utilisation_percent) == (0, 0)
    assert (hot.temperature_c or 0) > (warm.temperature_c or 0) > (cold.temperature_c or 0)
    assert cold.power_w == 55


def test_a_slice_keeps_to_its_share(sim: Any) -> None:
    sim.backend.ensure_pod(sim.sliced("a", cores=30, memory_mib=10_000, simulate={"gpu_utilisation": 1.0}))
    sim.backend.ensure_pod(sim.sliced("b", cores=70, memory_mib=20_000, simulate={"gpu_utilisation": 1.0}))
    sim.until("a", PodPhase.RUNNING)
    sim.until("b", PodPhase.RUNNING)
    for _ in range(60):
        sim.pass_time(10)
        parts = slices(sim)
        assert parts["a"].utilisation_percent <= 30
        assert parts["b"].utilisation_percent <= 70
        assert parts["a"].memory_used_mib <= 10_000
        whole = cards(sim)[parts["a"].device_uuid]
        total = parts["a"].utilisation_percent + parts["b"].utilisation_percent
        assert abs(whole.utilisation_percent - total) < 0.1
    assert parts["a"].pod == TaskRef("team", "a", sim.look()["a"].ref.uid)
    assert parts["a"].temperature_c is None
    assert parts["a"].utilisation_percent > 24


def test_reading_twice_gives_the_same_and_needs_few_queries(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a"))
    sim.pass_time(30)
    first = list(sim.backend.read_samples())
    with CaptureQueriesContext(connection) as queries:
        assert list(sim.backend.read_samples()) == first
    assert len(queries) <= 4


def test_failed_nodes_and_cards_give_no_reading(sim: Any) -> None:
    faults.node_fail(sim.cluster.pk, "whole-01")
    faults.device_fail(sim.cluster.pk, sim.node("whole-02").devices[0].uuid)
    assert {sample.node for sample in sim.backend.read_samples()} == {
        "whole-02",
        "whole-03",
        "slice-01",
        "slice-02",
    }
    assert len(cards(sim)) == 7


def test_logs_follow_the_life_of_the_pod(sim: Any) -> None:
    ref = TaskRef("team", "a")
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 60, "exit_code": 2}))
    assert list(sim.backend.read_logs(ref)) == []
    sim.until("a", PodPhase.FAILED)
    sim.pass_time(1)
    lines = list(sim.backend.read_logs(ref))
    assert lines == list(sim.backend.read_logs(ref, follow=True))
    assert "python train.py on whole-01" in lines[0]
    assert sum("loss" in line for line in lines) == 6
    assert lines[-1].endswith("exit code 2")


def test_logs_go_on_after_the_time_of_any_line(sim: Any) -> None:
    faults.set_speed(sim.cluster.pk, 30)  # then few of the times are whole milliseconds
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 60}))
    sim.until("a", PodPhase.SUCCEEDED)
    sim.pass_time(1)
    lines = list(sim.backend.read_logs(TaskRef("team", "a")))
    for told, line in enumerate(lines, 1):
        since = datetime.fromisoformat(line.split(" ")[0])
        assert list(sim.backend.read_logs(TaskRef("team", "a"), since=since)) == lines[told:]


def test_following_logs_ends_with_the_pod(sim: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("clusters.backends.simulated.logs.time.sleep", sim.pass_time)
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 60}))
    lines = list(sim.backend.read_logs(TaskRef("team", "a"), follow=True))
    sim.pass_time(1)
    assert lines == list(sim.backend.read_logs(TaskRef("team", "a")))
