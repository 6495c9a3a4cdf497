"""A job's reason names a volume claim only if the claim decides, and with correct figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling import engine
from scheduling.engine.model import (
    NODE_NAME_FIELD,
    ClaimState,
    Job,
    JobOutcome,
    MountedVolume,
    Node,
    PlacementRules,
    Reason,
    TopologyMode,
    TopologyRule,
)
from scheduling.engine.state.snapshot import Snapshot
from tests.unit.scheduling.engine.builders import (
    cycle,
    flavor,
    job,
    node,
    outcome,
    queue,
    quotas,
    role,
    world,
)
from tests.unit.scheduling.engine.placement.test_volume_claims import in_zone, inside, mounting, nodes_of

RACK = TopologyRule(level="rack", mode=TopologyMode.REQUIRED)


def in_rack(name: str, rack: str, zone: str, cards: int = 2) -> Node:
    made = in_zone(name, zone, cards)
    return replace(made, labels={**made.labels, "rack": rack})


def last_outcome(nodes: list[Node], *jobs: Job) -> JobOutcome:
    """Return the outcome of the last job."""
    return outcome(cycle(world(nodes, list(jobs))), jobs[-1].id)


@pytest.mark.parametrize("busy", [True, False])
def test_no_claim_is_named_where_no_domain_would_hold_the_job_without_it(busy: bool) -> None:
    """Checked in the empty cell, and with others on half of each rack."""
    cards = 4 if busy else 2
    nodes = [
        in_rack("n1", "r1", "a", cards),
        in_rack("n2", "r2", "a", cards),
        in_rack("n3", "r3", "b", cards),
    ]
    others = [job(f"other-{at}", "a", role(1, 2)) for at in range(3)] if busy else []
    pinned = [replace(each, rules=PlacementRules(node_name=f"n{at + 1}")) for at, each in enumerate(others)]
    gang = job("j", "a", role(4, 1), at=1, topology=RACK)
    with_claim = replace(
        gang, rules=PlacementRules(volume_claims=(MountedVolume("data", terms=inside("a")),))
    )
    plain, mounted = last_outcome(nodes, *pinned, gang), last_outcome(nodes, *pinned, with_claim)
    assert plain.reason is (Reason.NO_ROOM if busy else Reason.NEVER_FITS)
    assert (mounted.reason, "claim" in mounted.numbers) == (plain.reason, False)
    assert mounted.numbers["available"] == plain.numbers["available"] == 2


@pytest.mark.parametrize("busy", [True, False])
def test_the_claim_is_named_with_the_level_where_a_domain_would_hold_the_job_without_it(busy: bool) -> None:
    cards = 4 if busy else 2
    nodes = [in_rack("n1", "r1", "a", cards), in_rack("n2", "r2", "a", cards), in_rack("n3", "r3", "b", 4)]
    others = [
        job(f"other-{at}", "a", role(1, 2), rules=PlacementRules(node_name=name))
        for at, name in enumerate(("n1", "n2") if busy else ())
    ]
    claim = MountedVolume("data", terms=inside("a"))
    gang = job("j", "a", role(4, 1), at=1, topology=RACK, rules=PlacementRules(volume_claims=(claim,)))
    found = last_outcome(nodes, *others, gang)
    assert found.reason is (Reason.VOLUME_NODE_CONFLICT if busy else Reason.VOLUME_NODES_TOO_SMALL)
    facts = {name: found.numbers[name] for name in ("claim", "level", "available", "asked")}
    assert facts == {"claim": "data", "level": "rack", "available": 2, "asked": 4}


def test_claims_that_exclude_all_nodes_only_together_are_all_named() -> None:
    nodes = [in_zone("n1", "a"), in_zone("n2", "b")]
    east, west = MountedVolume("east", terms=inside("a")), MountedVolume("west", terms=inside("b"))
    found = last_outcome(nodes, mounting("j", east, west))
    assert found.reason is Reason.VOLUME_NODES_TOO_SMALL
    assert (found.numbers["claims"], found.numbers["suitable_nodes"]) == ("east,west", 2)
    nowhere = MountedVolume("nowhere", terms=inside("c"))
    found = last_outcome(nodes, mounting("j", east, nowhere))  # `nowhere` alone excludes all nodes
    assert (found.numbers["claim"], "claims" in found.numbers) == ("nowhere", False)
    assert found.numbers["suitable_nodes"] == 2


def test_the_role_that_no_flavor_holds_is_named() -> None:
    nodes = [in_zone("n1", "a", 1), in_zone("n2", "b", 8)]
    nodes = [replace(each, labels={**each.labels, "pool": each.hostname}) for each in nodes]
    flavors = [flavor("f1", node_labels={"pool": "n1"}), flavor("f2", node_labels={"pool": "n2"})]
    claim = MountedVolume("data", terms=inside("a"))
    roles = (role(1, 1, name="launcher"), role(1, 8, name="worker"))
    asked = job("j", "a", *roles, rules=PlacementRules(volume_claims=(claim,)))
    made = world(
        nodes,
        [asked],
        teams={"a": quotas(100, flavors=("f1", "f2"))},
        flavors=flavors,
        queues=[queue("a", flavors=("f1", "f2"))],
    )
    found = outcome(cycle(made), "j")
    assert found.reason is Reason.VOLUME_NODES_TOO_SMALL
    assert (found.numbers["role"], found.numbers["flavor"]) == ("worker", "f2")


def _two_clusters(asked: Job, *nodes: Node) -> Snapshot:
    return world(
        list(nodes),
        [asked],
        teams={"a": quotas(100, flavors=("f1", "f2"))},
        flavors=[flavor("f1", cluster="east"), flavor("f2", cluster="west")],
        queues=[queue("a", flavors=("f1", "f2"))],
    )


def test_a_cluster_that_would_not_hold_the_job_without_claims_is_not_named() -> None:
    nodes = [in_zone("n1", "a", 1, cluster="east"), in_zone("n2", "a", 8, cluster="west")]
    claims = (
        MountedVolume("data", "east", terms=inside("b")),
        MountedVolume("data", "west", terms=inside("b")),
    )
    roles = (role(1, 1, name="launcher"), role(1, 8, name="worker"))
    asked = job("j", "a", *roles, rules=PlacementRules(volume_claims=claims))
    found = outcome(cycle(_two_clusters(asked, *nodes)), "j")
    assert (found.reason, found.numbers["flavor"]) == (Reason.VOLUME_NODES_TOO_SMALL, "f2")


def test_a_job_that_one_cluster_admits_is_not_said_to_never_fit() -> None:
    nodes = [node("n1", cluster="east"), node("n2", cluster="west")]
    claims = (MountedVolume("data", "east", ClaimState.MISSING), MountedVolume("data", "west"))
    asked = mounting("j", *claims)
    made = _two_clusters(asked, *nodes)
    assert engine.never_fits(made, asked) is None
    assert nodes_of(cycle(made), "j") == {"n2"}


def for_node(name: str, claim: str = "data") -> MountedVolume:
    """Return the claim of a volume that is created for a node."""
    return MountedVolume(claim, terms=inside(name, key=NODE_NAME_FIELD), temporary=True)


def test_a_volume_that_does_not_exist_yet_never_makes_a_job_unschedulable() -> None:
    """The gang runs on two nodes once the volume exists, and before only on the selected one."""
    nodes = [in_zone("n1", "a", 8), in_zone("n2", "b", 8)]
    gang = job("j", "a", role(2, 5), rules=PlacementRules(volume_claims=(for_node("n1"),)))
    found = last_outcome(nodes, gang)
    assert found.reason is Reason.VOLUME_NODE_CONFLICT
    facts = {name: found.numbers[name] for name in ("claim", "uncreated_claim", "excluded_nodes")}
    assert facts == {"claim": "data", "uncreated_claim": "data", "excluded_nodes": 1}
    assert engine.never_fits(world(nodes, [gang]), gang) is None
    existing = replace(for_node("n1"), temporary=False)
    lasting = replace(gang, rules=PlacementRules(volume_claims=(existing,)))
    assert last_outcome(nodes, lasting).reason is Reason.VOLUME_NODES_TOO_SMALL


@pytest.mark.parametrize("other", ["n2", "gone"])
def test_volumes_that_do_not_exist_yet_and_exclude_all_nodes_are_a_conflict(other: str) -> None:
    nodes = [in_zone("n1", "a", 8), in_zone("n2", "b", 8)]
    found = last_outcome(nodes, mounting("j", for_node("n1"), for_node(other, "home")))
    assert found.reason is Reason.VOLUME_NODE_CONFLICT
    assert found.numbers["uncreated_claim"] == ("data" if other == "n2" else "home")


def test_the_reason_of_a_job_too_large_without_the_new_volume_too_does_not_name_it() -> None:
    nodes = [in_zone("n1", "a", 8), in_zone("n2", "b", 8)]
    found = last_outcome(nodes, mounting("j", for_node("n1"), cards=9))
    assert (found.reason, "claim" in found.numbers) == (Reason.NEVER_FITS, False)


def test_a_lasting_claim_is_named_before_one_whose_volume_does_not_exist_yet() -> None:
    nodes = [in_zone("n1", "a", 2), in_zone("n2", "b", 4)]
    home = MountedVolume("home", terms=inside("a"))
    first = job("first", "a", role(1, 2), rules=PlacementRules(node_name="n1"))
    found = last_outcome(nodes, first, replace(mounting("j", for_node("n1"), home), submitted_at=1))
    assert (found.reason, found.numbers["claim"]) == (Reason.VOLUME_NODE_CONFLICT, "home")
    assert "uncreated_claim" not in found.numbers
    # Such a claim alone makes a job unschedulable.
    found = last_outcome(nodes, mounting("j", for_node("n1"), home, cards=4))
    assert (found.reason, found.numbers["claim"]) == (Reason.VOLUME_NODES_TOO_SMALL, "home")
