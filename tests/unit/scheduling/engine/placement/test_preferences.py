"""Scores apart from packing: how well a node meets a task's preferences, from 0 to 100."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.engine import Delta, NodePut, run_cycle
from scheduling.engine.builtin import resolve_config
from scheduling.engine.model import (
    AffinityOperator,
    Expression,
    Flavor,
    GpuRequest,
    Node,
    PlacementRules,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    Request,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.placer import Placer
from scheduling.engine.placement.scores.preferences import (
    AffinityScore,
    BalanceScore,
    TopologyScore,
)
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.state.fleet import ALL_ROWS, Fleet
from scheduling.engine.state.pod_index import PodInfo, find_pod_info
from scheduling.engine.state.task_shape import resolve_shape
from tests.unit.scheduling.engine.builders import NOW, flavor, job, node, role, world

SOFT = Taint("old", effect=TaintEffect.PREFER_NO_SCHEDULE)


def asked(
    nodes: list[Node], request: Request | None = None, pool: Flavor | None = None, **rules: Any
) -> Question:
    pool = pool or flavor()
    return Question(Fleet(nodes), resolve_shape(request or Request(), PlacementRules(**rules), pool), pool)


def likes(weight: int, **labels: str) -> PreferredNodes:
    wishes = tuple(Expression(key, AffinityOperator.IN, (value,)) for key, value in labels.items())
    return PreferredNodes(weight, wishes)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, None),
        ({"preferred_nodes": (likes(10, disk="ssd"),)}, [100, 0, 0]),
        ({"preferred_nodes": (likes(30, disk="ssd"), likes(10, zone="b"))}, [75, 25, 0]),
        ({"preferred_nodes": (likes(1, disk="ssd", zone="b"),)}, [0, 0, 0]),
        ({"preferred_nodes": (PreferredNodes(5, ()),)}, [0, 0, 0]),
    ],
)
def test_preferred_nodes(rules: dict[str, Any], expected: list[int] | None) -> None:
    nodes = [node("a", labels={"disk": "ssd", "zone": "a"}), node("b", labels={"zone": "b"}), node("c")]
    question = asked(nodes, **rules)
    assert AffinityScore().applies(question) == (expected is not None)
    if expected is not None:
        assert AffinityScore().score(question, ALL_ROWS).tolist() == expected


def test_taints_that_would_rather_not() -> None:
    nodes = [node("a"), node("b", taints=(SOFT,)), node("c", taints=(SOFT, replace(SOFT, key="slow")))]
    assert AffinityScore().score(asked(nodes), ALL_ROWS).tolist() == [100, 50, 33]
    every = (Toleration(operator=TolerationOperator.EXISTS),)
    assert AffinityScore().score(asked(nodes, tolerations=every), ALL_ROWS).tolist() == [100, 100, 100]
    mixed = asked([*nodes[:2], node("d", labels={"disk": "ssd"})], preferred_nodes=(likes(100, disk="ssd"),))
    assert AffinityScore().score(mixed, ALL_ROWS).tolist() == [50, 25, 100]


def test_preferred_and_avoided_neighbours() -> None:
    nodes = [node(name, labels={"zone": zone}) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))]
    wish = PreferredPods(40, PodTerm("zone", (Expression("app", AffinityOperator.IN, ("db",)),)))
    for rules, before, after in (
        ({"preferred_pods": (wish,)}, [0, 0, 0], [100, 100, 0]),
        ({"avoided_pods": (wish,)}, [100, 100, 100], [0, 0, 100]),
    ):
        question = asked(nodes, namespace="ws", **rules)
        assert AffinityScore().score(question, ALL_ROWS).tolist() == before
        seen = question.affinity_version()
        database = find_pod_info(PlacementRules(namespace="ws", labels={"app": "db"}))
        assert database is not None
        question.fleet.pod_index.add_pod("db/0", 1, database)
        assert question.affinity_version() != seen
        assert AffinityScore().score(question, ALL_ROWS).tolist() == after


def test_a_group_is_placed_nearby() -> None:
    labels = {"a": ("z1", "r1"), "b": ("z1", "r1"), "c": ("z1", "r2"), "d": ("z2", "r3")}
    nodes = [node(name, labels={"zone": zone, "rack": rack}) for name, (zone, rack) in labels.items()]
    question = asked(nodes, pool=flavor(topology=("zone", "rack")), group="gang")
    assert TopologyScore().score(question, ALL_ROWS).tolist() == [0, 0, 0, 0]
    question.fleet.pod_index.add_pod("gang/0", 0, PodInfo(group="gang"))
    assert TopologyScore().score(question, ALL_ROWS).tolist() == [100, 66, 33, 0]


def test_balance_points_where_the_request_points() -> None:
    three_quarters = {"used_cores": 75, "holders": 1}
    nodes = [node("a-even"), node("b-cards", used_cpu=48_000), node("c-cpu", device=three_quarters)]
    fair, cards, cpu = (
        BalanceScore().score(asked(nodes, request), ALL_ROWS).tolist()
        for request in (
            Request(cpu=16_000, gpu=GpuRequest()),
            Request(gpu=GpuRequest()),
            Request(cpu=16_000),
        )
    )
    assert fair[0] == 100 and fair[1] == fair[2] < 100
    assert cards[1] == max(cards) and cpu[2] == max(cpu)
    assert BalanceScore().score(asked(nodes), ALL_ROWS).tolist() == [0, 0, 0]


class TestPolicies:
    """The choice of nodes by a flavor's policy."""

    def choice(self, policy: str, nodes: list[Node], request: Request, rules: PlacementRules) -> str | None:
        pool = flavor(policy=policy)
        placer = Placer(Fleet(nodes), resolve_config(EngineConfig()).rule)
        seat = placer.find_placement(resolve_shape(request, rules, pool), pool)
        return seat.node if seat else None

    @pytest.mark.parametrize("policy", ["compact", "spread", "affinity", "balance", "default"])
    def test_a_stated_wish_outweighs_packing(self, policy: str) -> None:
        half = node("half", used_cpu=32_000, device={"used_cores": 50, "holders": 1})
        part = role(1, 1, cpu=1_000, cores=20, card_memory=0).request
        wishes = [PlacementRules(preferred_nodes=(likes(1, disk=kind),)) for kind in ("ssd", "hdd")]
        nodes = [replace(half, labels={"disk": "hdd"}), node("idle", labels={"disk": "ssd"})]
        assert [self.choice(policy, nodes, part, wish) for wish in wishes] == ["idle", "half"]

    def test_packing_decides_among_equals(self) -> None:
        nodes = [node("empty"), node("half", device={"used_cores": 50, "holders": 1})]
        part = role(1, 1, cores=20, card_memory=0).request
        for policy in ("compact", "affinity", "topology", "default"):
            assert self.choice(policy, nodes, part, PlacementRules()) == "half"

    def test_a_taint_that_comes_later_is_respected(self) -> None:
        snapshot = world([node("a"), node("b")])
        pool, rule = flavor(), resolve_config(EngineConfig()).rule
        task = resolve_shape(role().request, PlacementRules(), pool)
        placer = Placer(snapshot.fleet, rule)
        board = placer.get_board(task, pool)
        assert board.find_best_row() == 0
        assert snapshot.fleet.update_node(replace(snapshot.fleet.nodes[0], taints=(SOFT,)))
        assert board.find_best_row() == 1
        assert snapshot.fleet.update_node(replace(snapshot.fleet.nodes[0], taints=()))
        assert board.find_best_row() == 0

    def test_a_whole_cycle_respects_preferences(self) -> None:
        wish = PlacementRules(preferred_nodes=(likes(1, disk="ssd"),))
        snapshot = world([node("a"), node("b")], [job("j", rules=wish)])
        labelled = replace(snapshot.fleet.nodes[1], labels={"disk": "ssd"})
        snapshot.apply_delta(Delta((NodePut(labelled),)))
        result = run_cycle(snapshot, EngineConfig(), NOW)
        assert [task.node for task in result.decisions[0].allocations] == ["b"]
