"""Invariants of every gang on every fleet."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine import AllocationPut, Delta, Snapshot
from scheduling.engine.gang import GangRules, PlacementExtent, find_surplus_tasks
from scheduling.engine.gang.task_counts import count_placed_tasks
from scheduling.engine.model import Allocation, Job, Role, SubGang, TopologyMode, TopologyRule
from scheduling.engine.quota.assignment import Refusal
from tests.unit.scheduling.engine.actions.worlds import act, live, settle
from tests.unit.scheduling.engine.builders import flavor, job, node, role, world
from tests.unit.scheduling.engine.gang.worlds import LEVELS, place_job_alone
from tests.unit.scheduling.engine.properties.laws import law

rules = st.none() | st.builds(
    TopologyRule,
    level=st.sampled_from(LEVELS),
    mode=st.sampled_from([TopologyMode.REQUIRED, TopologyMode.PREFERRED]),
)


@st.composite
def roles(draw: st.DrawFn, index: int) -> Role:
    tasks = draw(st.integers(1, 4))
    least = draw(st.integers(0, tasks))
    slices = {"cores": draw(st.sampled_from([30, 50, 100]))} if draw(st.booleans()) else {}
    cards = 1 if slices else draw(st.integers(0, 3))
    built = role(tasks, cards, name=f"r{index}", least=least, cpu=draw(st.sampled_from([0, 9_000])), **slices)
    part = draw(st.sampled_from(["", "p0", "p1", "p2"]))
    return replace(built, sub_gang=part)


@st.composite
def jobs(draw: st.DrawFn, name: str = "j") -> Job:
    parents = [None, draw(st.sampled_from([None, "p0"])), draw(st.sampled_from([None, "p0", "p1"]))]
    parts = tuple(
        SubGang(
            name=f"p{index}",
            parent=parent,
            min_available=draw(st.none() | st.integers(0, 2)),
            min_parts=draw(st.none() | st.integers(0, 2)),
            topology=draw(rules),
        )
        for index, parent in enumerate(parents)
    )
    members = [draw(roles(index)) for index in range(draw(st.integers(1, 4)))]
    most = draw(st.none() | st.integers(0, sum(entry.replicas for entry in members)))
    return job(name, "a", *members, sub_gangs=parts, topology=draw(rules), min_available=most)


@st.composite
def fleets(draw: st.DrawFn) -> Snapshot:
    nodes = [
        node(
            f"n{index}",
            draw(st.integers(0, 4)),
            labels={"zone": draw(st.sampled_from("xy")), "rack": draw(st.sampled_from("ab"))},
            cpu=draw(st.sampled_from([10_000, 64_000])),
        )
        for index in range(draw(st.integers(1, 5)))
    ]
    return world(nodes, flavors=[flavor(topology=LEVELS)])


def in_bounds(snapshot: Snapshot) -> None:
    for held in snapshot.export_nodes():
        assert held.used_cpu <= held.cpu
        for device in held.devices:
            assert 0 <= device.used_cores <= device.cores
            assert 0 <= device.used_memory <= device.memory
            assert not device.exclusive or device.holders == 1


def domains(snapshot: Snapshot, tasks: list[Allocation], level: str) -> set[tuple[str, ...]]:
    labels = [snapshot.fleet.nodes[snapshot.fleet.row[task.node]].labels for task in tasks]
    path = LEVELS[: LEVELS.index(level) + 1]
    return {tuple(entry[label] for label in path) for entry in labels}


def required_levels_hold(snapshot: Snapshot, entry: Job, tasks: tuple[Allocation, ...]) -> None:
    parents = {part.name: part.parent for part in entry.sub_gangs}

    def inside(name: str, part: str) -> bool:
        at: str | None = name or None
        while at is not None and at != part:
            at = parents[at]
        return at == part

    groups = [(entry.topology, [r.name for r in entry.roles])]
    groups += [
        (part.topology, [r.name for r in entry.roles if inside(r.sub_gang, part.name)])
        for part in entry.sub_gangs
    ]
    for rule, names in groups:
        if rule is not None and rule.mode is TopologyMode.REQUIRED:
            mine = [task for task in tasks if task.role in names]
            assert len(domains(snapshot, mine, rule.level)) <= 1


@given(fleets(), jobs())
@law
def test_a_gang_is_placed_within_its_rules_or_nothing_is_left_of_it(snapshot: Snapshot, entry: Job) -> None:
    before = snapshot.to_json()
    found = place_job_alone(snapshot, entry)
    assert snapshot.to_json() == before
    if isinstance(found, Refusal):
        assert found.numbers
        return
    snapshot.apply_delta(Delta(tuple(AllocationPut(allocation) for allocation in found)))
    in_bounds(snapshot)
    required_levels_hold(snapshot, entry, found)
    counts = Counter(task.role for task in found)
    assert GangRules(entry).is_satisfied(counts)
    assert all(counts[r.name] <= r.replicas for r in entry.roles)
    assert len({task.id for task in found}) == len(found)


@given(fleets(), jobs())
@law
def test_steps_lead_where_a_full_placement_stops(snapshot: Snapshot, entry: Job) -> None:
    while True:
        found = place_job_alone(snapshot, entry, extent=PlacementExtent.STEP)
        if isinstance(found, Refusal) or not found:
            break
        snapshot.apply_delta(Delta(tuple(AllocationPut(allocation) for allocation in found)))
        assert GangRules(entry).is_satisfied(count_placed_tasks(entry, snapshot.allocations_of(entry.id)))
        in_bounds(snapshot)
    more = place_job_alone(snapshot, entry)
    assert isinstance(more, Refusal) or not more


@given(fleets(), jobs())
@law
def test_surplus_can_be_removed_from_a_gang_at_every_step(snapshot: Snapshot, entry: Job) -> None:
    found = place_job_alone(snapshot, entry)
    if isinstance(found, Refusal):
        return
    staying = list(found)
    for task in find_surplus_tasks(entry, found):
        staying.remove(task)
        assert GangRules(entry).is_satisfied(count_placed_tasks(entry, staying))
    assert not find_surplus_tasks(entry, staying)


@given(fleets(), jobs("a"), jobs("b"), jobs("w"))
@law
def test_house_keeping_keeps_bounds_and_never_repeats_itself(
    snapshot: Snapshot, first: Job, second: Job, waiting: Job
) -> None:
    data = world(
        snapshot.export_nodes(), [live(first), live(second), waiting], flavors=snapshot.flavors.values()
    )
    for entry in (first, second):
        found = place_job_alone(data, entry)
        if not isinstance(found, Refusal):
            data.apply_delta(Delta(tuple(AllocationPut(allocation) for allocation in found)))
    before = data.to_json()
    result = act(data, "elastic", "consolidate")
    assert data.to_json() == before
    settle(data, result, gone=True)
    in_bounds(data)
    for entry in (first, second, waiting):
        held = data.allocations_of(entry.id)
        if held:
            assert GangRules(entry).is_satisfied(count_placed_tasks(entry, held))
    again = act(data, "elastic", "consolidate")
    if not any(decision.kind.value in ("park", "migrate") for decision in result.decisions):
        assert again.decisions == ()
