"""The nodes that accept a task, and the codes under which the others refuse it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.engine.model import (
    AffinityOperator,
    Expression,
    GpuMode,
    Node,
    PlacementRules,
    Role,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from scheduling.engine.placement.explain import count_refused_nodes
from scheduling.engine.placement.filters.vetoes import VETOES
from scheduling.engine.placement.placer import PlacementRule, Placer
from scheduling.engine.placement.scores.devices import BestFitDevices
from scheduling.engine.placement.scores.packing_scores import CompactScore
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import resolve_shape
from tests.unit.scheduling.engine.builders import CARD_MIB, flavor, node, role

RULE = PlacementRule(VETOES, (("compact", ((CompactScore(), 1),)),), BestFitDevices())


def refused(candidate: Node, asked: Role, rules: PlacementRules | None = None) -> list[str]:
    """The code under which one node refuses, or nothing; checked against the placer's own answer."""
    fleet, pool = Fleet([candidate]), flavor()
    placer = Placer(fleet, RULE)
    task = resolve_shape(asked.request, rules or PlacementRules(), pool)
    found = list(count_refused_nodes(placer.get_board(task, pool)))
    assert (placer.find_placement(task, pool) is None) == bool(found)
    return [code.removeprefix("refused.") for code in found]


@pytest.mark.parametrize(
    ("facts", "asked", "code"),
    [
        ({}, {}, None),
        ({"ready": False}, {}, "node-ready"),
        ({"schedulable": False}, {}, "cordon"),
        ({"used_cpu": 63_500}, {"cpu": 500}, None),
        ({"used_cpu": 63_501}, {"cpu": 500}, "cpu"),
        ({"used_cpu": 65_000}, {"cpu": 0}, None),
        ({"used_memory": 524_287}, {"memory": 1}, None),
        ({"used_memory": 524_288}, {"memory": 1}, "memory"),
        ({"cards": 2}, {"cards": 3}, "cards"),
        ({"cards": 0}, {"cards": 0}, None),
        ({"model": "T4"}, {"models": ("A100", "L40S")}, "card-model"),
        ({"model": "L40S"}, {"models": ("A100", "L40S")}, None),
        ({"device": {"healthy": False}}, {}, "card-health"),
        ({"device": {"mode": GpuMode.WHOLE}}, {}, None),
        ({"device": {"mode": GpuMode.WHOLE}}, {"cores": 30}, "gpu-mode"),
        ({"device": {"mode": GpuMode.MIG}}, {}, "gpu-mode"),
        ({"device": {"holders": 1, "used_cores": 1}}, {}, "card-cores"),
        ({"device": {"used_memory": 1}}, {}, "card-memory"),
        ({"device": {"used_cores": 70, "holders": 1}}, {"cores": 30}, None),
        ({"device": {"used_cores": 71, "holders": 1}}, {"cores": 30}, "card-cores"),
        ({"device": {"used_cores": 71, "holders": 1}}, {"cores": 100}, "card-cores"),
        ({"device": {"exclusive": True, "holders": 1}}, {"cores": 1, "card_memory": 0}, "card-cores"),
        ({"device": {"used_memory": CARD_MIB - 9}}, {"cores": 1, "card_memory": 9}, None),
        ({"device": {"used_memory": CARD_MIB - 9}}, {"cores": 1, "card_memory": 10}, "card-memory"),
    ],
)
def test_capacity(facts: dict[str, Any], asked: dict[str, Any], code: str | None) -> None:
    facts = dict(facts)
    candidate = node("n1", facts.pop("cards", 4), **facts)
    assert refused(candidate, role(1, asked.pop("cards", 1), **asked)) == ([code] if code else [])


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        (Expression("zone", AffinityOperator.IN, ("z1", "z2")), True),
        (Expression("zone", AffinityOperator.IN, ("z2",)), False),
        (Expression("zone", AffinityOperator.NOT_IN, ("z2",)), True),
        (Expression("rack", AffinityOperator.NOT_IN, ("r1",)), True),
        (Expression("zone", AffinityOperator.NOT_IN, ("z1",)), False),
        (Expression("zone", AffinityOperator.EXISTS), True),
        (Expression("rack", AffinityOperator.EXISTS), False),
        (Expression("rack", AffinityOperator.DOES_NOT_EXIST), True),
        (Expression("zone", AffinityOperator.DOES_NOT_EXIST), False),
        (Expression("cpus", AffinityOperator.GT, ("7",)), True),
        (Expression("cpus", AffinityOperator.GT, ("8",)), False),
        (Expression("cpus", AffinityOperator.LT, ("9",)), True),
        (Expression("cpus", AffinityOperator.LT, ("8",)), False),
        (Expression("zone", AffinityOperator.GT, ("1",)), False),
        (Expression("rack", AffinityOperator.LT, ("1",)), False),
        (Expression("cpus", AffinityOperator.GT), False),
    ],
)
def test_affinity_operators(expression: Expression, matches: bool) -> None:
    candidate = node("n1", labels={"zone": "z1", "cpus": "8"})
    rules = PlacementRules(node_affinity=((expression,),))
    assert refused(candidate, role(), rules) == ([] if matches else ["node-affinity"])


