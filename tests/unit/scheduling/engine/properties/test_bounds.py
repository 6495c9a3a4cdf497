"""Invariants after every cycle, in any world."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine import EngineConfig, Snapshot, to_canonical_json
from scheduling.engine.model import Instant, Job, Node, OutcomeStatus, Quota, Strategy
from tests.unit.scheduling.engine.builders import (
    NOW,
    commit,
    cycle,
    flavor,
    job,
    node,
    queue,
    quotas,
    role,
    world,
)
from tests.unit.scheduling.engine.properties.laws import law

roles = st.builds(
    role,
    st.integers(1, 4),
    st.integers(0, 4),
    least=st.just(1),
    cpu=st.sampled_from([0, 500, 20_000]),
) | st.builds(role, st.integers(1, 3), st.integers(1, 2), cores=st.sampled_from([10, 35, 50, 100]))
limits = st.builds(
    quotas,
    st.integers(0, 12) | st.none(),
    borrow=st.none() | st.integers(0, 6),
    lend=st.none() | st.integers(0, 6),
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], list[Job], dict[str, tuple[Quota, ...]], bool]:
    nodes = [
        node(f"n{index}", draw(st.integers(0, 4)), cpu=draw(st.sampled_from([4_000, 64_000])))
        for index in range(draw(st.integers(1, 4)))
    ]
    jobs = [
        job(
            f"j{index}",
            draw(st.sampled_from("abc")),
            draw(roles),
            at=draw(st.integers(0, 3)),
            priority=draw(st.integers(0, 2)),
            preemptible=draw(st.booleans()),
        )
        for index in range(draw(st.integers(0, 10)))
    ]
    return nodes, jobs, {name: draw(limits) for name in "abc"}, draw(st.booleans())


def build(drawn: tuple[list[Node], list[Job], dict[str, tuple[Quota, ...]], bool]) -> Snapshot:
    nodes, jobs, teams, strict = drawn
    strategy = Strategy.STRICT_FIFO if strict else Strategy.BEST_EFFORT_FIFO
    policy = "spread" if strict else "compact"
    return world(
        nodes,
        jobs,
        teams=teams,
        queues=[queue(name, strategy=strategy) for name in teams],
        flavors=[flavor(policy=policy)],
    )


@given(worlds())
@law
def test_after_a_cycle_everything_is_within_its_bounds(
    drawn: tuple[list[Node], list[Job], dict[str, tuple[Quota, ...]], bool],
) -> None:
    snapshot = build(drawn)
    result = cycle(snapshot)
    commit(snapshot, result)
    for row in range(len(snapshot.fleet)):
        after = snapshot.fleet.export_node(row)
        assert after.used_cpu <= after.cpu
        assert after.used_memory <= after.memory
        for device in after.devices:
            assert 0 <= device.used_cores <= device.cores
            assert 0 <= device.used_memory <= device.memory
            assert not device.exclusive or device.holders == 1
    for name, quota_list in drawn[2].items():
        for quota in quota_list:
            used, quota_of = snapshot.quota.usage(name, quota.key), quota.own_nominal
            if quota_of is not None and quota.borrowing_limit is not None:
                assert used <= quota_of + quota.borrowing_limit
            top = snapshot.quota.subtree_quota("root", quota.key)
            assert top is None or snapshot.quota.usage("root", quota.key) <= top


@given(worlds())
@law
def test_gangs_are_whole_and_tasks_hold_different_equal_cards_of_one_node(
    drawn: tuple[list[Node], list[Job], dict[str, tuple[Quota, ...]], bool],
) -> None:
    snapshot = build(drawn)
    for decision in cycle(snapshot).decisions:
        found = Counter(task.role for task in decision.allocations)
        for asked in snapshot.jobs[decision.job].roles:
            assert asked.min_count <= found[asked.name] <= asked.replicas
        for task in decision.allocations:
            gpu = next(r for r in snapshot.jobs[decision.job].roles if r.name == task.role).request.gpu
            assert len(task.slices) == (gpu.cards if gpu else 0)
            assert len({part.device for part in task.slices}) == len(task.slices)
            assert all(part.device.startswith(f"{task.node}-") for part in task.slices)
            assert len({(part.cores, part.memory, part.exclusive) for part in task.slices}) <= 1


@given(worlds(), st.integers(0, 999))
@law
def test_the_result_does_not_depend_on_the_order_of_the_input(
    drawn: tuple[list[Node], list[Job], dict[str, tuple[Quota, ...]], bool], seed: int
) -> None:
    nodes, jobs, teams, strict = drawn
    mixed = random.Random(seed)
    shuffled = (
        mixed.sample(nodes, len(nodes)),
        mixed.sample(jobs, len(jobs)),
        {name: tuple(mixed.sample(teams[name], len(teams[name]))) for name in mixed.sample("abc", 3)},
        strict,
    )
    assert to_canonical_json(cycle(build(shuffled))) == to_canonical_json(cycle(build(drawn)))


@given(worlds())
@law
def test_five_more_cycles_change_nothing_and_everyone_waiting_has_a_reason(
    drawn: tuple[list[Node], list[Job], dict[str, tuple[Quota, ...]], bool],
) -> None:
    snapshot = build(drawn)
    config = EngineConfig(heads_per_queue=None)
    first = cycle(snapshot, config)
    assert [item.job for item in first.outcomes] == sorted(snapshot.jobs)
    for item in first.outcomes:
        assert (item.reason is None) == (item.status is OutcomeStatus.ADMITTED)
        assert item.reason is None or item.numbers
    commit(snapshot, first)
    for later in range(5):
        assert cycle(snapshot, config, Instant(NOW + later)).decisions == ()
