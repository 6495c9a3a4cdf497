"""Checks the table of Kueue's topology-aware placement (TestFindTopologyAssignments)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scheduling.conformance.kueue import topology_aware as topology
from scheduling.conformance.kueue.manifests import topology_objects as objects
from scheduling.conformance.kueue.manifests.tas_passes import single_pod
from scheduling.engine.model import Taint

Case = Mapping[str, Any]

# The name of the topology, which the table does not name.
_TOPOLOGY = "default"
_GATE_DEFAULTS = {
    "ElasticJobsViaWorkloadSlicesWithTAS": False,
    "SkipReassignmentForPodOwnedWorkloads": True,
    "TASBalancedPlacement": False,
    "TASHandleOverlappingFlavors": True,
    "TASProfileMixed": True,
    "TASRespectNodeAffinityPreferred": False,
}
_TEXTS = {
    topology.Misfit.NO_SLICE_SIZE: "slice topology requested, but slice size not provided",
    topology.Misfit.UNKNOWN_LEVEL: "no requested topology level: {0.level}",
    topology.Misfit.UNKNOWN_SLICE_LEVEL: "no requested topology level for slices: {0.level}",
    topology.Misfit.UNKNOWN_LAYER_LEVEL: (
        "no requested topology level for additional slice layer: {0.level}"
    ),
    topology.Misfit.SLICE_LEVEL_TOO_COARSE: (
        "podset slice topology {0.level} is above the podset topology {0.other}"
    ),
    topology.Misfit.LAYER_NOT_FINER: (
        "additional slice layer topology {0.level} must be at a lower level than {0.other}"
    ),
    topology.Misfit.LAYER_DOES_NOT_DIVIDE: (
        "additional slice layer size {0.fitting} must evenly divide parent layer size {0.needed}"
    ),
    topology.Misfit.UNEVEN_SLICES: "{0.needed} pods cannot be divided into slices of {0.slice_size}",
    topology.Misfit.NOT_ONE_LEADER: "a podset group is one leader pod and its workers",
    topology.Misfit.NO_DOMAINS: "no topology domains at level: {0.level}",
    topology.Misfit.STALE_PLACEMENT: (
        "Cannot replace the node, because the existing topologyAssignment is invalid,"
        " as it contains the stale domain {0.level}"
    ),
    topology.Misfit.NO_REPLACEMENT: "cannot find replacement assignment for unhealthy node: {0.level}",
}


def options_from(gates: Mapping[str, bool] | None) -> topology.TopologyOptions:
    """Return the options for Kueue's feature gates; `gates` are those not at their default."""
    on = _GATE_DEFAULTS | dict(gates or {})
    return topology.TopologyOptions(
        mixed_profile=on["TASProfileMixed"],
        balanced=on["TASBalancedPlacement"],
        heed_preferences=on["TASRespectNodeAffinityPreferred"],
        grow_in_place=on["ElasticJobsViaWorkloadSlicesWithTAS"],
        avoid_lost=False,
    )


def run_case(case: Case) -> list[dict[str, Any]]:
    """Return the assignments or failure reasons of PodSets, as in the table's `expected.podSets`."""
    given, gates = case["input"], _GATE_DEFAULTS | dict(case.get("gates") or {})
    nodes = objects.flavor_nodes(given.get("nodes") or (), given.get("nodeLabels"))
    tree = topology.build_tree(given["levels"], nodes)
    stock = topology.Stock(tree, nodes)
    for node, held in objects.pod_amounts(given.get("pods") or ()):
        stock.occupy_node(node, held)
    stock.hold_usages(_usages(given.get("priorOwnUsage")))
    assumed: list[topology.Usage] = []
    if tree.leaves_are_nodes and gates["TASHandleOverlappingFlavors"]:
        # Flavors that share nodes count each other's usage there; groups of nodes belong to one flavor.
        stock.hold_usages(_usages(given.get("priorFlavorUsage")))
        assumed = _aggregated(given.get("aggregatedDomainUsages"))
    placer = topology.DomainGangPlacer(stock, options_from(case.get("gates")), assumed=assumed)
    requests = [_request(podset) for podset in given["podSets"]]
    workload = given.get("workload") or {}
    if (workload.get("status") or {}).get("unhealthyNodes"):
        pinned = gates["SkipReassignmentForPodOwnedWorkloads"] and single_pod(workload)
        outcomes = replace_failed(placer, tree, requests, workload["status"], pinned=pinned)
    else:
        outcomes = placer.place_roles(requests)
    return [_shown(request.name, outcomes.get(request.name)) for request in requests]


def expected_podsets(case: Case) -> list[dict[str, Any]]:
    """Return the expectations of the table."""
    found: list[dict[str, Any]] = case["expected"]["podSets"]
    return found


def find_difference(case: Case) -> str | None:
    """Return the first PodSet that differs; None if the case passes."""
    for got, wanted in zip(run_case(case), expected_podsets(case), strict=True):
        if got != wanted:
            return f"{wanted.get('podSetName')!r}: got {got}, expected {wanted}"
    return None


