"""Checks Kueue's tables on victims (TestPreemption, TestHierarchicalPreemptions, TestFairPreemptions), on the
order of candidates, and on the policy between two workloads.

The platform's improvements are switched off, because the tables check Kueue's own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from scheduling.conformance.errors import BadCase, Skipped
from scheduling.conformance.fields import CaseFields
from scheduling.conformance.kueue.manifests.objects import Setup, build_pending_job, read_setup
from scheduling.conformance.kueue.manifests.workloads import KueueWorkload, WorkloadReading, parse_time
from scheduling.engine import (
    FairSharing,
    PreemptionOptions,
    Preemptor,
    ShareStrategy,
    VictimCandidate,
    VictimOrder,
    VictimSearch,
    may_preempt,
    normative_order,
)
from scheduling.engine.model import (
    EvictRule,
    FlavorResource,
    JobState,
    PreemptOthers,
    PreemptWithin,
    Queue,
)

Case = Mapping[str, Any]

NORMATIVE = PreemptionOptions(
    victim_order=VictimOrder.NORMATIVE,
    final_check=False,
    borrowers_evict_borrowers_only=False,
    eviction_cap=2**31,
    max_loss_s=None,
    readmission_headroom_permille=0,
    search_budget=2**31,
    oracle_budget=2**31,
)
"""The options of Kueue's own search."""

REASONS = {
    EvictRule.IN_QUEUE_PRIORITY: "InClusterQueue",
    EvictRule.RECLAIM_NOMINAL: "InCohortReclamation",
    EvictRule.RECLAIM_WHILE_BORROWING: "InCohortReclaimWhileBorrowing",
    EvictRule.FAIR_SHARE: "InCohortFairSharing",
}
STRATEGIES = {
    "LessThanOrEqualToFinalShare": ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE,
    "LessThanInitialShare": ShareStrategy.LESS_INITIAL_SHARE,
}
POLICIES: Mapping[str, PreemptWithin | PreemptOthers] = {
    "Never": PreemptWithin.NEVER,
    "LowerPriority": PreemptWithin.LOWER_PRIORITY,
    "LowerOrNewerEqualPriority": PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY,
    "Any": PreemptOthers.ANY,
}
_GATES = frozenset(
    {
        "FairSharingPreemptWithinNominal",
        "PriorityBoost",
        "AdmissionFairSharing",
        "PrioritySortingWithinCohort",
    }
)


def check_preemption(case: Case) -> str | None:
    """Compare the set of targets with their reasons, and the targets that were evicted before."""
    found = list_targets(case)
    evicted = {name for name, (_, already) in found.items() if already}
    reasons = {name: reason for name, (reason, already) in found.items() if not already}
    got = (reasons, sorted(evicted), len(found))
    expected = case["expected"]
    wanted = (
        dict(expected.get("preempted", {})),
        sorted(expected.get("alreadyEvicted", ())),
        expected.get("preemptedCount", 0),
    )
    return None if got == wanted else f"expected {wanted}, got {got}"


def list_targets(case: Case, options: PreemptionOptions = NORMATIVE) -> dict[str, tuple[str, bool]]:
    """Return the reason of each target by workload key, and whether it was terminating already."""
    given = case["input"]
    reading = _reading(case)
    setup, keys = by_uid(read_setup({**given, "workloads": given["admitted"]}, reading))
    queue = setup.get_queue(given["targetClusterQueue"])
    search = VictimSearch(
        setup.build_snapshot(),
        options=options,
        now=reading.now,
        fair=read_fair_sharing(case) if given.get("fairSharing") else None,
    )
    found = search.find_victims(build_preemptor(given, queue, reading))
    return {keys[target.job]: (REASONS[target.rule], target.already_leaving) for target in found.targets}


def build_preemptor(given: Mapping[str, Any], queue: Queue, reading: WorkloadReading) -> Preemptor:
    """Return the incoming workload with its assigned flavors."""
    usage: dict[FlavorResource, int] = {}
    contested = set()
    parts = {
        part.name: part
        for part in KueueWorkload(CaseFields(given["incoming"], "Workload:"), reading).pod_sets()
    }
    for entry in given["assignment"].get("podSets", ()):
        for resource, choice in entry.get("flavors", {}).items():
            key = FlavorResource(choice["flavor"], resource)
            usage[key] = usage.get(key, 0) + parts[entry["name"]].total.get(resource, 0)
            if choice.get("mode") == "Preempt":
                contested.add(key)
    job = build_pending_job(given["incoming"], queue, reading)
    return Preemptor(job=job, queue=queue, usage=usage, contested=frozenset(contested))