def test_terms_are_alternatives_and_expressions_add_up() -> None:
    candidate = node("n1", labels={"zone": "z1", "disk": "hdd"})
    zone = Expression("zone", AffinityOperator.IN, ("z1",))
    ssd = Expression("disk", AffinityOperator.IN, ("ssd",))
    assert refused(candidate, role(), PlacementRules(node_affinity=((zone, ssd),))) == ["node-affinity"]
    assert refused(candidate, role(), PlacementRules(node_affinity=((ssd,), (zone,)))) == []
    assert refused(candidate, role(), PlacementRules(node_affinity=((),))) == ["node-affinity"]


def test_node_name_and_selector() -> None:
    candidate = node("id-1", name="gpu-node-1", labels={"disk": "ssd"})
    assert refused(candidate, role(), PlacementRules(node_name="gpu-node-1")) == []
    assert refused(candidate, role(), PlacementRules(node_name="id-1")) == ["node-name"]
    assert refused(candidate, role(), PlacementRules(node_selector={"disk": "ssd"})) == []
    assert refused(candidate, role(), PlacementRules(node_selector={"disk": "hdd"})) == ["node-selector"]


@pytest.mark.parametrize(
    ("taint", "toleration", "tolerated"),
    [
        (Taint("gpu", "yes"), None, False),
        (Taint("gpu", "yes", TaintEffect.NO_EXECUTE), None, False),
        (Taint("gpu", "yes", TaintEffect.PREFER_NO_SCHEDULE), None, True),
        (Taint("gpu", "yes"), Toleration("gpu", value="yes"), True),
        (Taint("gpu", "yes"), Toleration("gpu", value="no"), False),
        (Taint("gpu", "yes"), Toleration("gpu", TolerationOperator.EXISTS), True),
        (Taint("gpu", "yes"), Toleration("", TolerationOperator.EXISTS), True),
        (Taint("gpu", "yes"), Toleration("cpu", TolerationOperator.EXISTS), False),
        (
            Taint("gpu", "yes", TaintEffect.NO_EXECUTE),
            Toleration("gpu", TolerationOperator.EXISTS, effect=TaintEffect.NO_SCHEDULE),
            False,
        ),
    ],
)
def test_taints(taint: Taint, toleration: Toleration | None, tolerated: bool) -> None:
    rules = PlacementRules(tolerations=(toleration,) if toleration else ())
    assert refused(node("n1", taints=(taint,)), role(), rules) == ([] if tolerated else ["taint"])


def test_a_flavor_is_its_cluster_and_its_labels() -> None:
    nodes = [
        node("n1", cluster="east", labels={"pool": "x"}),
        node("n2", cluster="west", labels={"pool": "x"}),
        node("n3", cluster="east"),
    ]
    pool = flavor(cluster="east", node_labels={"pool": "x"})
    placer = Placer(Fleet(nodes), RULE)
    task = resolve_shape(role().request, PlacementRules(), pool)
    assert placer.get_board(task, pool).feasible_rows().tolist() == [True, False, False]
