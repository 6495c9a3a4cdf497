"""Kueue's cycles with topology-aware scheduling, its second pass, and what is read for them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduling.conformance.kueue.cycles import tas
from scheduling.conformance.kueue.cycles.cycles import Cycles
from scheduling.conformance.kueue.manifests import tas_passes
from scheduling.conformance.kueue.manifests.tas_nodes import read_nodes
from scheduling.conformance.kueue.manifests.topology_objects import build_assignment, read_placement
from scheduling.conformance.kueue.manifests.transformations import read_transformation, transform_amounts
from scheduling.conformance.kueue.topology_aware import DomainTasks

Case = Mapping[str, Any]
FEWEST = {"TestScheduleForTAS": 50, "TestScheduleForTASCohorts": 19, "TestScheduleForTASPreemption": 9}
HOST = "kubernetes.io/hostname"


def cases(shared_dir: Path, table: str) -> list[Case]:
    path = shared_dir / "conformance" / "kueue" / f"{table}.json"
    if not path.is_file():
        pytest.skip(
            f"no case table in {path}; to get it: point ALLOTMENT_SHARED at the folder with conformance/"
        )
    found: list[Case] = json.loads(path.read_text())["cases"]
    return found


@pytest.mark.shared
@pytest.mark.parametrize("table", sorted(tas.TABLES))
def test_every_case_of_the_table_passes(table: str, shared_dir: Path) -> None:
    given = cases(shared_dir, table)
    failed = {case["name"]: found for case in given if (found := tas.TABLES[table](case)) is not None}
    assert len(given) >= FEWEST[table]
    assert failed == {}


@pytest.mark.shared
@pytest.mark.parametrize(
    ("table", "gate"),
    [
        ("TestScheduleForTAS", "TopologyAwareScheduling"),
        ("TestScheduleForTAS", "TASFailedNodeReplacement"),
        ("TestScheduleForTAS", "TASFailedNodeReplacementFailFast"),
        ("TestScheduleForTASCohorts", "TASRecomputeAssignmentWithinSchedulingCycle"),
        ("TestScheduleForTASCohorts", "PartialAdmission"),
        ("TestScheduleForTASPreemption", "TopologyAwareScheduling"),
        ("TestScheduleForTASPreemption", "TASHandleOverlappingFlavors"),
    ],
)
def test_a_gate_turned_the_other_way_is_noticed(table: str, gate: str, shared_dir: Path) -> None:
    def turned(case: Case) -> Case:
        return {**case, "gates": {**case["gates"], gate: not case["gates"].get(gate, True)}}

    assert any(tas.TABLES[table](turned(case)) is not None for case in cases(shared_dir, table))


@pytest.mark.shared
@pytest.mark.parametrize("table", sorted(tas.TABLES))
def test_another_domain_than_expected_is_noticed(table: str, shared_dir: Path) -> None:
    def moved(case: Case) -> Case:
        changed: dict[str, Any] = copy.deepcopy(dict(case))
        for admission in changed["expected"]["newAssignments"].values():
            for part in admission["podSetAssignments"]:
                for piece in part.get("topologyAssignment", {}).get("slices", ()):
                    piece["valuesPerLevel"] = [{"universal": "elsewhere"} for _ in piece["valuesPerLevel"]]
        return changed

    differing = [case for case in map(moved, cases(shared_dir, table)) if tas.TABLES[table](case) is not None]
    assert differing or table == "TestScheduleForTASPreemption"


# A set-up of our own


def node(name: str, cpu: str = "4", **facts: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {HOST: name}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10", "example.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
        **facts,
    }


def workload(name: str, cpu: str = "1", count: int = 1, **facts: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    podset = {
        "name": "main",
        "count": count,
        "template": {"spec": {"containers": [container]}},
        "topologyRequest": {"required": HOST},
    }
    spec = {"queueName": "lq", "podSets": [podset]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, **facts}


def setup(*workloads: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "tas", "resources": [{"name": "cpu", "nominalQuota": "20"}]}],
    }
    queue = {"namespaceSelector": {}, "resourceGroups": [group], **facts.pop("queue", {})}
    return {
        "now": "2026-01-01T00:00:00Z",
        "cycles": 1,
        "namespaces": [{"name": "default"}],
        "topologies": [{"metadata": {"name": "flat"}, "spec": {"levels": [{"nodeLabel": HOST}]}}],
        "resourceFlavors": [{"metadata": {"name": "tas"}, "spec": {"topologyName": "flat"}}],
        "clusterQueues": [{"metadata": {"name": "cq"}, "spec": queue}],
        "localQueues": [{"metadata": {"name": "lq", "namespace": "default"}, "spec": {"clusterQueue": "cq"}}],
        "nodes": [node("x1"), node("x2")],
        "workloads": list(workloads),
        **facts,
    }


def after(given: Mapping[str, Any], **gates: bool) -> Cycles:
    cycles = Cycles(given, gates)
    cycles.run()
    return cycles


def domains(cycles: Cycles, key: str) -> dict[str, int]:
    (part,) = cycles.statuses[key]["admission"]["podSetAssignments"]
    found = read_placement(part.get("topologyAssignment"))
    return {} if found is None else {share.domain[-1]: share.tasks for share in found.shares}


def holding(name: str, places: Mapping[str, int] | None, **status: Any) -> dict[str, Any]:
    count = sum((places or {"": 1}).values())
    part: dict[str, Any] = {"name": "main", "count": count, "flavors": {"cpu": "tas"}}
    part["resourceUsage"] = {"cpu": str(count)}
    if places is None:
        part["delayedTopologyRequest"] = "Pending"
    else:
        levels = (
            {"universal": next(iter(places))} if len(places) == 1 else {"individual": {"roots": list(places)}}
        )
        counts = {"individual": list(places.values())}
        piece = {"domainCount": len(places), "podCounts": counts, "valuesPerLevel": [levels]}
        part["topologyAssignment"] = {"levels": [HOST], "slices": [piece]}
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}
    admitted = {"type": "Admitted", "status": "True", "reason": "Admitted"}
    given = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [part]},
        "conditions": [reserved] if places is None else [reserved, admitted],
    }
    return workload(name, count=count, status={**given, **status})


CHECKED = {"admissionChecksStrategy": {"admissionChecks": [{"name": "machines"}]}}
CHECKS = [
    {
        "metadata": {"name": "machines"},
        "spec": {"controllerName": "kueue.x-k8s.io/provisioning-request"},
        "status": {"conditions": [{"type": "Active", "status": "True"}]},
    }
]


def test_places_are_put_off_until_machines_are_there() -> None:
    cycles = after(setup(workload("w"), queue=CHECKED, admissionChecks=CHECKS))
    (part,) = cycles.statuses["default/w"]["admission"]["podSetAssignments"]
    assert part["delayedTopologyRequest"] == "Pending"
    assert cycles.events == [("default/w", "Normal", "QuotaReserved")]


@pytest.mark.parametrize(
    ("update", "expected"),
    [({}, {"x1": 1}), ({"nodeSelector": {HOST: "x2"}}, {"x2": 1})],
)
def test_then_they_are_found_by_what_the_check_asks_of_the_pods(
    update: Mapping[str, Any], expected: Mapping[str, int]
) -> None:
    check = {"name": "machines", "state": "Ready", "podSetUpdates": [{"name": "main", **update}]}
    waiting = holding("w", None, admissionChecks=[check])
    cycles = after(setup(waiting, queue=CHECKED, admissionChecks=CHECKS))
    assert domains(cycles, "default/w") == expected
    assert cycles.events == [("default/w", "Normal", "Admitted")]


def test_what_another_cluster_runs_gets_no_places_here() -> None:
    checks = [{**CHECKS[0], "spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}]
    waiting = holding("w", None, admissionChecks=[{"name": "machines", "state": "Ready"}])
    cycles = after(setup(waiting, workload("v"), queue=CHECKED, admissionChecks=checks))
    assert domains(cycles, "default/w") == {}
    assert domains(cycles, "default/v") == {}
    assert cycles.events == [("default/v", "Normal", "QuotaReserved")]


def test_a_single_pod_does_not_move() -> None:
    hurt = holding("w", {"x0": 1}, unhealthyNodes=[{"name": "x0"}])
    assert domains(after(setup(hurt)), "default/w") == {"x1": 1}
    hurt["metadata"]["ownerReferences"] = [{"kind": "Pod", "apiVersion": "v1", "name": "p"}]
    assert domains(after(setup(hurt)), "default/w") == {"x0": 1}
    assert domains(after(setup(hurt), SkipReassignmentForPodOwnedWorkloads=False), "default/w") == {"x1": 1}


def test_pods_that_their_workload_includes_are_not_counted_twice() -> None:
    pod = {
        "metadata": {"name": "p", "annotations": {"kueue.x-k8s.io/podset-required-topology": HOST}},
        "spec": {"nodeName": "x1", "containers": [{"resources": {"requests": {"cpu": "4"}}}]},
    }
    held = holding("w", {"x2": 4})
    assert domains(after(setup(held, workload("v", "4"), pods=[pod])), "default/v") == {"x1": 1}
    del pod["metadata"]["annotations"]  # type: ignore[attr-defined]
    cycles = after(setup(held, workload("v", "4"), pods=[pod]))
    assert cycles.events == [("default/v", "Warning", "WaitingForQuota")]


def test_nodes_are_read_with_all_that_they_offer() -> None:
    pod = {"spec": {"nodeName": "x1", "containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]}}
    found = next(read_nodes([node("x1", spec={"unschedulable": True})], [pod]))
    assert (found.cpu, found.memory, found.pods, found.used_pods) == (4000, 8 * 2**30, 10, 1)
    assert [(item.resource, item.amount) for item in found.extended] == [("example.com/gpu", 2)]
    assert [(item.resource, item.amount) for item in found.used_extended] == [("example.com/gpu", 1)]
    assert not found.ready


def test_an_assignment_reads_back_as_it_was_written() -> None:
    parts = (DomainTasks(("b1", "r1"), 2), DomainTasks(("b1", "r2"), 1))
    found = read_placement(build_assignment(("block", "rack"), parts))
    assert found is not None
    assert found.levels == ("block", "rack")
    assert [(share.domain, share.tasks) for share in found.shares] == [(("b1", "r1"), 2), (("b1", "r2"), 1)]


@pytest.mark.parametrize(
    ("strategy", "amounts", "expected"),
    [
        ("Retain", {"cpu": 1500}, {"cpu": 1500, "credits": 3, "tokens": 8}),
        ("Replace", {"cpu": 1500}, {"credits": 3, "tokens": 8}),
        ("Replace", {"memory": 7}, {"memory": 7}),
        ("Retain", {"cpu": 1000, "credits": 9}, {"cpu": 1000, "credits": 9}),
    ],
)
def test_what_counts_as_something_else(
    strategy: str, amounts: Mapping[str, int], expected: Mapping[str, int]
) -> None:
    rule = read_transformation(
        {"input": "cpu", "strategy": strategy, "outputs": {"credits": "2", "tokens": "5"}}
    )
    assert transform_amounts(amounts, [rule]) == expected


def test_what_several_resources_count_as_adds_up() -> None:
    rules = [
        read_transformation({"input": "cpu", "outputs": {"credits": "1"}}),
        read_transformation({"input": "example.com/gpu", "outputs": {"credits": "500m"}}),
    ]
    assert transform_amounts({"cpu": 2000, "example.com/gpu": 3}, rules) == {"credits": 4}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ("x1",)),
        ({"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending"}]}, ()),
    ],
)
def test_only_what_holds_quota_is_mended(status: Mapping[str, Any], expected: tuple[str, ...]) -> None:
    given = holding("w", {"x1": 1}, unhealthyNodes=[{"name": "x1"}])
    given["status"] |= status
    assert tas_passes.lost_nodes(given, given["status"], {}) == expected
