"""Checks Kueue's tables of flavor assignment with the engine's `assign_flavors`.

A case has queues, usage, one workload and the results of the simulated preemption. All parts of the
assignment are compared: flavors, modes, the end of the search, amounts, borrow level, and all attempts with
the missing amounts. Messages are compared by their content, not by their text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.conformance.errors import BadCase, Skipped
from scheduling.conformance.kueue.manifests import quantities
from scheduling.conformance.kueue.manifests.objects import build_pending_job, flavor_resource, read_setup
from scheduling.conformance.kueue.manifests.workloads import WorkloadReading
from scheduling.conformance.kueue.tables import answers
from scheduling.conformance.kueue.tables.answers import AttemptAnswer, Reasons, RoleAnswer
from scheduling.engine import Assignment, AssignmentMode, ReplacedRole, assign_flavors
from scheduling.engine.model import FlavorResource, Job, Queue

Case = Mapping[str, Any]

POSSIBILITIES = {
    "NoCandidates": AssignmentMode.NO_CANDIDATES,
    "Preempt": AssignmentMode.PREEMPT,
    "Reclaim": AssignmentMode.RECLAIM,
}
# The gates that matter here; with the first one the overall reason is compared.
OBSERVABILITY = "UnadmittedWorkloadsObservability"
RECLAIMABLE = "ReclaimablePods"
KNOWN_GATES = {OBSERVABILITY, RECLAIMABLE}


def flavor_assignment(case: Case) -> str | None:
    """Return the first difference of an assignment; None if there is none."""
    unknown = sorted(set(case["gates"]) - KNOWN_GATES)
    if unknown:
        raise Skipped(f"the engine has no switch for {', '.join(unknown)}")
    given, expected = case["input"], case["expected"]
    queue, job, assignment = _assigned(given, case["gates"])
    mode = answers.mode_name(assignment.mode)
    if mode != expected["representativeMode"]:
        return f"expected {expected['representativeMode']}, got {mode}"
    if "flavorByResource" in expected:
        found = {name: c.flavor for role in assignment.roles for name, c in role.choices.items()}
        return _differs("flavors", expected["flavorByResource"], found)
    wanted = expected.get("assignment")
    if wanted is None:
        raise BadCase("the case expects neither an assignment nor flavors")
    return _compare(wanted, queue, job, assignment, bool(case["gates"].get(OBSERVABILITY, True)))


def _assigned(given: Mapping[str, Any], gates: Mapping[str, bool]) -> tuple[Queue, Job, Assignment]:
    setup = read_setup(given)
    queue = setup.get_queue(given["targetClusterQueue"])
    job = build_pending_job(
        given["workload"], queue, WorkloadReading(reclaimable_pods=gates.get(RECLAIMABLE, True))
    )
    used = {
        name: {flavor_resource(key): amount for key, amount in amounts.items()}
        for name, amounts in (given.get("usage") or {}).items()
    }
    assignment = assign_flavors(
        setup.build_snapshot(used=used),
        queue,
        job,
        oracle=_GivenOracle(given["preemptionOracle"]),
        fair=bool(given.get("fairSharing")),
        replaced=_replaced(given.get("replacedWorkloadSlice")),
        counts=_counts(job, given.get("counts")),
    )
    return queue, job, assignment


@dataclass(frozen=True, slots=True)
class _GivenOracle:
    """A simulated preemption with given results."""

    given: Mapping[str, Any]

    def __call__(
        self, queue: Queue, job: Job, key: FlavorResource, amount: int
    ) -> tuple[AssignmentMode, int]:
        by_key = self.given.get("byFlavorResource", {})
        answer = by_key.get(f"{key.flavor}/{key.resource}", self.given["default"])
        return POSSIBILITIES[answer["possibility"]], int(answer.get("borrowingAfterSimulation", 0))


def _replaced(given: Mapping[str, Any] | None) -> dict[str, ReplacedRole]:
    parts = () if given is None else given.get("totalRequests", ())
    return {part["name"]: ReplacedRole(part.get("flavors", {}), part.get("requests", {})) for part in parts}


def _counts(job: Job, given: list[int] | None) -> dict[str, int] | None:
    if not given:
        return None
    return {role.name: count for role, count in zip(job.roles, given, strict=True)}


def _compare(
    wanted: Mapping[str, Any], queue: Queue, job: Job, assignment: Assignment, with_reason: bool
) -> str | None:
    podsets = wanted.get("podSets", [])
    got = answers.served_roles(job, assignment)
    names = [podset["name"] for podset in podsets]
    if names != [role.name for role in got]:
        return f"expected the pod sets {names}, got {[role.name for role in got]}"
    usage = {f"{key.flavor}/{key.resource}": amount for key, amount in assignment.usage.items()}
    found = [
        _differs("borrowing", wanted.get("borrowing", 0), assignment.borrow_level),
        _differs("usage", wanted.get("usage", {}), usage),
        *(_role(podset, role) for podset, role in zip(podsets, got, strict=True)),
    ]
    if with_reason:
        reason = answers.overall_reason(queue, got) if assignment.mode is AssignmentMode.NO_FIT else None
        found.append(_differs("noFitReason", wanted.get("noFitReason"), reason))
    return next((difference for difference in found if difference is not None), None)


def _role(wanted: Mapping[str, Any], got: RoleAnswer) -> str | None:
    flavors = {
        name: (entry["flavor"], entry["mode"], entry["triedFlavorIdx"])
        for name, entry in wanted.get("flavors", {}).items()
    }
    requests = {
        name: quantities.parse_amount(text, name) for name, text in wanted.get("requests", {}).items()
    }
    what = f"{got.name}: "
    found = (
        _differs(f"{what}count", wanted["count"], got.count),
        _differs(f"{what}mode", wanted["mode"], got.mode),
        _differs(f"{what}flavors", flavors, got.flavors),
        _differs(f"{what}requests", requests, got.requests),
        _differs(f"{what}error", wanted.get("error"), got.error),
        _differs(f"{what}reasons", answers.parse_reasons(wanted.get("reasons", [])), got.reasons),
        _attempts(
            what, [answers.describe_attempt(entry) for entry in wanted.get("attempts", [])], got.attempts
        ),
    )
    return next((difference for difference in found if difference is not None), None)


def _attempts(what: str, wanted: list[AttemptAnswer], got: tuple[AttemptAnswer, ...]) -> str | None:
    """Compare the attempts: with a fitting flavor each attempt must be expected; otherwise each expected
    attempt must occur.
    """
    if any(entry.mode == "Fit" for entry in got):
        missing = [entry for entry in got if not any(_same(expected, entry) for expected in wanted)]
        # A table without attempts does not compare them.
        return None if not wanted or not missing else f"{what}unexpected attempts {missing} for {wanted}"
    missing = [entry for entry in wanted if entry not in got]
    return f"{what}expected the attempts {missing} among {got}" if missing else None


def _same(wanted: AttemptAnswer, got: AttemptAnswer) -> bool:
    elsewhere: Reasons = tuple(reason for reason in wanted.reasons if reason[0] == "provides")
    if got.mode == "Fit" and wanted.mode == "NoFit" and elsewhere:
        return wanted.flavor == got.flavor
    return wanted == got


def _differs(what: str, wanted: object, got: object) -> str | None:
    return None if wanted == got else f"{what}: expected {wanted}, got {got}"


TABLES: Mapping[str, Callable[[Case], str | None]] = {
    "TestAssignFlavors": flavor_assignment,
    "TestDeletedFlavors": flavor_assignment,
    "TestHierarchical": flavor_assignment,
    "TestReclaimBeforePriorityPreemption": flavor_assignment,
}
