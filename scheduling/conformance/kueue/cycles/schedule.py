"""Checks Kueue's tables of whole scheduling cycles (TestSchedule and similar ones) with the action `admit`.

A case has a set-up and a number of cycles. It compares the admissions afterwards, the preempted workloads
with their reasons, all conditions by type, status and reason, the active and parked workloads, and, if the
case has them, events and counts of skipped and repeated searches.

The engine runs like Kueue: one head for each queue, all evaluated before the first is processed, and without
the platform's improvements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from scheduling.conformance.errors import Skipped
from scheduling.conformance.kueue.cycles.cycles import Cycles
from scheduling.conformance.kueue.manifests import quantities
from scheduling.conformance.kueue.manifests.status import conditions_of
from scheduling.conformance.kueue.manifests.topology_objects import read_placement

Case = Mapping[str, Any]
Named = Mapping[str, Any]

KNOWN_GATES = {
    "AdmissionFairSharing",
    "ElasticJobsViaWorkloadSlices",
    "ElasticJobsViaWorkloadSlicesWithTAS",
    "FairSharingPreemptWithinNominal",
    "FairSharingPrioritizeNonBorrowing",
    "MultiKueueOrchestratedPreemption",
    "PartialAdmission",
    "PrioritizePreemptorWorkloads",
    "PriorityBoost",
    "PrioritySortingWithinCohort",
    "ReclaimablePods",
    "RecomputeAssignmentUponPreemptionTargetsOverlap",
    "SchedulingEquivalenceHashing",
    "SchedulerLibraryIntegration",
    "SkipReassignmentForPodOwnedWorkloads",
    "TASAssignmentsEncodingByHostnamePrefix",
    "TASBalancedPlacement",
    "TASCacheNodeMatchResults",
    "TASCacheTopologyTree",
    "TASCachingRemainingResources",
    "TASFailedNodeReplacement",
    "TASFailedNodeReplacementFailFast",
    "TASHandleOverlappingFlavors",
    "TASMultiLayerTopology",
    "TASProfileMixed",
    "TASRecomputeAssignmentWithinSchedulingCycle",
    "TASReplaceNodeDueToNotReadyOverFixedTime",
    "TASReplaceNodeOnNodeTaints",
    "TASReplaceNodeOnPodTermination",
    "TASRespectNodeAffinityPreferred",
    "TopologyAwareScheduling",
    "UnadmittedWorkloadsObservability",
    "VectorizedResourceRequests",
}


def check_schedule(case: Case) -> str | None:
    """Return the first difference of a case; None if there is none."""
    gates = case["gates"]
    unknown = sorted(set(gates) - KNOWN_GATES)
    if unknown:
        raise Skipped(f"the engine has no switch for {', '.join(unknown)}")
    cycles = Cycles(case["input"], gates)
    cycles.run()
    expected = case["expected"]
    checks = (
        ("assignments", _assignments(expected.get("assignments")), _assignments(cycles.assignments)),
        ("newAssignments", _assignments(expected.get("newAssignments")), _assignments(cycles.given)),
        ("preempted", expected.get("preempted"), cycles.preempted),
        ("left", _lists(expected.get("left")), cycles.heaps.active_workloads()),
        ("inadmissibleLeft", _lists(expected.get("inadmissibleLeft")), cycles.heaps.parked_workloads()),
        ("events", _events(expected.get("events")), Counter(cycles.events)),
        ("skippedPreemptions", *_counts(expected.get("skippedPreemptions"), cycles.skipped)),
        (
            "preemptionTargetRecomputations",
            expected.get("preemptionTargetRecomputations"),
            cycles.recomputed,
        ),
    )
    for what, wanted, found in checks:
        if wanted is not None and wanted != found:
            return f"expected {what} {wanted}, got {found}"
    return _workloads(expected.get("workloads", {}), cycles)


TABLES: Mapping[str, Callable[[Case], str | None]] = {
    "TestSchedule": check_schedule,
    "TestScheduleForFairSharing": check_schedule,
    "TestScheduleForAFS": check_schedule,
    "TestScheduleRecomputePreemptionTargets": check_schedule,
}


def _workloads(expected: Mapping[str, Named], cycles: Cycles) -> str | None:
    for key, wanted in sorted(expected.items()):
        status = wanted.get("status", {})
        conditions, found = conditions_of(status), conditions_of(cycles.statuses[key])
        if conditions != found:
            return f"expected conditions of {key} {conditions}, got {found}"
        admission = _admission(status.get("admission"))
        got = _admission(cycles.statuses[key].get("admission"))
        if admission != got:
            return f"expected admission of {key} {admission}, got {got}"
    return None


def _assignments(given: Mapping[str, Named] | None) -> dict[str, Any] | None:
    return None if given is None else {key: _admission(value) for key, value in given.items()}


def _admission(given: Named | None) -> Any:
    """Return an admission with amounts in canonical units, without unused resources."""
    if not given:
        return None
    podsets = {}
    for part in given.get("podSetAssignments", ()):
        usage = {
            name: quantities.parse_amount(text, name) for name, text in part.get("resourceUsage", {}).items()
        }
        flavors = {name: flavor for name, flavor in part.get("flavors", {}).items() if usage.get(name)}
        used = {name: amount for name, amount in usage.items() if amount and name in flavors}
        places = read_placement(part.get("topologyAssignment"))
        podsets[part["name"]] = (
            part.get("count", 0),
            flavors,
            used,
            places,
            part.get("delayedTopologyRequest"),
        )
    return given["clusterQueue"], podsets


def _lists(given: Mapping[str, list[str]] | None) -> dict[str, list[str]] | None:
    return None if given is None else {name: sorted(keys) for name, keys in sorted(given.items()) if keys}


def _events(given: list[Named] | None) -> Counter[tuple[str, str, str]] | None:
    if given is None:
        return None
    return Counter(
        (f"{entry['Key'].get('Namespace', '')}/{entry['Key']['Name']}", entry["EventType"], entry["Reason"])
        for entry in given
    )


def _counts(given: Mapping[str, int] | None, found: Counter[str]) -> tuple[Any, Any]:
    """Return the expected and the found counts of the ClusterQueues that a case names."""
    return given, None if given is None else {name: found[name] for name in given}
