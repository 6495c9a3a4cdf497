"""The order in which jobs on nodes under pressure are evicted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.engine import Delta, NodePut, Snapshot
from scheduling.engine.model import Job, Pressure, QosClass
from tests.unit.scheduling.engine.actions.worlds import act, decided, live, running_world, settle
from tests.unit.scheduling.engine.builders import job, node, role

N1 = node("n1", 8)
B, U, G = QosClass.BEST_EFFORT, QosClass.BURSTABLE, QosClass.GUARANTEED


def entry(name: str, qos: QosClass, **facts: Any) -> Job:
    asked = role(1, 1, memory=100)
    return live(job(name, "a", replace(asked, request=replace(asked.request, qos=qos))), **facts)


def pressed(snapshot: Snapshot, **flags: Pressure) -> Snapshot:
    """Put nodes under pressure, with all tasks on them."""
    for held in snapshot.export_nodes():
        if held.id in flags:
            snapshot.apply_delta(Delta((NodePut(replace(held, pressure=(flags[held.id],))),)))
    return snapshot


@pytest.mark.parametrize(
    ("jobs", "victim"),
    [
        ([entry("g", G), entry("u", U), entry("b", B)], "b"),
        ([entry("g", G), entry("u", U)], "u"),
        ([entry("u", U, priority=1), entry("v", U, priority=2)], "u"),
        ([entry("g", G, priority=9), entry("h", G)], "h"),
        ([entry("old", B, running_since=1), entry("new", B, running_since=2)], "new"),
    ],
)
def test_quality_classes_are_evicted_in_order(jobs: list[Job], victim: str) -> None:
    snapshot = pressed(running_world([N1], {}, jobs), n1=Pressure.MEMORY)
    assert decided(act(snapshot, "pressure")) == [("evict", victim, "NODE_PRESSURE")]


def test_one_task_is_evicted_at_a_time() -> None:
    snapshot = pressed(running_world([N1], {}, [entry("a", B), entry("b", B)]), n1=Pressure.MEMORY)
    first = act(snapshot, "pressure")
    settle(snapshot, first)
    assert len(first.decisions) == 1
    assert decided(act(snapshot, "pressure")) == []


def test_the_surplus_of_a_gang_is_evicted_alone() -> None:
    spare = live(job("j", "a", role(3, 1, least=2)))
    snapshot = running_world([N1, node("n2")], {"j": ["n1", "n2", "n2"]}, [spare])
    pressed(snapshot, n1=Pressure.DISK)
    result = act(snapshot, "pressure")
    assert decided(result) == [("shrink", "j", "NODE_PRESSURE")]
    assert result.decisions[0].released == ("j/worker/0",)


def test_a_gang_that_needs_the_task_is_evicted_as_a_whole_and_relieves_every_node() -> None:
    whole = live(job("j", "a", role(2, 1)))
    snapshot = running_world([N1, node("n2")], {"j": ["n1", "n2"]}, [whole, entry("other", G, priority=1)])
    pressed(snapshot, n1=Pressure.MEMORY, n2=Pressure.PID)
    result = act(snapshot, "pressure")
    assert len(result.decisions) == 1
    assert result.decisions[0].job == "j"


def test_no_job_is_evicted_from_a_healthy_node() -> None:
    assert decided(act(running_world([node("n1")], {}, [entry("b", B)]), "pressure")) == []