TABLES: dict[str, Callable[[Case], str | None]] = {"TestFindTopologyAssignments": find_difference}


def failure_text(failure: topology.Failure, name: str) -> str:
    """Return the table's message for a failure; `name` is the topology's."""
    if failure.misfit is topology.Misfit.NO_ROOM:
        return _no_room_text(failure, name)
    return _TEXTS[failure.misfit].format(failure)


def assignment_object(placed: topology.Placement) -> dict[str, Any]:
    """Return a placement in the table's form."""
    domains = [{"Count": share.tasks, "Values": list(share.domain)} for share in placed.shares]
    return {"Domains": domains, "Levels": list(placed.levels)}


def _no_room_text(failure: topology.Failure, name: str) -> str:
    unit = "pod(s)" if failure.slice_size == 1 else "slice(s)"
    if failure.layers:
        rooms = (
            f"; {room.fitting}/{room.needed} slice(s) fit on level {room.level}" for room in failure.layers
        )
        text = f'topology "{name}" doesn\'t allow to fit{"".join(rooms)}'
    elif failure.fitting:
        text = f'topology "{name}" allows to fit only {failure.fitting} out of {failure.needed} {unit}'
    else:
        text = f'topology "{name}" doesn\'t allow to fit any of {failure.needed} {unit}'
    if not failure.exclusions.has_any():
        return text
    reasons = ", ".join(_exclusion_texts(failure.exclusions))
    return f"{text}. Total nodes: {failure.exclusions.leaves}; excluded: {reasons}"


def _exclusion_texts(exclusions: topology.Exclusions) -> list[str]:
    counts = {
        "nodeSelector": exclusions.selector,
        "affinity": exclusions.affinity,
        "topologyDomain": exclusions.outside,
    }
    texts = [f"{name}: {count}" for name, count in counts.items() if count]
    texts += [f'taint "{_taint_text(taint)}": {count}' for taint, count in exclusions.taints.items()]
    texts += [f'resource "{name}": {count}' for name, count in exclusions.resources.items()]
    return sorted(texts)


def _taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _request(podset: Mapping[str, Any]) -> topology.RoleRequest:
    affinity = podset.get("nodeAffinity")
    mode, level, layers = objects.topology_rule(podset.get("topologyRequest"))
    return topology.RoleRequest(
        name=podset.get("podSetName", ""),
        tasks=podset.get("count", 0),
        per_task=objects.add_amounts(podset.get("requests") or {}, {"pods": 1}),
        mode=mode,
        level=level,
        layers=layers,
        rules=objects.placement_rules(podset.get("nodeSelector"), affinity, podset.get("tolerations")),
        preferences=objects.read_preferences(affinity),
        companions=podset.get("podSetGroupName"),
        previous=objects.read_placement(podset.get("previousAssignment")),
    )


def replace_failed(
    placer: topology.DomainGangPlacer,
    tree: topology.TopologyTree,
    requests: list[topology.RoleRequest],
    status: Mapping[str, Any],
    *,
    pinned: bool,
) -> dict[str, topology.RoleOutcome]:
    """Return new domains for the tasks on the failed node. A pod that can't be moved stays on its node."""
    failed = status["unhealthyNodes"][0]["name"]
    admitted = (status.get("admission") or {}).get("podSetAssignments") or ()
    placements = {
        podset["name"]: objects.read_placement(podset.get("topologyAssignment")) for podset in admitted
    }
    outcomes: dict[str, topology.RoleOutcome] = {}
    for request in requests:
        existing = placements.get(request.name)
        if existing is None:
            continue
        if pinned:
            outcomes[request.name] = existing
            continue
        moved = topology.replace_leaf(placer, tree, request, existing, failed)
        if isinstance(moved, topology.Failure):
            outcomes[request.name] = moved
            break
        outcomes[request.name] = moved.placement
    return outcomes


def _usages(listed: Any) -> list[topology.Usage]:
    """Return the usage of placed workloads from a list of domains, or from such lists by flavor."""
    if isinstance(listed, Mapping):
        return [usage for name in sorted(listed) for usage in _usages(listed[name])]
    return [
        topology.Usage(
            tuple(item["Values"]),
            objects.add_amounts(item.get("SinglePodRequests") or {}, {"pods": 1}),
            item["Count"],
        )
        for item in listed or ()
    ]


def _aggregated(usages: Mapping[str, Mapping[str, int]] | None) -> list[topology.Usage]:
    """Return usages from totals by node name, which already include the number of pods."""
    return [topology.Usage((node,), totals, 1) for node, totals in sorted((usages or {}).items())]


def _shown(name: str, outcome: topology.RoleOutcome | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"failureReason": "", "podSetName": name}
    if isinstance(outcome, topology.Failure):
        shown["failureReason"] = failure_text(outcome, _TOPOLOGY)
    elif outcome is not None:
        shown["assignment"] = assignment_object(outcome)
    return shown
