"""Pod affinity and anti-affinity by Kubernetes' rules, in snapshots where tasks come and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduling.engine import AllocationPut, AllocationRemoved, Delta, JobPut, JobRemoved, NodePut, Snapshot
from scheduling.engine.builtin import resolve_config
from scheduling.engine.model import (
    AffinityOperator,
    Allocation,
    Expression,
    Job,
    JobState,
    PlacementRules,
    PodTerm,
    Reason,
)
from scheduling.engine.placement.placer import Placer, placer_for
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.state.task_shape import resolve_shape
from tests.unit.scheduling.engine.builders import (
    commit,
    cycle,
    flavor,
    job,
    node,
    outcome,
    role,
    started,
    world,
)

ZONE, HOST = "zone", "kubernetes.io/hostname"
# Two zones of two nodes, and one node in none.
PLACES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "lone": None}
ALL = set(PLACES)


def is_app(*values: str) -> Expression:
    return Expression("app", AffinityOperator.IN, values)


def term(key: str, *expressions: Expression, namespaces: tuple[str, ...] = ()) -> PodTerm:
    return PodTerm(key, expressions, namespaces)


def rules(app: str = "", namespace: str = "ws", **facts: Any) -> PlacementRules:
    return PlacementRules(namespace=namespace, labels={"app": app} if app else {}, **facts)


def running(name: str, where: str, given: PlacementRules) -> tuple[Job, Allocation]:
    held = Allocation(job=name, queue="a", role="worker", index=0, flavor="a100", node=where)
    return job(name, rules=given, state=JobState.LIVE), held


def place(there: Mapping[str, tuple[str, PlacementRules]]) -> Snapshot:
    snapshot = world(node(name, labels={} if zone is None else {ZONE: zone}) for name, zone in PLACES.items())
    for name, (where, given) in there.items():
        known, held = running(name, where, given)
        snapshot.apply_delta(Delta((JobPut(known), AllocationPut(held))))
    return snapshot


def open_to(snapshot: Snapshot, asked: PlacementRules) -> set[str]:
    """Return the nodes that accept a task; an updated board and a new one must agree."""
    pool = flavor()
    task = resolve_shape(role(1, 0).request, asked, pool)
    rule = resolve_config(EngineConfig()).rule
    warm = placer_for(snapshot.fleet, rule).get_board(task, pool).feasible_rows()
    assert warm.tolist() == Placer(snapshot.fleet, rule).get_board(task, pool).feasible_rows().tolist()
    return {entry.id for entry, free in zip(snapshot.fleet.nodes, warm.tolist(), strict=True) if free}


DB, WEB = is_app("db"), is_app("web")


@pytest.mark.parametrize(
    ("there", "asked", "expected"),
    [
        # Affinity: in the domain of a matching task.
        ({"d": ("a1", rules("db"))}, rules(pod_affinity=(term(ZONE, DB),)), {"a1", "a2"}),
        ({"d": ("a1", rules("db"))}, rules(pod_affinity=(term(HOST, DB),)), {"a1"}),
        ({"d": ("a1", rules("web"))}, rules(pod_affinity=(term(ZONE, DB),)), set()),
        ({"d": ("lone", rules("db"))}, rules(pod_affinity=(term(ZONE, DB),)), set()),
        ({"d": ("lone", rules("db"))}, rules(pod_affinity=(term(HOST, DB),)), {"lone"}),
        # Namespaces: the own one unless others are named.
        ({"d": ("a1", rules("db", "other"))}, rules(pod_affinity=(term(ZONE, DB),)), set()),
        (
            {"d": ("a1", rules("db", "other"))},
            rules(pod_affinity=(term(ZONE, DB, namespaces=("other",)),)),
            {"a1", "a2"},
        ),
        # The first task of a group that matches its own terms may go to any node with the label.
        ({}, rules("db", pod_affinity=(term(ZONE, DB),)), ALL - {"lone"}),
        ({"w": ("a1", rules("web"))}, rules("db", pod_affinity=(term(ZONE, DB),)), ALL - {"lone"}),
        ({"d": ("b1", rules("db"))}, rules("db", pod_affinity=(term(ZONE, DB),)), {"b1", "b2"}),
        ({}, rules("web", pod_affinity=(term(ZONE, DB),)), set()),
        # All terms need tasks that match all of them.
        (
            {"d": ("a1", rules("db"))},
            rules(pod_affinity=(term(ZONE, DB), term(HOST, is_app("db", "web")))),
            {"a1"},
        ),
        (
            {"d": ("a1", rules("db")), "w": ("a2", rules("web"))},
            rules(pod_affinity=(term(ZONE, DB), term(HOST, WEB))),
            set(),
        ),
        # Anti-affinity: not in the domain of a matching task; a node without the label is in no domain.
        ({"d": ("a1", rules("db"))}, rules(pod_anti_affinity=(term(ZONE, DB),)), {"b1", "b2", "lone"}),
        ({"d": ("a1", rules("db"))}, rules(pod_anti_affinity=(term(HOST, DB),)), ALL - {"a1"}),
        ({"d": ("lone", rules("db"))}, rules(pod_anti_affinity=(term(ZONE, DB),)), ALL),
        ({"d": ("a1", rules("db", "other"))}, rules(pod_anti_affinity=(term(ZONE, DB),)), ALL),
        # A term without expressions matches all pods in the namespace.
        ({"d": ("a1", rules())}, rules(pod_anti_affinity=(term(ZONE),)), {"b1", "b2", "lone"}),
        ({"d": ("a1", PlacementRules())}, rules(pod_anti_affinity=(term(ZONE),)), ALL),
        # The terms of running tasks count as well.
        ({"d": ("a1", rules(pod_anti_affinity=(term(ZONE, WEB),)))}, rules("web"), {"b1", "b2", "lone"}),
        ({"d": ("a1", rules(pod_anti_affinity=(term(ZONE, WEB),)))}, rules("db"), ALL),
        ({"d": ("a1", rules(pod_anti_affinity=(term(ZONE, WEB),)))}, rules("web", "other"), ALL),
        ({"d": ("a1", rules(pod_anti_affinity=(term(ZONE),)))}, PlacementRules(), ALL),
        # Both together: affinity in the zone, anti-affinity on the node.
        (
            {"d": ("a1", rules("db"))},
            rules("db", pod_affinity=(term(ZONE, DB),), pod_anti_affinity=(term(HOST, DB),)),
            {"a2"},
        ),
    ],
)
def test_where_a_task_may_go(
    there: dict[str, tuple[str, PlacementRules]], asked: PlacementRules, expected: set[str]
) -> None:
    assert open_to(place(there), asked) == expected


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        (Expression("app", AffinityOperator.EXISTS), True),
        (Expression("tier", AffinityOperator.EXISTS), False),
        (Expression("tier", AffinityOperator.DOES_NOT_EXIST), True),
        (Expression("app", AffinityOperator.NOT_IN, ("web",)), True),
        (Expression("app", AffinityOperator.NOT_IN, ("db",)), False),
    ],
)
def test_selectors(expression: Expression, met: bool) -> None:
    snapshot = place({"d": ("a1", rules("db"))})
    near = rules("db", pod_affinity=(term(ZONE, expression),))
    assert open_to(snapshot, near) == ({"a1", "a2"} if met else set())


def test_answers_follow_those_who_come_and_go() -> None:
    snapshot = place({})
    near, apart = rules(pod_affinity=(term(ZONE, DB),)), rules(pod_anti_affinity=(term(ZONE, DB),))
    assert (open_to(snapshot, near), open_to(snapshot, apart)) == (set(), ALL)
    known, held = running("d", "b2", rules("db"))
    snapshot.apply_delta(Delta((JobPut(known), AllocationPut(held))))
    assert open_to(snapshot, near) == {"b1", "b2"}
    assert open_to(snapshot, apart) == ALL - {"b1", "b2"}
    with snapshot.statement() as statement:
        statement.release(held.id)
        assert (open_to(snapshot, near), open_to(snapshot, apart)) == (set(), ALL)
    assert open_to(snapshot, near) == {"b1", "b2"}
    moved = replace(snapshot.fleet.nodes[snapshot.fleet.row["b1"]], labels={ZONE: "a"})
    snapshot.apply_delta(Delta((NodePut(moved),)))
    assert open_to(snapshot, near) == {"b2"}
    snapshot.apply_delta(Delta((JobPut(replace(known, rules=rules("web"))),)))
    assert open_to(snapshot, near) == set()
    snapshot.apply_delta(Delta((JobRemoved("d"), AllocationRemoved(held.id))))
    assert open_to(snapshot, apart) == ALL


def test_a_kept_snapshot_knows_what_a_new_one_knows() -> None:
    warm = place({"d": ("a1", rules("db", pod_anti_affinity=(term(HOST, DB),)))})
    cold = Snapshot.from_json(warm.to_json())
    for asked in (rules("db"), rules(pod_affinity=(term(ZONE, DB),))):
        assert open_to(cold, asked) == open_to(warm, asked)


def test_a_gang_that_shuns_its_own_like_spreads_over_the_domains() -> None:
    spread = rules("db", pod_anti_affinity=(term(ZONE, DB),))
    snapshot = place({})
    snapshot.apply_delta(
        Delta(
            (
                JobPut(job("two", "a", role(2, 0, cpu=40_000), rules=spread)),
                JobPut(job("five", "a", role(5, 0, cpu=40_000), rules=spread, at=1)),
            )
        )
    )
    result = cycle(snapshot)
    nodes = [task.node for task in result.decisions[0].allocations]
    assert started(result) == ["two"]
    assert len({PLACES[name] for name in nodes}) == 2
    # Two zones and one node outside of them: at most three of the five tasks can be placed.
    late = outcome(result, "five")
    assert late.reason is Reason.NEVER_FITS
    assert (late.numbers["asked"], late.numbers["available"]) == (5, 3)


def test_affinity_to_others_is_no_reason_never_to_fit() -> None:
    snapshot = place({})
    near = rules(pod_affinity=(term(ZONE, DB),))
    snapshot.apply_delta(Delta((JobPut(job("near", "a", role(1, 0), rules=near)),)))
    waiting = outcome(cycle(snapshot), "near")
    assert waiting.reason is Reason.NO_ROOM
    assert waiting.numbers["refused.pod-affinity"] == 5
    snapshot.apply_delta(Delta((JobPut(job("db", "a", role(1, 0), rules=rules("db"), at=1)),)))
    commit(snapshot, cycle(snapshot))
    assert started(cycle(snapshot)) == ["near"]


def test_a_job_that_never_has_the_label_never_fits() -> None:
    snapshot = place({})
    near = rules(pod_affinity=(term("rack", DB),))
    snapshot.apply_delta(Delta((JobPut(job("near", "a", role(1, 0), rules=near)),)))
    waiting = outcome(cycle(snapshot), "near")
    assert waiting.reason is Reason.NEVER_FITS
    assert waiting.numbers["refused.pod-affinity"] == 5
    assert ("LOOSEN_PLACEMENT", {"veto": "pod-affinity", "nodes": 5, "starts": 1}) in [
        (way.code, way.numbers) for way in waiting.help
    ]
