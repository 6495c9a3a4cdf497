"""Every field of the job file that affects placement reaches the engine."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from foundation.core import clock
from quotas.models import Queue
from scheduling.engine import model as em
from scheduling.engine_input.jobs import (
    ASKED,
    asked_job,
    engine_job,
    placement_rules,
    topology_rule,
    watched_workspaces,
)
from scheduling.job_file import parse_job
from scheduling.models import Job, JobRole

WORKSPACE = uuid.UUID(int=7)
DATABASE = {"topology_key": "zone", "match_labels": {"app": "db"}}
IN_ZONE = em.PodTerm("topology.kubernetes.io/zone", (em.Expression("app", em.AffinityOperator.IN, ("db",)),))


def placed(placement: dict[str, Any]) -> em.PlacementRules:
    read = parse_job({"name": "x", "roles": [{}], "placement": placement}).placement
    return placement_rules(read, namespace="ws", group="g")


@pytest.mark.parametrize(
    ("placement", "field", "expected"),
    [
        ({"labels": {"app": "db"}}, "labels", {"app": "db"}),
        ({"pod_affinity": {"required": [DATABASE]}}, "pod_affinity", (IN_ZONE,)),
        ({"pod_anti_affinity": {"required": [DATABASE]}}, "pod_anti_affinity", (IN_ZONE,)),
        (
            {"pod_affinity": {"preferred": [{"weight": 3, **DATABASE}]}},
            "preferred_pods",
            (em.PreferredPods(3, IN_ZONE),),
        ),
        (
            {"pod_anti_affinity": {"preferred": [{"weight": 3, **DATABASE}]}},
            "avoided_pods",
            (em.PreferredPods(3, IN_ZONE),),
        ),
        (
            {
                "node_affinity": {
                    "preferred": [
                        {"weight": 9, "match_expressions": [{"key": "a", "operator": "Lt", "values": [5]}]}
                    ]
                }
            },
            "preferred_nodes",
            (em.PreferredNodes(9, (em.Expression("a", em.AffinityOperator.LT, ("5",)),)),),
        ),
        ({"topology": {"level": "rack"}}, "group", "g"),
        ({"topology": {"level": "rack", "mode": "required"}}, "group", ""),
        ({}, "namespace", "ws"),
    ],
)
def test_placement(placement: dict[str, Any], field: str, expected: object) -> None:
    assert getattr(placed(placement), field) == expected


@pytest.mark.parametrize(
    ("level", "label"),
    [
        ("clique", "nvidia.com/gpu.clique"),
        ("node", "kubernetes.io/hostname"),
        ("rack", "allotment.io/rack"),
        ("zone", "topology.kubernetes.io/zone"),
        ("example.com/block", "example.com/block"),
    ],
)
def test_levels_are_labels_of_nodes(level: str, label: str) -> None:
    rule = topology_rule({"topology": {"level": level, "mode": "required"}})
    assert rule == em.TopologyRule(level=label, mode=em.TopologyMode.REQUIRED)


def test_without_a_level_there_is_no_rule() -> None:
    assert topology_rule({}) is None


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ({"cards": 2}, em.GpuRequest(cards=2)),
        (
            {"mode": "slice", "cores": 30, "memory": "25%", "model": "T4"},
            em.GpuRequest(mode=em.GpuMode.SLICE, cores=30, memory_percent=25, models=("T4",)),
        ),
        (
            {"mode": "mig", "profile": "1g.5gb", "cards": 2},
            em.GpuRequest(cards=2, mode=em.GpuMode.MIG, profile="1g.5gb"),
        ),
    ],
)
def test_cards_as_asked_and_as_stored(gpu: dict[str, Any], expected: em.GpuRequest) -> None:
    spec = parse_job({"name": "x", "roles": [{"name": "w", "resources": {"gpu": gpu}}]})
    queue = Queue(id=uuid.UUID(int=1), workspace_id=WORKSPACE)
    asked = asked_job(spec, queue, priority=0, now=clock.now())
    assert asked.roles[0].request.gpu == expected
    assert (asked.id, asked.rules.namespace) == (ASKED, str(WORKSPACE))
    read = spec.roles[0].gpu
    assert read is not None
    row = JobRole(
        name="w", replicas=1, min_replicas=1, cpu_millicores=0, memory_mib=0, gpu_mode=read.mode.value,
        gpu_cards=read.cards, gpu_cores=read.cores, gpu_memory_mib=read.memory_mib,
        gpu_memory_percent=read.memory_percent, gpu_models=list(read.models), gpu_profile=read.profile,
    )  # fmt: skip
    stored = engine_job(Job(submitted_at=clock.now(), min_available=1, submitted_by_id=1), [row])
    assert stored.roles[0].request.gpu == expected


def test_workspaces_are_distinguished_only_where_terms_name_others() -> None:
    other = uuid.UUID(int=8)
    placements: list[tuple[uuid.UUID, dict[str, Any]]] = [
        (WORKSPACE, {"pod_anti_affinity": {"required": [DATABASE]}}),
        (other, {"labels": {"app": "db"}}),
    ]
    watched = watched_workspaces(placements)
    assert watched == {WORKSPACE}
    for workspace, namespace in ((WORKSPACE, str(WORKSPACE)), (other, "")):
        row = Job(submitted_at=clock.now(), min_available=1, submitted_by_id=1, workspace_id=workspace)
        assert engine_job(row, [], watched=watched).rules.namespace == namespace


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"cpu": 2, "memory": "4Gi"}, em.QosClass.GUARANTEED),
        ({"cpu": 2, "memory": "4Gi", "limits": {"cpu": 2}}, em.QosClass.GUARANTEED),
        ({"cpu": 2, "memory": "4Gi", "limits": {"cpu": 4}}, em.QosClass.BURSTABLE),
        ({"cpu": 2}, em.QosClass.BURSTABLE),
        ({"limits": {"cpu": 2}}, em.QosClass.BURSTABLE),
        ({"gpu": {"cards": 1}}, em.QosClass.BEST_EFFORT),
    ],
)
def test_the_class_is_the_one_that_kubernetes_derives(
    resources: dict[str, Any], expected: em.QosClass
) -> None:
    spec = parse_job({"name": "x", "roles": [{"resources": resources}]})
    (role,) = asked_job(spec, Queue(), priority=0, now=clock.now()).roles
    assert role.request.qos is expected
