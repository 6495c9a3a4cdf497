"""Workloads with quota that need a second pass: their placement was delayed, or a node has failed.

Source of the workflow: Kueue's second scheduling pass.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from scheduling.conformance.kueue.manifests.status import conditions_of, holds_quota, puts_off
from scheduling.conformance.kueue.manifests.topology_objects import build_assignment
from scheduling.conformance.kueue.topology_aware import DomainAllocation
from scheduling.engine.model import Allocation

Object = Mapping[str, Any]
Status = dict[str, Any]
Levels = Mapping[str, tuple[str, ...]]
"""The node labels that identify a domain of each topology-aware flavor."""
PENDING, READY = "Pending", "Ready"
GROUPED = "kueue.x-k8s.io/is-group-workload"


def is_unplaced(status: Object) -> bool:
    """Return whether a workload waits only for its delayed placement."""
    checks = status.get("admissionChecks", ())
    ready = bool(checks) and all(check.get("state") == READY for check in checks)
    return _awake(status) and ready and puts_off(status)


def lost_nodes(workload: Object, status: Object, gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the failed nodes from which the workload's pods are to be moved.

    A pod that is its own workload cannot be moved.
    """
    if not _awake(status) or not gates.get("TASFailedNodeReplacement", True):
        return ()
    if gates.get("SkipReassignmentForPodOwnedWorkloads", True) and single_pod(workload):
        return ()
    return tuple(node["name"] for node in status.get("unhealthyNodes", ()))


def single_pod(workload: Object) -> bool:
    """Return whether a workload is a single pod, which can't be moved."""
    metadata = workload.get("metadata") or {}
    owners = metadata.get("ownerReferences") or []
    grouped = (metadata.get("annotations") or {}).get(GROUPED) == "true"
    if len(owners) != 1 or grouped:
        return False
    return bool(owners[0].get("kind") == "Pod" and owners[0].get("apiVersion") == "v1")


def update_pods(workload: Object) -> Object:
    """Return a workload with the pod set updates of its ready admission checks, if it waits for its
    placement."""
    status = workload.get("status") or {}
    changes = [
        change
        for check in status.get("admissionChecks", ())
        if check.get("state") == READY
        for change in check.get("podSetUpdates", ())
    ]
    if not changes or not is_unplaced(status):
        return workload
    copied = copy.deepcopy(dict(workload))
    for podset in copied["spec"]["podSets"]:
        for change in changes:
            if change["name"] == podset["name"]:
                _merge(podset["template"]["spec"], change)
    return copied


def _merge(pod: dict[str, Any], change: Object) -> None:
    if change.get("nodeSelector"):
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **change["nodeSelector"]}
    if change.get("tolerations"):
        pod["tolerations"] = [*(pod.get("tolerations") or ()), *change["tolerations"]]


def write_places(part: dict[str, Any], held: Allocation, levels: Levels, on_order: Iterable[str]) -> None:
    """Write the topology assignment of a PodSet, or that it is delayed."""
    if isinstance(held, DomainAllocation) and held.domains:
        part["topologyAssignment"] = build_assignment(levels[held.flavor], held.domains)
        if part.get("delayedTopologyRequest") == PENDING:
            part["delayedTopologyRequest"] = READY
    elif part["count"] and held.flavor in levels and held.flavor in on_order:
        part["delayedTopologyRequest"] = PENDING


def note_places(status: Status, allocations: Iterable[Allocation], levels: Levels) -> None:
    """Write the new topology assignments of a workload that holds quota, and clear its unhealthy nodes."""
    held = {allocation.role: allocation for allocation in allocations}
    for part in status["admission"]["podSetAssignments"]:
        found = held.get(part["name"])
        if isinstance(found, DomainAllocation) and found.domains:
            part["topologyAssignment"] = build_assignment(levels[found.flavor], found.domains)
            if part.get("delayedTopologyRequest") == PENDING:
                part["delayedTopologyRequest"] = READY
    status.pop("unhealthyNodes", None)


def prepare_setup(given: Object, gates: Mapping[str, bool]) -> Object:
    """Return a set-up as the scheduler uses it: without topologies if the gate is off, otherwise with the pod
    set updates of admission checks."""
    if gates.get("TopologyAwareScheduling", True):
        return {**given, "workloads": [update_pods(entry) for entry in given["workloads"]]}
    flavors = [
        {**flavor, "spec": {k: v for k, v in (flavor.get("spec") or {}).items() if k != "topologyName"}}
        for flavor in given.get("resourceFlavors", ())
    ]
    return {**given, "resourceFlavors": flavors}


def is_settled(status: Object) -> bool:
    """Return whether a workload is admitted and on healthy nodes, so that the cycle does not change it."""
    admitted = conditions_of(status).get("Admitted", ("", ""))[0] == "True"
    return admitted and not status.get("unhealthyNodes")


def _awake(status: Object) -> bool:
    conditions = conditions_of(status)
    away = any(conditions.get(kind, ("", ""))[0] == "True" for kind in ("Evicted", "Finished"))
    return holds_quota(status) and not away
