"""Whether a role may use a flavor at all."""

from __future__ import annotations

import pytest

from scheduling.engine.model import (
    AffinityOperator,
    Expression,
    Extended,
    Flavor,
    GpuRequest,
    Instant,
    Job,
    PlacementRules,
    Request,
    ResourceGroup,
    Role,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    TopologyMode,
    TopologyRule,
)
from scheduling.engine.quota.flavors import Mismatch, find_mismatch

ALL = ResourceGroup()
SPOT = Taint("spot", "yes")
TOLERANT = Toleration("spot", TolerationOperator.EXISTS)


def check(
    flavor: Flavor,
    rules: PlacementRules | None = None,
    *,
    request: Request | None = None,
    topology: TopologyRule | None = None,
    group: ResourceGroup = ALL,
    mixed: bool = False,
) -> Mismatch | None:
    role = Role(name="r", replicas=1, request=request or Request(cpu=1), topology=topology)
    job = Job(id="j", queue="q", roles=(role,), submitted_at=Instant(0.0), rules=rules or PlacementRules())
    return find_mismatch(flavor, job, role, group, mixed=mixed)


def term(key: str, *values: str) -> tuple[Expression, ...]:
    return (Expression(key, AffinityOperator.IN, values),)


@pytest.mark.parametrize(
    ("flavor", "rules", "expected"),
    [
        (Flavor(id="f", taints=(SPOT,)), PlacementRules(), Mismatch.TAINT),
        (Flavor(id="f", taints=(SPOT,)), PlacementRules(tolerations=(TOLERANT,)), None),
        (Flavor(id="f", taints=(SPOT,), tolerations=(TOLERANT,)), PlacementRules(), None),
        (
            Flavor(id="f", taints=(Taint("spot", "yes", TaintEffect.PREFER_NO_SCHEDULE),)),
            PlacementRules(),
            None,
        ),
        (
            Flavor(id="f", taints=(Taint("spot", "yes", TaintEffect.NO_EXECUTE),)),
            PlacementRules(),
            Mismatch.TAINT,
        ),
        (Flavor(id="f", node_labels={"x": "a"}), PlacementRules(node_selector={"x": "a"}), None),
        (Flavor(id="f", node_labels={"x": "a"}), PlacementRules(node_selector={"x": "b"}), Mismatch.LABELS),
        # A label that the flavor does not speak of is no matter of the flavor.
        (Flavor(id="f", node_labels={"x": "a"}), PlacementRules(node_selector={"y": "b"}), None),
        (Flavor(id="f", node_labels={"x": "a"}), PlacementRules(node_affinity=(term("x", "a", "b"),)), None),
        (
            Flavor(id="f", node_labels={"x": "a"}),
            PlacementRules(node_affinity=(term("x", "b"),)),
            Mismatch.LABELS,
        ),
        # One term is enough, and one that speaks of other labels only holds here.
        (
            Flavor(id="f", node_labels={"x": "a"}),
            PlacementRules(node_affinity=(term("x", "b"), term("x", "a"))),
            None,
        ),
        (
            Flavor(id="f", node_labels={"x": "a"}),
            PlacementRules(node_affinity=(term("x", "b"), term("y", "k"))),
            None,
        ),
        (
            Flavor(id="f", node_labels={"x": "a"}),
            PlacementRules(node_affinity=((*term("x", "b"), *term("y", "k")),)),
            Mismatch.LABELS,
        ),
    ],
)
def test_taints_and_labels(flavor: Flavor, rules: PlacementRules, expected: Mismatch | None) -> None:
    assert check(flavor, rules) is expected


@pytest.mark.parametrize(
    ("models", "model", "expected"),
    [
        (("A", "B"), "A", None),
        (("B",), "A", Mismatch.CARD_MODEL),
        ((), "A", None),
        (("B",), "", None),
    ],
)
def test_card_models(models: tuple[str, ...], model: str, expected: Mismatch | None) -> None:
    request = Request(gpu=GpuRequest(cards=1, models=models))
    assert check(Flavor(id="f", card_model=model), request=request) is expected


RACK = TopologyRule(level="rack", mode=TopologyMode.REQUIRED)
TOGETHER = TopologyRule(companions="g")


@pytest.mark.parametrize(
    ("flavor", "rule", "mixed", "expected"),
    [
        (Flavor(id="f", topology=("rack", "host"), topology_aware=True), RACK, False, None),
        # A role's own topology is placed by actions of other packages alone.
        (Flavor(id="f", topology=("rack", "host")), RACK, False, Mismatch.LEVEL),
        (Flavor(id="f", topology=("zone",)), RACK, False, Mismatch.LEVEL),
        (Flavor(id="f", placed=False), RACK, True, Mismatch.NO_NODES),
        (Flavor(id="f"), None, True, Mismatch.NODES_ONLY),
        (Flavor(id="f"), TOGETHER, True, Mismatch.NODES_ONLY),
        (Flavor(id="f"), None, False, None),
        (Flavor(id="f", placed=False), None, True, None),
    ],
)
def test_topology(flavor: Flavor, rule: TopologyRule | None, mixed: bool, expected: Mismatch | None) -> None:
    assert check(flavor, topology=rule, mixed=mixed) is expected


def test_what_no_node_offers_may_come_from_a_flavor_without_nodes() -> None:
    request = Request(cpu=1, charged=(Extended("credits", 1),))
    quota_only = Flavor(id="f", placed=False)
    group = ResourceGroup(("credits",), ("f",))
    assert check(quota_only, request=request, topology=RACK, group=group, mixed=True) is None
    plain = ResourceGroup(("cpu",), ("f",))
    found = check(quota_only, request=request, topology=RACK, group=plain, mixed=True)
    assert found is Mismatch.NO_NODES