def read_fair_sharing(case: Case) -> FairSharing:
    """Return the fair sharing options of a case."""
    named = case["input"].get("strategies")
    within = case["gates"].get("FairSharingPreemptWithinNominal", True)
    if not named:
        return FairSharing(preempt_within_nominal=within)
    return FairSharing(strategies=tuple(STRATEGIES[name] for name in named), preempt_within_nominal=within)


def by_uid(setup: Setup) -> tuple[Setup, Mapping[str, str]]:
    """Return the set-up with job ids by which ties are broken by uid, and the workload keys by these ids."""
    names = {key: f"{uid}\0{key}" if uid else key for key, uid in setup.uids.items()}
    jobs = tuple(replace(job, id=names.get(job.id, job.id)) for job in setup.jobs)
    held = tuple(replace(task, job=names.get(task.job, task.job)) for task in setup.allocations)
    keys = {name: key for key, name in names.items()}
    return replace(setup, jobs=jobs, allocations=held), keys


def candidates_order(case: Case) -> str | None:
    """Check TestCandidatesOrdering: the order of all candidates, or only the first one."""
    given, reading = case["input"], _reading(case)
    listed = [_candidate(entry, reading, given) for entry in given["candidates"]]
    in_order = normative_order(listed, given["preemptorClusterQueue"], reading.now)
    names = [entry.job.user for entry in in_order]
    expected = case["expected"]
    if "order" in expected:
        return None if names == expected["order"] else f"expected {expected['order']}, got {names}"
    return None if names[0] == expected["first"] else f"expected {expected['first']} first, got {names}"


def _candidate(
    entry: Mapping[str, Any], reading: WorkloadReading, given: Mapping[str, Any]
) -> VictimCandidate:
    workload = KueueWorkload(CaseFields(entry["object"], "Workload:"), reading)
    queue = Queue(id=entry.get("clusterQueue", ""), quota_node="")
    leaving = workload.find_condition("Evicted") is not None
    job = workload.build_job(queue, JobState.LEAVING if leaving else JobState.LIVE)
    load = entry.get("localQueueFSUsage") if given.get("admissionFairSharingEnabled") else None
    return VictimCandidate(
        job=replace(job, id=f"{workload.uid}\0{job.id}", user=workload.name),
        queue=queue.id,
        leaving=leaving,
        user_load=load,
    )


def policy_holds(case: Case) -> str | None:
    """Check TestSatisfiesPreemptionPolicy: whether one workload may preempt another one."""
    given, reading = case["input"], _reading(case)
    if given["policy"] not in POLICIES:
        raise BadCase(f"the policy {given['policy']!r} is unknown")
    queue = Queue(id="queue", quota_node="queue")
    first, second = (build_pending_job(given[name], queue, reading) for name in ("preemptor", "candidate"))
    found = may_preempt(first, second, POLICIES[given["policy"]])
    expected = case["expected"].get("satisfies", False)
    return None if found == expected else f"expected {expected}, got {found}"


def _reading(case: Case) -> WorkloadReading:
    unknown = sorted(gate for gate in case["gates"] if gate not in _GATES)
    if unknown:
        raise Skipped(f"the engine has no switch for {', '.join(unknown)}")
    return WorkloadReading(
        now=parse_time(CaseFields(case["input"], "case:"), "now"),
        priority_boost=case["gates"].get("PriorityBoost", False),
        eviction_timestamp=False,
        borrowing_preempted_last=not case["gates"].get("PrioritySortingWithinCohort", True),
    )


TABLES: Mapping[str, Callable[[Case], str | None]] = {
    "TestPreemption": check_preemption,
    "TestHierarchicalPreemptions": check_preemption,
    "TestFairPreemptions": check_preemption,
    "TestCandidatesOrdering": candidates_order,
    "TestSatisfiesPreemptionPolicy": policy_holds,
}
