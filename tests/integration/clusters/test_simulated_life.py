"""Time on the simulated cluster: speed, order, determinism, removal, tombstones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.backends.base import BackendUnavailable, OutcomeKind, PodPhase, TaskRef
from clusters.backends.simulated import SimulatedBackend, build_cluster, faults
from clusters.backends.simulated.life import SOONEST_S
from clusters.models import Cell, Cluster, SimulatedCluster, SimulatedNode, SimulatedPod
from foundation.core import clock


def life_of(harness: Any, name: str) -> list[tuple[str, Any]]:
    """Return the phases of a pod and their start times, in steps of half a second."""
    phases: dict[str, Any] = {}
    for _ in range(40):
        seen = harness.look().get(name)
        if seen is not None:
            phases[seen.phase.value] = seen.at
        harness.pass_time(0.5)
    return list(phases.items())


def test_a_pod_passes_through_every_phase(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 10}))
    assert [phase for phase, _ in life_of(sim, "a")] == ["pending", "starting", "running", "succeeded"]


@pytest.mark.parametrize(("start_s", "runs_at"), [(0, 0.0), (2.5, 2.5)])
def test_the_time_until_a_pod_starts_can_be_set(sim: Any, start_s: float, runs_at: float) -> None:
    begun = clock.now()
    sim.backend.ensure_pod(sim.spec("a", simulate={"start_s": start_s, "run_s": 0.2}))
    sim.pass_time(runs_at)
    assert sim.look()["a"].phase is PodPhase.RUNNING
    assert (sim.look()["a"].at - begun).total_seconds() == runs_at
    sim.pass_time(0.2)
    assert sim.look()["a"].phase is PodPhase.SUCCEEDED


def test_an_observer_gets_the_time_of_the_next_change(sim: Any) -> None:
    assert sim.backend.observe_pods(None).again_s is None
    sim.backend.ensure_pod(sim.spec("a", simulate={"start_s": 0, "run_s": 8}))
    sim.backend.ensure_pod(sim.spec("b", node="whole-02", simulate={"start_s": 3}))
    assert sim.backend.observe_pods(None).again_s == 3
    sim.pass_time(2.99)
    assert sim.backend.observe_pods(None).again_s == SOONEST_S
    sim.pass_time(0.01)
    faults.set_speed(sim.cluster.pk, 10)
    assert sim.backend.observe_pods(None).again_s == 0.5
    sim.pass_time(0.5)
    assert sim.backend.observe_pods(None).again_s is None


def test_the_same_names_live_the_same_life(sim: Any, traveller: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 10}))
    begun = sim.look()["a"].at
    first = [(phase, at - begun) for phase, at in life_of(sim, "a")]
    sim.backend.remove_pod(TaskRef("team", "a"), 0)
    sim.look()
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 10}))
    begun = sim.look()["a"].at
    second = [(phase, at - begun) for phase, at in life_of(sim, "a")]
    assert second == first


def test_one_late_look_finds_what_many_looks_would_have_found(sim: Any, traveller: Any) -> None:
    sim.backend.ensure_pod(sim.spec("ends", simulate={"run_s": 10}))
    sim.backend.ensure_pod(sim.spec("stays", node="whole-02", simulate={}))
    sim.pass_time(500)
    ends, stays = (sim.look()[name] for name in ("ends", "stays"))
    assert (ends.phase, stays.phase) == (PodPhase.SUCCEEDED, PodPhase.RUNNING)
    # The times are those of the events, not of their observation: a start takes at most 1 s + 6 s.
    begun = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
    assert 1 <= (stays.at - begun).total_seconds() <= 7
    assert 11 <= (ends.at - begun).total_seconds() <= 17


def test_a_change_of_speed_in_mid_run_applies_to_what_is_left(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 1000}))
    started = sim.until("a", PodPhase.RUNNING).at
    sim.pass_time(100 - (sim.backend.observe_pods(None).observations[-1].at - started).total_seconds())
    faults.set_speed(sim.cluster.pk, 10)
    before = SimulatedPod.unscoped.get().next_ms
    ended = sim.until("a", PodPhase.SUCCEEDED).at
    assert SimulatedPod.unscoped.get().ended_ms == before
    assert 180 < (ended - started).total_seconds() < 200  # about 100 s at speed 1, then 900 s at speed 10


def test_past_transitions_keep_their_real_time_after_a_change_of_speed(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 5}))
    ended = sim.until("a", PodPhase.SUCCEEDED)
    for speed in (100, 0.5, 7):
        faults.set_speed(sim.cluster.pk, speed)
        sim.pass_time(60)
    again = [seen for seen in sim.backend.observe_pods(None).observations if getattr(seen, "ref", None)]
    assert again == [ended]


def test_grace_bounds_how_long_a_pod_takes_to_leave(sim: Any) -> None:
    for name in ("a", "b", "c"):
        sim.backend.ensure_pod(sim.spec(name, devices=(), simulate={}))
        sim.until(name, PodPhase.RUNNING)
    asked = sim.backend.observe_pods(None)
    sim.backend.remove_many([TaskRef("team", name) for name in "abc"], 20)
    row = SimulatedCluster.unscoped.get()
    assert asked.cursor == str(row.last_change)  # nothing is visible yet
    left = SimulatedPod.unscoped.values_list("next_ms", "begun_ms")
    assert len({next_ms for next_ms, _ in left}) == 3
    sim.pass_time(20)
    assert {sim.look()[name].phase for name in "abc"} == {PodPhase.REMOVED}


def test_a_pod_that_is_to_leave_does_not_outlive_its_own_end(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": 30}))
    sim.until("a", PodPhase.RUNNING)
    ends_ms = SimulatedPod.unscoped.get().next_ms
    sim.backend.remove_pod(TaskRef("team", "a"), 3000)
    assert SimulatedPod.unscoped.get().next_ms == ends_ms
    sim.pass_time(30)
    assert sim.look()["a"].phase is PodPhase.REMOVED


def test_a_second_removal_shortens_the_grace_and_never_extends_it(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={}))
    sim.until("a", PodPhase.RUNNING)
    sim.backend.remove_pod(TaskRef("team", "a"), 300)
    first = SimulatedPod.unscoped.get().next_ms
    sim.backend.remove_pod(TaskRef("team", "a"), 600)
    assert SimulatedPod.unscoped.get().next_ms == first
    sim.backend.remove_pod(TaskRef("team", "a"), 0)
    assert sim.look()["a"].phase is PodPhase.REMOVED


def test_tombstones_are_pruned_and_an_older_cursor_gets_a_list(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a"))
    old = sim.backend.observe_pods(None).cursor
    sim.backend.remove_pod(TaskRef("team", "a"), 0)
    sim.pass_time(2 * 3600)
    sim.backend.ensure_pod(sim.spec("b", simulate={"run_s": 1}))
    sim.pass_time(60)
    recent = sim.backend.observe_pods(old)
    assert not SimulatedPod.unscoped.filter(name="a").exists()
    assert recent.complete
    assert not sim.backend.observe_pods(recent.cursor).complete


def test_the_script_of_a_pod_is_checked(sim: Any) -> None:
    outcome = sim.backend.ensure_pod(sim.spec("a", simulate={"run_s": -1}))
    assert (outcome.kind, outcome.code) == (OutcomeKind.REFUSED, "INVALID")
    assert "simulate.run_s" in outcome.message


def test_looking_when_nothing_is_due_writes_nothing(sim: Any) -> None:
    sim.backend.ensure_pod(sim.spec("a", simulate={}))
    sim.until("a", PodPhase.RUNNING)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        sim.backend.observe_pods(sim.cursor)
    assert len(queries) <= 6
    assert all(query["sql"].startswith("SELECT") for query in queries)


def test_many_pods_take_few_statements(sim: Any) -> None:
    specs = [sim.spec(f"p{n}", devices=(), cpu_millicores=1, memory_mib=1) for n in range(200)]
    with CaptureQueriesContext(connection) as queries:
        sim.backend.ensure_many(specs)
    assert len([q for q in queries if not q["sql"].startswith("INSERT")]) <= 12
    sim.pass_time(3600)
    with CaptureQueriesContext(connection) as queries:
        batch = sim.backend.observe_pods(sim.cursor)
    assert len(batch.observations) == 200
    assert len(queries) <= 20


def test_building_again_changes_nothing_that_is_there(sim: Any) -> None:
    from_before = sim.backend.read_inventory()
    faults.node_cordon(sim.cluster.pk, "whole-02")
    cursor = sim.backend.observe_pods(None).cursor
    build_cluster(sim.cluster)  # the demo's groups, added to those of the tests
    changed = {seen.name for seen in sim.backend.observe_pods(cursor).observations}
    assert changed.isdisjoint(node.name for node in from_before.nodes)
    assert len(changed) == 16
    assert SimulatedNode.unscoped.get(name="whole-02").cordoned
    assert {"topology.kubernetes.io/zone", "allotment.io/rack"} <= sim.node("gpu-a01").labels.keys()


@pytest.mark.django_db
def test_a_cluster_that_was_never_built_is_unavailable() -> None:
    cell = Cell.unscoped.create(name="cell")
    cluster = Cluster.unscoped.create(cell=cell, name="empty", backend="simulated")
    with pytest.raises(BackendUnavailable, match="not been built"):
        SimulatedBackend(cluster).read_inventory()
