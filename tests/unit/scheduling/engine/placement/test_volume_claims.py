"""Tasks run where all their volumes can be mounted, and reasons name the claim that prevents it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling import engine
from scheduling.engine.model import (
    NODE_NAME_FIELD,
    AffinityOperator,
    ClaimState,
    CycleResult,
    DecisionKind,
    Expression,
    HelpCode,
    Job,
    MountedVolume,
    Node,
    PlacementRules,
    Reason,
)
from scheduling.engine.placement.index.volumes import can_mount
from tests.unit.scheduling.engine.builders import (
    cycle,
    flavor,
    job,
    node,
    outcome,
    queue,
    quotas,
    role,
    ways_of,
    world,
)

ZONE = "topology.kubernetes.io/zone"


def inside(*zones: str, key: str = ZONE) -> tuple[tuple[Expression, ...], ...]:
    return ((Expression(key, AffinityOperator.IN, zones),),)


def mounting(name: str, *claims: MountedVolume, asked: int = 1, cards: int = 1) -> Job:
    return job(name, "a", role(asked, cards), rules=PlacementRules(volume_claims=claims))


def in_zone(name: str, zone: str, cards: int = 4, **facts: object) -> Node:
    made = node(name, cards, **facts)
    return replace(made, labels={**made.labels, ZONE: zone})


NODES = (in_zone("n1", "a", 2), in_zone("n2", "b", 4))


def nodes_of(result: CycleResult, name: str) -> set[str]:
    return {
        task.node
        for decision in result.decisions
        if decision.job == name and decision.kind is DecisionKind.ADMIT
        for task in decision.allocations
    }


def test_a_job_runs_in_the_zone_of_its_volume() -> None:
    free = cycle(world([*NODES], [mounting("j")]))
    home = nodes_of(free, "j").pop()
    for zone, name in (("a", "n1"), ("b", "n2")):
        result = cycle(world([*NODES], [mounting("j", MountedVolume("data", terms=inside(zone)))]))
        assert nodes_of(result, "j") == {name}, (zone, home)


def test_all_volumes_must_be_reachable_and_one_term_of_each_is_enough() -> None:
    east, west = MountedVolume("east", terms=inside("a")), MountedVolume("west", terms=inside("b"))
    both = MountedVolume("both", terms=(*inside("a"), *inside("b")))
    assert nodes_of(cycle(world([*NODES], [mounting("j", both, west)])), "j") == {"n2"}
    result = cycle(world([*NODES], [mounting("j", east, west)]))
    assert outcome(result, "j").reason is Reason.VOLUME_NODES_TOO_SMALL


def test_a_term_may_name_a_node() -> None:
    claim = MountedVolume("data", terms=inside("n1", key=NODE_NAME_FIELD))
    assert [can_mount(node, claim) for node in NODES] == [True, False]
    assert not can_mount(NODES[0], MountedVolume("data", terms=((),)))


def test_the_reason_names_the_claim_when_its_zone_is_full() -> None:
    data = MountedVolume("data", terms=inside("a"))
    result = cycle(world([*NODES], [mounting("first", data, cards=2), mounting("second", data)]))
    assert nodes_of(result, "first") == {"n1"}
    found = outcome(result, "second")
    assert found.reason is Reason.VOLUME_NODE_CONFLICT
    assert {key: found.numbers[key] for key in ("claim", "excluded_nodes", "available", "asked")} == {
        "claim": "data", "excluded_nodes": 1, "available": 0, "asked": 1,
    }  # fmt: skip


def test_a_full_cell_is_reported_as_such() -> None:
    data = MountedVolume("data", terms=inside("a"))
    full = [mounting("first", cards=4), mounting("second", cards=2)]
    result = cycle(world([*NODES], [*full, mounting("third", data)]))
    found = outcome(result, "third")
    assert (found.reason, "claim" in found.numbers) == (Reason.NO_ROOM, False)


def test_the_reason_of_a_job_that_no_reachable_node_could_hold_names_its_claim() -> None:
    data = MountedVolume("data", terms=inside("a"))
    result = cycle(world([*NODES], [mounting("j", data, cards=4)]))
    found = outcome(result, "j")
    assert (found.reason, found.numbers["claim"]) == (Reason.VOLUME_NODES_TOO_SMALL, "data")
    assert found.numbers["suitable_nodes"] == 1
    assert ways_of(found)[HelpCode.ASK_FEWER_CARDS]["cards"] == 2
    too_large = cycle(world([*NODES], [mounting("j", data, cards=8)]))
    assert outcome(too_large, "j").reason is Reason.NEVER_FITS


@pytest.mark.parametrize("state", [state for state in ClaimState if state is not ClaimState.BOUND])
def test_a_claim_that_is_not_bound_keeps_the_job_from_every_node(state: ClaimState) -> None:
    claim = MountedVolume("data", state=state)
    result = cycle(world([*NODES], [mounting("j", MountedVolume("ok"), claim)]))
    found = outcome(result, "j")
    unread = state is ClaimState.UNREAD
    assert found.reason is (Reason.VOLUME_CLAIM_UNREAD if unread else Reason.VOLUME_CLAIM_NOT_BOUND)
    assert found.numbers["claim"] == found.numbers[f"{state}_claim"] == "data"
    assert not found.help


def test_no_recommendation_is_about_rules_that_do_not_help() -> None:
    claim = MountedVolume("data", state=ClaimState.MISSING)
    rules = PlacementRules(node_selector={"disk": "ssd"}, volume_claims=(claim,))
    result = cycle(world([*NODES], [job("j", rules=rules)]))
    assert outcome(result, "j").reason is Reason.NEVER_FITS  # by the selector alone
    assert HelpCode.LOOSEN_PLACEMENT not in ways_of(outcome(result, "j"))


def test_each_cluster_has_its_own_claims() -> None:
    nodes = [node("n1", cluster="east"), node("n2", cluster="west")]
    flavors = [flavor("f1", cluster="east"), flavor("f2", cluster="west")]
    claims = (
        MountedVolume("data", "east", ClaimState.MISSING),
        MountedVolume("data", "west", terms=inside("n2", key=NODE_NAME_FIELD)),
    )
    teams = {"a": quotas(100, flavors=("f1", "f2"))}
    made = world(
        nodes,
        [mounting("j", *claims)],
        teams=teams,
        flavors=flavors,
        queues=[queue("a", flavors=("f1", "f2"))],
    )
    assert nodes_of(cycle(made), "j") == {"n2"}


def test_saved_cycles_without_claims_are_read() -> None:
    rules = PlacementRules(volume_claims=(MountedVolume("data", "east", ClaimState.LOST, inside("a")),))
    assert engine.decode(PlacementRules, engine.encode(rules)) == rules
    old = engine.encode(PlacementRules())
    del old["volume_claims"]
    assert engine.decode(PlacementRules, old) == PlacementRules()
