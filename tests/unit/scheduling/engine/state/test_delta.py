"""A snapshot that was updated equals one that is built anew, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.core.quantities import Resource
from scheduling.engine import (
    AllocationRemoved,
    Delta,
    FlavorPut,
    JobPut,
    JobRemoved,
    NodePut,
    NodeRemoved,
    QueuePut,
    QuotaPut,
    Snapshot,
    SnapshotError,
    to_canonical_json,
)
from scheduling.engine.model import (
    AffinityOperator,
    Expression,
    PlacementRules,
    PodTerm,
    Quota,
    QuotaNode,
    Strategy,
    Taint,
    TaintEffect,
)
from tests.unit.scheduling.engine.builders import (
    commit,
    cycle,
    flavor,
    job,
    node,
    outcome,
    queue,
    quotas,
    role,
    started,
    world,
)


def submit(snapshot: Snapshot, pick: int) -> Delta:
    name, asked = f"j{pick}", role(1 + pick % 3, 1 + pick % 2)
    return Delta((JobPut(job(name, "ab"[pick % 2], asked, at=pick % 5)),))


def cancel(snapshot: Snapshot, pick: int) -> Delta:
    waiting = [name for name in sorted(snapshot.jobs) if not snapshot.count_tasks(name)]
    return Delta((JobRemoved(waiting[pick % len(waiting)]),) if waiting else ())


def promote(snapshot: Snapshot, pick: int) -> Delta:
    jobs = sorted(snapshot.jobs)
    chosen = snapshot.jobs[jobs[pick % len(jobs)]] if jobs else None
    return Delta((JobPut(replace(chosen, priority=pick)),) if chosen else ())


def end(snapshot: Snapshot, pick: int) -> Delta:
    tasks = sorted(snapshot.allocations)
    return Delta((AllocationRemoved(tasks[pick % len(tasks)]),) if tasks else ())


def add_node(snapshot: Snapshot, pick: int) -> Delta:
    fresh = node(f"m{pick % 3}", pick % 5, labels={"zone": str(pick)})
    return Delta((NodePut(fresh),) if fresh.id not in snapshot.fleet.row else ())


def cordon(snapshot: Snapshot, pick: int) -> Delta:
    nodes = snapshot.export_nodes()
    return Delta((NodePut(replace(nodes[pick % len(nodes)], schedulable=pick % 2 == 0)),) if nodes else ())


def relabel(snapshot: Snapshot, pick: int) -> Delta:
    nodes = snapshot.export_nodes()
    if not nodes:
        return Delta()
    taints = (Taint("soft", effect=TaintEffect.PREFER_NO_SCHEDULE),) if pick % 3 == 0 else ()
    labels = {"zone": str(pick % 2)}
    return Delta((NodePut(replace(nodes[pick % len(nodes)], labels=labels, taints=taints)),))


def relate(snapshot: Snapshot, pick: int) -> Delta:
    term = PodTerm("zone", (Expression("app", AffinityOperator.IN, (str(pick % 2),)),))
    kept = {"pod_affinity": (term,)} if pick % 3 else {"pod_anti_affinity": (term,)}
    rules = PlacementRules(namespace="ws", labels={"app": str(pick % 2)}, **kept)
    return Delta((JobPut(job(f"k{pick % 7}", "ab"[pick % 2], role(1, pick % 2), at=pick % 5, rules=rules)),))


def lose_node(snapshot: Snapshot, pick: int) -> Delta:
    held = {task.node for task in snapshot.allocations.values()}
    free = sorted(set(snapshot.fleet.row) - held)
    return Delta((NodeRemoved(free[pick % len(free)]),) if free else ())


def set_limits(snapshot: Snapshot, pick: int) -> Delta:
    leaf = next(entry for entry in snapshot.export_quota_nodes() if entry.id == "a")
    return Delta((QuotaPut(replace(leaf, quotas=quotas(pick % 7, lend=pick % 3))),))


def set_queue(snapshot: Snapshot, pick: int) -> Delta:
    strategy = Strategy.STRICT_FIFO if pick % 2 else Strategy.BEST_EFFORT_FIFO
    return Delta((QueuePut(queue("b", strategy=strategy)),))


def set_flavor(snapshot: Snapshot, pick: int) -> Delta:
    return Delta((FlavorPut(flavor(policy=("compact", "spread")[pick % 2])),))


def run(snapshot: Snapshot, pick: int) -> Delta:
    commit(snapshot, cycle(snapshot))
    return Delta()


STEPS = [
    submit,
    submit,
    run,
    cancel,
    promote,
    end,
    add_node,
    cordon,
    relabel,
    relate,
    run,
    lose_node,
    set_limits,
    set_queue,
    set_flavor,
]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 40)), max_size=15))
@settings(max_examples=60, deadline=None)
def test_warm_equals_cold(steps: list[tuple[Callable[[Snapshot, int], Delta], int]]) -> None:
    warm = world([node("n1"), node("n2", 2)], teams={"a": quotas(3), "b": quotas(3)})
    for step, pick in steps:
        warm.apply_delta(step(warm, pick))
    cold = Snapshot.from_json(warm.to_json())
    assert cold.to_json() == warm.to_json()
    assert to_canonical_json(cycle(cold)) == to_canonical_json(cycle(warm))


def test_limits_below_what_is_in_use_admit_nothing_new() -> None:
    snapshot = world([node("n1", 8)], [job("one", "a", role(1, 3))], teams={"a": quotas(4)})
    commit(snapshot, cycle(snapshot))
    lowered = replace(snapshot.export_quota_nodes()[0], quotas=quotas(2))
    assert lowered.usage
    snapshot.apply_delta(Delta((QuotaPut(lowered), JobPut(job("two", at=1)))))
    assert started(cycle(snapshot)) == []
    assert outcome(cycle(snapshot), "two").numbers["available"] == 0


def test_an_allocation_gone_frees_node_cards_and_quota() -> None:
    snapshot = world([node("n1")], [job("one", "a", role(1, 4)), job("two", "a", role(1, 4), at=1)])
    result = cycle(snapshot)
    assert started(result) == ["one"]
    commit(snapshot, result)
    assert started(cycle(snapshot)) == []
    snapshot.apply_delta(Delta((AllocationRemoved("one/worker/0"), JobRemoved("one"))))
    assert started(cycle(snapshot)) == ["two"]


def test_a_lost_node_may_be_removed_before_its_tasks() -> None:
    snapshot = world([node("n1"), node("n2")], [job("one", "a", role(1, 4))])
    commit(snapshot, cycle(snapshot))
    snapshot.apply_delta(Delta((NodeRemoved("n1"), AllocationRemoved("one/worker/0"))))
    assert snapshot.quota.usage("a", quotas(1)[0].key) == 0


def test_contradictions_are_refused() -> None:
    with pytest.raises(SnapshotError, match="no quota node"):
        world(queues=[queue("x")])
    with pytest.raises(SnapshotError, match="has children"):
        world(queues=[queue("x", quota_node="root")])
    with pytest.raises(SnapshotError, match="not a snapshot"):
        Snapshot.from_json('{"format": 1}')
    with pytest.raises(SnapshotError, match="no field 'colour'"):
        Snapshot.from_json(world().to_json().replace('"flavors"', '"colour"'))
    with pytest.raises(SnapshotError, match="format 3"):
        Snapshot.from_json(world().to_json().replace('"format":2', '"format":3'))


def test_text_is_the_same_whatever_the_order_of_the_parts() -> None:
    shuffled = QuotaNode(
        id="a",
        parent="root",
        quotas=(*reversed(quotas(4)), Quota(flavor="zz", resource=Resource.CPU, own_nominal=1)),
    )
    ordered = replace(shuffled, quotas=tuple(reversed(shuffled.quotas)))
    nodes = [node("n1"), node("n2")]
    texts = {
        Snapshot(
            nodes=listed,
            flavors=[flavor()],
            quota_nodes=tree,
            queues=[queue("a")],
            jobs=jobs,
        ).to_json()
        for listed, tree, jobs in (
            (nodes, [QuotaNode(id="root"), shuffled], [job("x"), job("y")]),
            (nodes[::-1], [ordered, QuotaNode(id="root")], [job("y"), job("x")]),
        )
    }
    assert len(texts) == 1
