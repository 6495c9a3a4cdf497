"""Injected faults, and the reaction of a kubelet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.base import (
    BackendUnavailable,
    DeviceGrant,
    DeviceSample,
    NodeObservation,
    PodPhase,
    TaskRef,
)
from clusters.backends.simulated import faults
from clusters.gpu.batches import AgentReport, EventKind
from foundation.core.errors import Invalid, NotFound

GPU = "OutOfnvidia.com/gpu"
ADMISSION = "UnexpectedAdmissionError"


def admitted(sim: Any, spec: Any) -> str:
    """Return why the kubelet failed a pod; empty if it admitted it."""
    sim.backend.ensure_pod(spec)
    return str(sim.look()[spec.ref.name].reason)


def test_the_kubelet_fails_what_its_node_cannot_hold(sim: Any) -> None:
    node = sim.node("whole-01")
    assert admitted(sim, sim.spec("cpu", cpu_millicores=node.cpu_millicores + 1)) == "OutOfcpu"
    assert admitted(sim, sim.spec("memory", memory_mib=node.memory_mib + 1)) == "OutOfmemory"
    assert admitted(sim, sim.spec("fits", cards=2, cpu_millicores=node.cpu_millicores)) == ""
    assert admitted(sim, sim.spec("card")) == GPU
    assert admitted(sim, sim.spec("sum", devices=(), cpu_millicores=1)) == "OutOfcpu"
    assert "requested: 1, used: 128000, capacity: 128000" in sim.look()["sum"].message


def test_the_kubelet_fails_what_its_node_does_not_have(sim: Any) -> None:
    assert admitted(sim, sim.spec("a", node="whole-01", cards=0, ref=TaskRef("team", "a"))) == ""
    assert admitted(sim, replace(sim.spec("b"), node="nowhere")) == ADMISSION
    elsewhere = replace(sim.spec("c", node="whole-02"), node="whole-01")
    assert admitted(sim, elsewhere) == ADMISSION
    twice = sim.spec("d").devices * 2
    assert admitted(sim, sim.spec("d", devices=twice)) == ADMISSION


def test_slices_fill_a_card_by_cores_and_by_memory(sim: Any) -> None:
    assert admitted(sim, sim.sliced("a", cores=60, memory_mib=20_000)) == ""
    assert admitted(sim, sim.sliced("cores", cores=41, memory_mib=1)) == GPU
    assert admitted(sim, sim.sliced("memory", cores=1, memory_mib=26_069)) == GPU
    assert admitted(sim, sim.sliced("rest", cores=40, memory_mib=26_068)) == ""


def test_pods_in_one_call_are_admitted_one_after_the_other(sim: Any) -> None:
    sim.backend.ensure_many([sim.spec("a", cards=2), sim.spec("b")])
    seen = sim.look()
    assert (seen["a"].reason, seen["b"].reason) == ("", GPU)


def test_pods_of_a_failed_node_are_frozen_until_it_recovers(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("short", simulate={"run_s": 30, "exit_code": 4}))
    sim.backend.ensure_pod(sim.spec("long", devices=(sim.spec("x", cards=2).devices[1],), simulate={}))
    sim.until("short", PodPhase.RUNNING)
    sim.until("long", PodPhase.RUNNING)
    faults.node_fail(sim.cluster.pk, "whole-01")
    faults.node_fail(sim.cluster.pk, "whole-01")
    assert not sim.node("whole-01").ready
    sim.pass_time(600)
    assert sim.look()["short"].phase is PodPhase.RUNNING
    assert admitted(sim, sim.spec("late")) == ADMISSION
    faults.node_recover(sim.cluster.pk, "whole-01")
    seen = sim.look()
    assert (seen["short"].phase, seen["short"].exit_code) == (PodPhase.FAILED, 4)
    assert (seen["long"].phase, seen["long"].reason) == (PodPhase.FAILED, "NodeLost")
    assert sim.node("whole-01").ready
    assert admitted(sim, sim.spec("after", cards=2)) == ""


def test_a_pod_removed_from_a_failed_node_is_lost_and_then_gone(sim: Any) -> None:
    for name, card in (("before", 0), ("during", 1)):
        device = sim.spec("x", cards=2).devices[card]
        sim.backend.ensure_pod(sim.spec(name, devices=(device,), simulate={}))
        sim.until(name, PodPhase.RUNNING)
    sim.backend.remove_pod(TaskRef("team", "before"), 600)
    faults.node_fail(sim.cluster.pk, "whole-01")
    sim.pass_time(1200)
    assert sim.look()["before"].phase is PodPhase.RUNNING  # no kubelet confirms the end
    sim.backend.remove_pod(TaskRef("team", "during"), 30)
    assert (sim.look()["during"].phase, sim.look()["during"].reason) == (PodPhase.FAILED, "NodeLost")
    sim.until("during", PodPhase.REMOVED, limit_s=31)
    faults.node_recover(sim.cluster.pk, "whole-01")
    assert sim.look()["before"].phase is PodPhase.REMOVED


def test_a_removal_repeated_during_the_failure_comes_to_an_end(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={}))
    sim.until("a", PodPhase.RUNNING)
    sim.backend.remove_pod(TaskRef("team", "a"), 600)
    faults.node_fail(sim.cluster.pk, "whole-01")
    sim.backend.remove_pod(TaskRef("team", "a"), 30)
    assert sim.until("a", PodPhase.REMOVED, limit_s=31).phase is PodPhase.REMOVED


def test_a_cordoned_node_says_so_and_recovers(sim: Any) -> None:
    cursor = sim.backend.observe_pods(None).cursor
    faults.node_cordon(sim.cluster.pk, "whole-02")
    (seen,) = sim.backend.observe_pods(cursor).observations
    assert isinstance(seen, NodeObservation)
    assert seen.fact is not None
    assert seen.fact.cordoned
    assert seen.fact.ready
    assert len(seen.fact.devices) == 2
    faults.node_recover(sim.cluster.pk, "whole-02")
    assert not sim.node("whole-02").cordoned


def test_a_failed_card_fails_its_pods_and_no_others(sim: Any) -> None:
    first, second = sim.spec("x", cards=2).devices
    sim.backend.ensure_pod(sim.spec("hit", devices=(first,)))
    sim.backend.ensure_pod(sim.spec("spared", devices=(second,)))
    sim.until("hit", PodPhase.RUNNING)
    faults.device_fail(sim.cluster.pk, first.uuid)
    faults.device_fail(sim.cluster.pk, first.uuid)
    hit = sim.look()["hit"]
    assert (hit.phase, hit.reason, hit.exit_code) == (PodPhase.FAILED, "DeviceUnhealthy", 134)
    assert first.uuid in hit.message
    assert sim.until("spared", PodPhase.RUNNING)
    assert [card.healthy for card in sim.node("whole-01").devices] == [False, True]
    assert admitted(sim, sim.spec("next", devices=(DeviceGrant(first.uuid, 100, 1),))) == ADMISSION
    faults.device_recover(sim.cluster.pk, first.uuid)
    assert admitted(sim, sim.spec("again", devices=(first,))) == ""


def test_a_card_that_fails_during_a_removal_does_not_stop_it(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={}))
    sim.until("a", PodPhase.RUNNING)
    sim.backend.remove_pod(TaskRef("team", "a"), 300)
    faults.device_fail(sim.cluster.pk, sim.spec("x").devices[0].uuid)
    assert sim.look()["a"].phase is PodPhase.FAILED
    assert sim.until("a", PodPhase.REMOVED, limit_s=301)


def test_an_api_server_that_does_not_answer_loses_nothing(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 30}))
    faults.set_reachable(sim.cluster.pk, False)
    for call in (
        sim.backend.read_inventory,
        sim.backend.read_samples,
        lambda: sim.backend.observe_pods(None),
        lambda: sim.backend.ensure_pod(sim.sliced("b", cores=1)),
        lambda: sim.backend.remove_pod(TaskRef("team", "a"), 1),
    ):
        with pytest.raises(BackendUnavailable):
            call()
    sim.pass_time(60)
    faults.set_reachable(sim.cluster.pk, True)
    assert sim.look()["a"].phase is PodPhase.SUCCEEDED


def test_faults_name_what_is_not_there(sim: Any) -> None:
    with pytest.raises(NotFound, match="no node 'x'"):
        faults.node_fail(sim.cluster.pk, "x")
    with pytest.raises(NotFound, match="GPU 'x' not found"):
        faults.device_fail(sim.cluster.pk, "x")
    for speed in (0, -1, float("nan"), float("inf")):
        with pytest.raises(Invalid, match="speed must be"):
            faults.set_speed(sim.cluster.pk, speed)


def reports(sim: Any) -> dict[str, AgentReport]:
    return {report.node: report for report in sim.backend.read_reports()}


def test_a_throttled_card_is_hot_and_slow_until_it_recovers(sim: Any) -> None:
    uuid = sim.node("whole-01").devices[0].uuid

    def look() -> DeviceSample:
        return next(one for one in sim.backend.read_samples() if one.device_uuid == uuid and one.pod is None)

    sim.backend.ensure_pod(sim.spec("a", simulate={"gpu_utilisation": 0.7}))
    sim.until("a", PodPhase.RUNNING)
    sim.pass_time(300)
    cool = look()
    assert cool.values["throttle_reasons"] == 0
    faults.device_throttle(sim.cluster.pk, uuid)
    hot = look()
    assert hot.values["throttle_reasons"] == 0x40
    assert hot.values["sm_clock_mhz"] < 0.7 * cool.values["sm_clock_mhz"]
    assert (hot.temperature_c or 0) > 85 > (cool.temperature_c or 0)
    faults.device_recover(sim.cluster.pk, uuid)
    assert look() == cool


def test_a_card_gives_what_its_model_supports_and_names_the_rest(sim: Any) -> None:
    told = {one.node: (one.device_uuid, one.values) for one in sim.backend.read_samples()}
    for node, known, refused in (
        ("whole-01", "fp16_active_percent", "encoder_percent"),
        ("slice-01", "encoder_percent", "fp16_active_percent"),
    ):
        uuid, values = told[node]
        unsupported = reports(sim)[node].unsupported[uuid]
        assert known in values and known not in unsupported
        assert refused not in values and refused in unsupported


def test_processes_name_their_pods_and_a_stray_one_names_none(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a"))
    sim.until("a", PodPhase.RUNNING)
    held, free = (device.uuid for device in sim.node("whole-01").devices[:2])
    faults.device_stray(sim.cluster.pk, free)
    (batch,) = reports(sim)["whole-01"].batches
    pods = {part.device: part.pod_uid for part in batch.processes}
    assert pods == {held: sim.look()["a"].ref.uid, free: None}
    sample = next(one for one in sim.backend.read_samples() if one.device_uuid == free)
    stray = next(part for part in batch.processes if part.device == free)
    assert sample.memory_used_mib >= stray.values["memory_used_mib"] > 0
    assert sample.utilisation_percent == stray.values["utilization_percent"] > 0
    faults.device_recover(sim.cluster.pk, free)
    assert [part.device for part in reports(sim)["whole-01"].batches[0].processes] == [held]


def test_one_pod_exceeds_its_slice_and_those_beside_it_do_not(sim: Any) -> None:
    uuid = sim.node("slice-01").devices[0].uuid
    sim.backend.ensure_pod(sim.sliced("a", cores=30, memory_mib=8192, simulate={"gpu_utilisation": 0.4}))
    sim.until("a", PodPhase.RUNNING)
    sim.pass_time(5)
    sim.backend.ensure_pod(sim.sliced("b", cores=30, memory_mib=8192, simulate={"gpu_utilisation": 0.4}))
    sim.until("b", PodPhase.RUNNING)
    sim.pass_time(300)

    def over() -> dict[str, tuple[bool, bool, bool]]:
        """Return for each pod whether compute, memory and its limit are above its grant."""
        samples = {one.pod.name: one for one in sim.backend.read_samples() if one.pod is not None}
        (batch,) = reports(sim)["slice-01"].batches
        pods = {sim.look()[name].ref.uid: name for name in samples}
        for process in batch.processes:
            values = samples[pods[process.pod_uid or ""]]
            told = process.values["utilization_percent"], process.values["memory_used_mib"]
            assert told == (values.utilisation_percent, values.memory_used_mib)
        return {
            name: (
                one.utilisation_percent > 1.1 * 30,
                one.memory_used_mib > 8192,
                one.values["memory_enforced_mib"] > one.values["memory_limit_mib"],
            )
            for name, one in samples.items()
        }

    within = (False, False, False)
    assert over() == {"a": within, "b": within}
    faults.device_overuse(sim.cluster.pk, uuid)
    assert over() == {"a": (True, True, True), "b": within}
    card = next(one for one in sim.backend.read_samples() if one.device_uuid == uuid and one.pod is None)
    parts = [one for one in sim.backend.read_samples() if one.device_uuid == uuid and one.pod is not None]
    assert card.memory_used_mib >= sum(one.memory_used_mib for one in parts)
    faults.device_recover(sim.cluster.pk, uuid)
    assert over() == {"a": within, "b": within}


def test_an_xid_error_is_an_event_at_its_time_and_the_card_goes_on(sim: Any) -> None:
    uuid = sim.node("whole-02").devices[0].uuid
    assert reports(sim)["whole-02"].batches[0].events == ()
    faults.device_xid(sim.cluster.pk, uuid, 94)
    first = reports(sim)["whole-02"].batches[0].events
    sim.pass_time(600)
    assert reports(sim)["whole-02"].batches[0].events == first
    assert [(event.device, event.kind, event.code) for event in first] == [(uuid, EventKind.XID, 94)]
    sample = next(one for one in sim.backend.read_samples() if one.device_uuid == uuid)
    assert sample.values["ecc_uncorrected"] == 1
    assert sim.node("whole-02").devices[0].healthy


def test_a_silent_node_is_ready_and_gives_no_measurement_for_an_hour(sim: Any) -> None:
    def measured() -> bool:
        nodes = {sample.node for sample in sim.backend.read_samples()}
        assert ("whole-01" in nodes) == ("whole-01" in reports(sim))
        return "whole-01" in nodes

    faults.node_silence(sim.cluster.pk, "whole-01")
    assert (measured(), sim.node("whole-01").ready) == (False, True)
    sim.pass_time(3599)
    assert not measured()
    sim.pass_time(2)
    assert measured()
    faults.node_silence(sim.cluster.pk, "whole-01")
    faults.node_recover(sim.cluster.pk, "whole-01")
    assert measured()
