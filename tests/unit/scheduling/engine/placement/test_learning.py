"""What policies learn comes from the snapshot of a cycle, whatever was learnt before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import (
    AllocationRemoved,
    Delta,
    FlavorPut,
    JobPut,
    JobRemoved,
    NodePut,
    Snapshot,
    TaskWorkload,
    WorkloadShape,
    recount_workload,
    to_canonical_json,
)
from scheduling.engine.builtin import resolve_config
from scheduling.engine.model import (
    AffinityOperator,
    Device,
    Expression,
    GpuMode,
    Job,
    PlacementRules,
    PreferredNodes,
)
from scheduling.engine.placement.fragmentation.expected_waste import NodeDemand, expected_node_waste
from scheduling.engine.placement.fragmentation.look_ahead import LookAheadPolicy
from scheduling.engine.placement.placer import Placer, placer_for
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.job_changes import JobChanges
from scheduling.engine.state.task_shape import resolve_shape
from scheduling.engine.state.workload_mix import WorkloadMix
from scheduling.simulation.published import published_config
from tests.unit.scheduling.engine.builders import (
    commit,
    cycle,
    flavor,
    job,
    node,
    quotas,
    role,
    workload_of,
    world,
)

CONFIG = published_config()
RULE = resolve_config(CONFIG).rule
MODELS = ("A100", "L40")
SLICED = ((1, 20), (1, 30), (1, 50), (1, 70))
Step = Callable[[Snapshot, int], Delta]


def asked(pick: int) -> Job:
    models = (MODELS[pick % 2],) if pick % 5 == 0 else ()
    if pick % 3 == 0:
        cards, cores = SLICED[pick % 4]
        part = role(1 + pick % 4, cards, cpu=500 * (pick % 9), cores=cores, models=models)
    else:
        part = role(1 + pick % 3, (1, 2, 4)[pick % 3], cpu=1_000 * (pick % 7), models=models)
    return job(f"j{pick}", "ab"[pick % 2], part, at=pick % 11)


def submit(snapshot: Snapshot, pick: int) -> Delta:
    known = {f"j{name}" for name in range(pick, pick + 4)} & snapshot.jobs.keys()
    fresh = (asked(number) for number in range(pick, pick + 4) if f"j{number}" not in known)
    return Delta(tuple(JobPut(one) for one in fresh))


def run(snapshot: Snapshot, pick: int) -> Delta:
    commit(snapshot, cycle(snapshot, CONFIG))
    return Delta()


def end(snapshot: Snapshot, pick: int) -> Delta:
    tasks = sorted(snapshot.allocations)
    if not tasks:
        return Delta()
    gone = snapshot.allocations[tasks[pick % len(tasks)]].job
    return Delta((*(AllocationRemoved(held.id) for held in snapshot.allocations_of(gone)), JobRemoved(gone)))


def cordon(snapshot: Snapshot, pick: int) -> Delta:
    nodes = snapshot.export_nodes()
    return Delta((NodePut(replace(nodes[pick % len(nodes)], schedulable=pick % 2 == 0)),))


def add_node(snapshot: Snapshot, pick: int) -> Delta:
    fresh = node(f"m{pick % 3}", (2, 4, 8)[pick % 3], model=MODELS[pick % 2], cpu=(16_000, 96_000)[pick % 2])
    return Delta((NodePut(fresh),) if fresh.id not in snapshot.fleet.row else ())


def set_policy(snapshot: Snapshot, pick: int) -> Delta:
    return Delta((FlavorPut(flavor(policy=("default", "fgd", "compact")[pick % 3])),))


def recount(snapshot: Snapshot, pick: int) -> Delta:
    recount_workload(snapshot, CONFIG)
    return Delta()


STEPS: list[Step] = [submit, submit, submit, run, run, run, end, end, cordon, add_node, set_policy, recount]


@pytest.mark.parametrize("policy", ["default", "fgd"])
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 60)), max_size=18))
@settings(max_examples=30, deadline=None)
def test_a_cycle_forgets_what_earlier_ones_learnt(policy: str, steps: list[tuple[Step, int]]) -> None:
    nodes = [node("n1"), node("n2", 8, cpu=32_000), node("n3", model="L40"), node("n4", 8, model="L40")]
    teams = {"a": quotas(14), "b": quotas(10)}
    warm = world(nodes, teams=teams, flavors=[flavor(policy=policy)])
    for step, pick in [*steps, (submit, 7), (submit, 31)]:
        warm.apply_delta(step(warm, pick))
    cold = Snapshot.from_json(warm.to_json())
    assert to_canonical_json(cycle(cold, CONFIG)) == to_canonical_json(cycle(warm, CONFIG))
    assert to_canonical_json(cycle(warm, CONFIG)) == to_canonical_json(cycle(cold, CONFIG))


def busy(name: str, cards: int, used: int) -> Device:
    return Device(
        uuid=f"{name}-gpu{cards}", index=cards, model="A100", mode=GpuMode.SLICE,
        used_cores=used, holders=int(used > 0),
    )  # fmt: skip


def test_risks_are_those_at_the_start_of_the_cycle() -> None:
    """While eight nodes are empty a group may be broken; once one is left, the warm engine spares it."""
    nodes = [node(f"n{at}", 4, rank=at) for at in range(8)] + [node("old", 4, rank=9)]
    fours = [job(f"w{at}", "a", role(1, 4), at=at) for at in range(7)]
    warm = world(nodes, fours, flavors=[flavor(policy="default")])
    commit(warm, cycle(warm, CONFIG))
    warm.apply_delta(Delta(tuple(JobPut(job(f"s{at}", "a", role(1, 1), at=50 + at)) for at in range(4))))
    cold = Snapshot.from_json(warm.to_json())
    first, second = cycle(warm, CONFIG), cycle(cold, CONFIG)
    assert to_canonical_json(first) == to_canonical_json(second)
    assert len({task.node for decision in first.decisions for task in decision.allocations}) == 1


def test_boards_stay_where_nothing_else_was_learnt() -> None:
    pool = flavor(policy="default")
    snapshot = world([node(f"n{at}", 8) for at in range(9)], [asked(1), asked(4)], flavors=[pool])
    cycle(snapshot, CONFIG)
    placer = placer_for(snapshot.fleet, RULE)
    before, scores = (
        placer.get_board(resolve_shape(role().request, PlacementRules(), pool), pool),
        placer.grid_score,
    )
    known = scores("default")
    snapshot.apply_delta(Delta((JobPut(replace(asked(1), priority=7)),)))
    cycle(snapshot, CONFIG)
    assert placer.grid_score("default") is known
    snapshot.apply_delta(Delta((JobPut(asked(5)), JobPut(asked(8)))))
    cycle(snapshot, CONFIG)
    assert placer.grid_score("default") != known
    assert placer.get_board(before.question.task, pool) is before


def test_a_kept_board_scores_by_what_was_learnt_last() -> None:
    pool, request = flavor(policy="default"), role(1, 1, cores=20, card_memory=0).request
    devices = (busy("n", 0, 30), busy("n", 1, 50))
    fleet = Fleet([replace(node("n", 0), devices=devices)])
    task = resolve_shape(request, PlacementRules(), pool)
    warm = Placer(fleet, RULE)
    for size, column in ((30, 1), (50, 0)):
        usual = TaskWorkload(((WorkloadShape(0, size, 1), 9),))
        warm.learn_workload(usual)
        seats = [placer.find_placement(task, pool) for placer in (warm, Placer(fleet, RULE, usual))]
        assert [seat and seat.columns for seat in seats] == [(column,), (column,)], size


def test_of_cards_that_waste_alike_the_fullest_is_taken() -> None:
    """Only the size itself is known: 30 leaves the remainder of 10 on both cards."""
    pool, request = flavor(policy="default"), role(1, 1, cores=30, card_memory=0).request
    fleet = Fleet([replace(node("n", 0), devices=(busy("n", 0, 0), busy("n", 1, 30)))])
    placer = Placer(fleet, RULE, TaskWorkload(((WorkloadShape(0, 30, 1), 1),)))
    seat = placer.find_placement(resolve_shape(request, PlacementRules(), pool), pool)
    assert seat is not None and seat.columns == (1,)


@pytest.mark.parametrize("waiting", [(), (role(3, 0, cpu=1_000),)])
def test_where_no_work_with_cards_is_known_the_fullest_node_is_taken(waiting: tuple[object, ...]) -> None:
    jobs = [job("w", "a", *waiting)] if waiting else []  # type: ignore[arg-type]
    workload = workload_of(jobs).to_coarse()
    pool = flavor(policy="default")
    half = node("half", device={"used_cores": 50, "holders": 1}, rank=5)
    placer = Placer(Fleet([node("empty"), half]), RULE, workload)
    for asked_for in (role(1, 1, cores=20, card_memory=0), role(1, 0, cpu=2_000)):
        seat = placer.find_placement(resolve_shape(asked_for.request, PlacementRules(), pool), pool)
        assert seat is not None and seat.node == "half"


def test_preferences_come_before_expected_fragmentation() -> None:
    """The group of four that is spared for pending jobs is broken if the task prefers the node."""
    wish = PreferredNodes(1, (Expression("disk", AffinityOperator.IN, ("ssd",)),))
    nodes = [node("new", 4, labels={"disk": "ssd"}), node("part", 2)]
    for rules, chosen in ((PlacementRules(), "part"), (PlacementRules(preferred_nodes=(wish,)), "new")):
        jobs = [job("one", rules=rules), *(job(f"w{at}", "a", role(1, 4), at=9 + at) for at in range(5))]
        result = cycle(world(nodes, jobs, flavors=[flavor(policy="default")]))
        placed = {decision.job: decision.allocations[0].node for decision in result.decisions}
        assert placed["one"] == chosen


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=25))
@settings(max_examples=60, deadline=None)
def test_counting_on_equals_counting_anew(steps: list[tuple[int, bool]]) -> None:
    following, changes, jobs = WorkloadMix(100), JobChanges(), dict[str, Job]()
    for pick, leaves in steps:
        one = asked(pick)
        if leaves:
            jobs.pop(one.id, None)
        else:
            jobs[one.id] = replace(one, roles=asked(pick + len(jobs)).roles)
        changes.record_job(one.id)
        assert following.follow_changes(jobs, changes) == workload_of(jobs.values())


def test_a_common_measure_changes_no_table() -> None:
    """In steps of a tenth of the least demand the table is the same, plus what no task can use."""
    coarse = expected_node_waste([NodeDemand(1, 1, 0.5), NodeDemand(3, 2, 0.5)], 8, 6, 2.5).look_up(
        np.arange(9)
    )
    fine = expected_node_waste([NodeDemand(10, 1, 0.5), NodeDemand(30, 2, 0.5)], 85, 6, 2.5).look_up(
        np.arange(86)
    )
    assert fine[::10] == pytest.approx(10 * coarse, rel=1e-5)
    assert fine[85] == pytest.approx(fine[80] + 5, rel=1e-5)


def test_the_same_is_learnt_from_equal_fleets_and_workloads() -> None:
    policy, usual = LookAheadPolicy(), workload_of([asked(pick) for pick in range(12)]).to_coarse()
    fleets = [Fleet([node("n1"), node("n2", 8, model="L40")][::step]) for step in (1, -1)]
    first, second = (policy.learn_from(usual, fleet) for fleet in fleets)
    assert first == second
    assert first != policy.learn_from(TaskWorkload(usual.counts[:2]), fleets[0])
