"""The holdings of jobs, and where tasks are for the affinity terms of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import AllocationPut, Delta, JobPut, JobRemoved, NodePut, Snapshot, SnapshotError
from scheduling.engine.model import (
    Allocation,
    Charge,
    DeviceSlice,
    JobState,
    PlacementRules,
    PodTerm,
)
from tests.unit.scheduling.engine.builders import job, node, quotas, role, world

CPU = ("a100", "cpu")
PLAIN = PlacementRules()
SPEAKING = PlacementRules(
    namespace="team",
    labels={"app": "x"},
    pod_anti_affinity=(PodTerm(topology_key="rack"),),
    group="g",
)


def held(job_id: str, index: int = 0, node_id: str = "n1", **facts: object) -> Allocation:
    """Return a task with one whole card of its node, that of its index."""
    part = DeviceSlice(device=f"{node_id}-gpu{index}", cores=100, memory=40_960, exclusive=True)
    known = {"queue": "a", "role": "worker", "flavor": "a100", "cpu": 10, "memory": 20, "slices": (part,)}
    charges = (Charge(*CPU, 10), Charge(*CPU, 5))
    return Allocation(
        **{"job": job_id, "index": index, "node": node_id, "charges": charges, **known, **facts}  # type: ignore[arg-type]
    )


def small(*jobs: str, rules: PlacementRules = PLAIN) -> Snapshot:
    running = [job(name, "a", role(3), rules=rules, state=JobState.LIVE) for name in jobs]
    return world([node("n1", 4), node("n2", 4)], running, teams={"a": quotas(9), "b": quotas(9)})


def shown(snapshot: Snapshot) -> tuple[object, ...]:
    """Return everything that depends on the nodes of tasks."""
    there, fleet = snapshot.fleet.pod_index, snapshot.fleet
    seen = (
        there.identities,
        there.anti_affinity,
        there.groups,
    )
    held_by = {name: snapshot.allocations_of(name) for name in snapshot.jobs}
    holders = [snapshot.jobs_charged_to(queue) for queue in "ab"]
    return *seen, fleet.classes.tolist(), held_by, holders, snapshot.leaving_allocations(), snapshot.to_json()


@pytest.mark.parametrize(
    ("own", "of_role", "of_job", "group"),
    [
        ("task", "role", "job", "task"),
        (None, "role", "job", "role"),
        (None, None, "job", "job"),
        ("task", None, None, "task"),
        (None, None, None, None),
    ],
)
def test_a_task_is_met_by_its_own_rules_or_its_roles_or_its_jobs(
    own: str | None, of_role: str | None, of_job: str | None, group: str | None
) -> None:
    def rules(name: str | None) -> PlacementRules | None:
        return None if name is None else PlacementRules(group=name)

    roles = (replace(role(name="other"), rules=rules("wrong")), replace(role(), rules=rules(of_role)))
    waiting = job("j", "a", *roles, rules=rules(of_job) or PLAIN)
    snapshot = world([node("n0"), node("n1")], [waiting])
    expected = {} if group is None else {group: {1: 1}}
    before = shown(snapshot)
    with snapshot.statement() as statement:
        statement.allocate(held("j", rules=rules(own)))
        assert snapshot.fleet.pod_index.groups == expected
        statement.release("j/worker/0")
        assert snapshot.fleet.pod_index.groups == {}
    assert shown(snapshot) == before
    snapshot.add_allocation(held("j", rules=rules(own)))
    assert snapshot.fleet.pod_index.groups == expected
    rebuilt = Snapshot.from_json(snapshot.to_json())
    assert shown(rebuilt) == shown(snapshot)


def test_a_task_on_no_known_node_affects_no_other() -> None:
    snapshot = small("j", rules=SPEAKING)
    snapshot.add_allocation(held("j", node_id="elsewhere"))
    assert snapshot.fleet.pod_index.groups == {}
    assert snapshot.quota.usage("a", CPU) == 15
    assert shown(Snapshot.from_json(snapshot.to_json())) == shown(snapshot)
    snapshot.remove_allocation("j/worker/0")
    assert snapshot.quota.usage("a", CPU) == 0


@pytest.mark.parametrize("changed", [PLAIN, replace(SPEAKING, group="h")])
def test_a_change_of_the_job_changes_how_its_tasks_are_met(changed: PlacementRules) -> None:
    snapshot = small("j", "k", rules=SPEAKING)
    for name in "jk":
        snapshot.apply_delta(Delta((AllocationPut(held(name, "jk".index(name))),)))
    snapshot.apply_delta(Delta((JobPut(replace(snapshot.jobs["j"], rules=changed)),)))
    assert shown(Snapshot.from_json(snapshot.to_json())) == shown(snapshot)
    before = shown(snapshot)
    with snapshot.statement() as statement:
        statement.allocate(statement.release("j/worker/0"))
        assert shown(snapshot) == before
    snapshot.apply_delta(Delta((JobRemoved("j"),)))
    assert snapshot.fleet.pod_index.groups == {"g": {0: 1}}
    snapshot.remove_allocation("j/worker/0")
    assert shown(Snapshot.from_json(snapshot.to_json())) == shown(snapshot)


def test_new_nodes_find_every_task_where_it_was() -> None:
    snapshot = small("j", rules=SPEAKING)
    snapshot.add_allocation(held("j"))
    snapshot.apply_delta(Delta((NodePut(node("n0", 4)), NodePut(node("n2", 2)))))
    assert snapshot.fleet.pod_index.groups == {"g": {1: 1}}
    assert shown(Snapshot.from_json(snapshot.to_json())) == shown(snapshot)
    snapshot.remove_allocation("j/worker/0")
    assert snapshot.fleet.pod_index.groups == {}
    assert shown(Snapshot.from_json(snapshot.to_json())) == shown(snapshot)


def test_holders_are_known_by_queue_as_long_as_they_hold_something() -> None:
    snapshot = small("k", "j")
    assert (snapshot.jobs_charged_to("a"), snapshot.jobs_charged_to("nowhere")) == ((), ())
    for task in (held("k"), held("j", 1), held("j", 2), held("j", 3, queue="b")):
        snapshot.add_allocation(task)
    assert (snapshot.jobs_charged_to("a"), snapshot.jobs_charged_to("b")) == (("j", "k"), ("j",))
    assert [task.index for task in snapshot.allocations_of("j")] == [1, 2, 3]
    assert [snapshot.count_tasks(name) for name in ("j", "k", "nobody")] == [3, 1, 0]
    snapshot.remove_allocation("j/worker/2")
    assert [task.index for task in snapshot.allocations_of("j")] == [1, 3]
    snapshot.remove_allocation("k/worker/0")
    assert snapshot.jobs_charged_to("a") == ("j",)
    assert (snapshot.allocations_of("k"), snapshot.allocations_of("nobody")) == ((), ())


def test_short_are_those_that_hold_less_than_they_want() -> None:
    snapshot = small("none", "some", "all")
    for task in (held("some"), *(held("all", index) for index in (1, 2, 3))):
        snapshot.add_allocation(task)
    snapshot.add_allocation(held("unknown", 0, "n2"))
    assert snapshot.find_incomplete_jobs() == ["some"]
    snapshot.add_allocation(held("some", 1, "n2"))
    assert snapshot.find_incomplete_jobs() == ["some"]
    snapshot.add_allocation(held("some", 2, "n2"))
    assert snapshot.find_incomplete_jobs() == []


def test_leaving_are_tasks_that_were_marked_and_all_of_jobs_that_were() -> None:
    snapshot = small("j", "k")
    for task in (held("j"), held("j", 1, leaving=True), held("k", 2)):
        snapshot.add_allocation(task)
    assert snapshot.leaving_allocations() == ("j/worker/1",)
    snapshot.apply_delta(Delta((JobPut(replace(snapshot.jobs["k"], state=JobState.LEAVING)),)))
    assert snapshot.leaving_allocations() == ("j/worker/1", "k/worker/2")
    snapshot.remove_allocation("j/worker/1")
    assert snapshot.leaving_allocations() == ("k/worker/2",)


def test_a_copy_knows_all_that_is_held() -> None:
    snapshot = small("j", "k", rules=SPEAKING)
    snapshot.add_allocation(held("j"))
    with snapshot.statement():
        snapshot.open_future()
        snapshot.select_view(future=True)
        assert snapshot.jobs_charged_to("a") == ("j",)
        assert [task.id for task in snapshot.allocations_of("j")] == ["j/worker/0"]
        assert snapshot.find_incomplete_jobs() == ["j"]
        snapshot.select_view(future=False)


def test_a_charge_to_a_queue_that_is_gone_is_refused() -> None:
    snapshot = small("j")
    before = shown(snapshot)
    with pytest.raises(SnapshotError, match="j/worker/0 is charged to the queue lost, which does not exist"):
        snapshot.add_allocation(held("j", queue="lost"))
    assert shown(snapshot) == before


def test_another_task_of_the_same_name_holds_what_it_has_itself() -> None:
    snapshot = small("j")
    with snapshot.statement() as statement:
        statement.allocate(held("j"))
        statement.release("j/worker/0")
        statement.allocate(held("j", 0, "n2", cpu=7, charges=(Charge(*CPU, 7),)))
        assert [free - 64_000 for free in snapshot.fleet.cpu_free.tolist()] == [0, -7]
        assert snapshot.quota.usage("a", CPU) == 7
