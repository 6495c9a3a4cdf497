"""Runs a Kueue scheduler over several cycles: the engine decides, and decisions are carried out here."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from scheduling.conformance.fields import CaseFields
from scheduling.conformance.kueue.cycles import admissible
from scheduling.conformance.kueue.cycles.pending import Bar, Heaps, lined_up
from scheduling.conformance.kueue.manifests import quantities, status, tas_passes
from scheduling.conformance.kueue.manifests.objects import Setup, read_setup
from scheduling.conformance.kueue.manifests.tas_nodes import read_nodes
from scheduling.conformance.kueue.manifests.transformations import read_transformation
from scheduling.conformance.kueue.manifests.workloads import WorkloadReading, parse_time
from scheduling.conformance.kueue.scheduler.action import with_cycle
from scheduling.conformance.kueue.scheduler.options import CycleOptions
from scheduling.conformance.kueue.scheduler.turns import JobEvaluation
from scheduling.conformance.kueue.tables.answers import WORDS
from scheduling.conformance.kueue.tables.entries import ordering_criteria
from scheduling.conformance.kueue.tables.preemption import NORMATIVE, REASONS
from scheduling.conformance.kueue.tables.topology import options_from
from scheduling.conformance.kueue.topology_aware import TopologyState
from scheduling.conformance.kueue.topology_aware.model import EnlargedJob
from scheduling.engine import (
    BackfillOptions,
    EngineConfig,
    ExplainScope,
    FairSharing,
    NoRoomOptions,
    UserShares,
    run_cycle,
)
from scheduling.engine.model import (
    CycleResult,
    Decision,
    DecisionKind,
    EvictRule,
    Instant,
    Job,
    JobOutcome,
    JobState,
    Queue,
    ResourceAmount,
    UserUsage,
    Verdict,
)

Event = tuple[str, str, str]
"""Workload, type and reason."""

BARRED = {Bar.NAMESPACE: "Misconfigured", Bar.INVALID: "Misconfigured", Bar.CHECKS: "PendingEvaluation"}
AWAITED = (Verdict.PREEMPTING, Verdict.DEFERRED)
LOST = (Verdict.OVERLAPS, Verdict.OVERTAKEN)
HOST = "kubernetes.io/hostname"
NEVER = Instant(float("inf"))
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class Cycles:
    """The scheduler of one case. Its public attributes are the state after `run`."""

    def __init__(self, given: Mapping[str, Any], gates: Mapping[str, bool]) -> None:
        self._given, self._gates = tas_passes.prepare_setup(given, gates), gates
        given = self._given
        self._now = parse_time(CaseFields(given, "case:"), "now")
        self._objects = {_key(entry): entry for entry in given["workloads"]}
        self._setup = self._read()
        self._nodes = tuple(read_nodes(given.get("nodes", ()), given.get("pods", ())))
        self._levels = {
            flavor.id: flavor.topology[-1:] if flavor.topology[-1] == HOST else flavor.topology
            for flavor in self._setup.flavors
            if flavor.topology_aware
        }
        self._config = self._configured()
        self._jobs = {job.id: job for job in self._setup.jobs}
        self._allocations = {held.id: held for held in self._setup.allocations}
        self._usage = tuple(self._initial_usage())
        self._preemptors: dict[str, str] = {}
        self.statuses = {key: copy.deepcopy(dict(o.get("status", {}))) for key, o in self._objects.items()}
        self.assignments = {
            key: self.statuses[key]["admission"]
            for key in self._jobs
            if self._jobs[key].admitted_at is not None
        }
        self._settled = {key for key in self._jobs if tas_passes.is_settled(self.statuses[key])}
        self.preempted: dict[str, str] = {}
        self.events: list[Event] = []
        self.skipped: Counter[str] = Counter()
        self.recomputed: dict[str, dict[str, int]] = {}
        self.heaps = self._lines()

    @property
    def given(self) -> dict[str, Any]:
        """The admissions of all workloads that were not settled before."""
        return {key: self.statuses[key]["admission"] for key in self.assignments if key not in self._settled}

    def run(self) -> None:
        """Run all cycles of the case."""
        for _ in range(self._given.get("cycles", 1)):
            self._cycle()

    def _gate(self, name: str, default: bool = True) -> bool:
        return bool(self._gates.get(name, default))

    # Reading

    def _read(self) -> Setup:
        return read_setup(self._given, self._reading())

    def _reading(self) -> WorkloadReading:
        return WorkloadReading(
            now=self._now,
            reclaimable_pods=self._gate("ReclaimablePods"),
            partial_admission=self._gate("PartialAdmission"),
            priority_boost=self._gate("PriorityBoost", default=False),
            borrowing_preempted_last=not self._gate("PrioritySortingWithinCohort"),
            transformations=tuple(map(read_transformation, self._given.get("resourceTransformations", ()))),
        )

    def _configured(self) -> EngineConfig:
        fair = FairSharing(
            preempt_within_nominal=self._gate("FairSharingPreemptWithinNominal"),
            prefer_non_borrowing=self._gate("FairSharingPrioritizeNonBorrowing"),
        )
        return EngineConfig(
            actions=("admit",),
            cycle_order=ordering_criteria(self._gates),
            heads_per_queue=1,
            refill=False,
            fair_sharing=fair if self._given.get("fairSharing") else None,
            user_shares=self._user_shares(),
            backfill=BackfillOptions(reservation_after_s=None),
            preemption=NORMATIVE,
            no_room=NoRoomOptions(try_other_flavors=False),
            explain=ExplainScope.CONSIDERED,
        )

    def _this_cycle(self, turns: list[JobEvaluation]) -> EngineConfig:
        """Return the configuration with the action for this cycle, which gets the jobs without domains."""
        held = [job for job in self._jobs.values() if job.state in (JobState.LIVE, JobState.LEAVING)]
        state = TopologyState(
            options=options_from(self._gates),
            apart=not self._gate("TASHandleOverlappingFlavors"),
            on_order=self._setup.on_order,
            unplaced=frozenset(
                job.id
                for job in held
                if job.queue not in self._setup.elsewhere and tas_passes.is_unplaced(self.statuses[job.id])
            ),
            lost_nodes={
                job.id: tas_passes.lost_nodes(self._objects[job.id], self.statuses[job.id], self._gates)
                for job in held
            },
        )
        options = CycleOptions(
            recompute_targets=self._gate("RecomputeAssignmentUponPreemptionTargetsOverlap"),
            judge_again=self._gate("TASRecomputeAssignmentWithinSchedulingCycle"),
            leave_unreplaced=self._gate("TASFailedNodeReplacementFailFast"),
        )
        return replace(self._config, plugins=with_cycle(state, options, turns))

    def _user_shares(self) -> UserShares | None:
        given = self._given.get("admissionFairSharing")
        if given is None or not self._gate("AdmissionFairSharing"):
            return None
        weights = given.get("resourceWeights", {})
        names = {resource.resource for node in self._setup.quota_nodes for resource in node.quotas}
        return UserShares(
            half_life_s=_seconds(given.get("usageHalfLifeTime", "0s")),
            sampling_s=_seconds(given.get("usageSamplingInterval", "5m")),
            # Kueue counts CPU in cores, the engine in millicores, so other weights are a thousand times
            # larger.
            resource_weights=tuple(
                (name, round(float(weights.get(name, 1)) * (1_000 if name == "cpu" else 1_000_000)))
                for name in sorted(names)
            ),
        )

    def _initial_usage(self) -> Iterable[UserUsage]:
        given = self._given.get("initialLocalQueueUsage", {})
        for usage in self._setup.usage:
            name = usage.user.removeprefix("default/")
            amounts = given.get(name)
            if amounts is None:
                yield usage
                continue
            consumed = tuple(
                ResourceAmount(resource, float(quantities.parse_amount(amounts[resource], resource)))
                for resource in sorted(amounts)
            )
            yield replace(usage, consumed=consumed)

    def _lines(self) -> Heaps:
        heaps = Heaps(self._setup, self._objects, equivalent=self._gate("SchedulingEquivalenceHashing"))
        keys = tuple(lined_up(self._setup))
        heaps.enqueue_pending(
            {key: self._jobs[key].queue for key in keys}, {key: self._ready(key) for key in keys}
        )
        return heaps

    def _ready(self, key: str) -> bool:
        at = self._jobs[key].backoff_until
        held_back = status.conditions_of(self.statuses[key]).get("Requeued", ("", ""))[0] == "False"
        return not held_back and (at is None or at <= self._now)

    # One cycle

    def _cycle(self) -> None:
        """Run one cycle of the engine. The queue of a head that is requeued at once has no further turn."""
        closed: set[str] = set()
        while True:
            turns: list[JobEvaluation] = []
            result = run_cycle(self._snapshot(closed), self._this_cycle(turns), self._now)
            barred = {turn.job: why for turn in turns if (why := self._bar(turn.job)) is not None}
            if not barred:
                break
            for key, why in barred.items():
                closed.add(self._jobs[key].queue)
                self._send_back(key, why)
        self._take_effect(result, turns)

    def _bar(self, key: str) -> Bar | None:
        objects = self._given.get("objects", ())
        return admissible.find_bar(self._objects[key], self._setup.aside.get(key), objects)

    def _send_back(self, key: str, why: Bar) -> None:
        self.heaps.requeue_barred(self._setup.get_queue(self._jobs[key].queue), key, why)
        self._waits(key, BARRED[why])

    def _snapshot(self, closed: set[str]) -> Any:
        active = {key for queue, keys in self.heaps.active.items() if queue not in closed for key in keys}
        jobs = [self._present(job) for job in self._jobs.values() if self._counts(job, active)]
        setup = replace(
            self._setup, jobs=tuple(jobs), allocations=tuple(self._allocations.values()), usage=self._usage
        )
        return setup.build_snapshot(nodes=self._nodes)

    def _counts(self, job: Job, active: set[str]) -> bool:
        return job.id in active or job.state in (JobState.LIVE, JobState.LEAVING)

    def _present(self, job: Job) -> Job:
        if job.state in (JobState.LIVE, JobState.LEAVING):
            return job
        job = replace(
            job,
            state=JobState.QUEUED,
            preempting=self._preemptors.get(job.queue) == job.id,
            preempts_after=NEVER if self._gate_closed(job.id) else None,
        )
        replaces = self._setup.replaces.get(job.id) if self._gate("ElasticJobsViaWorkloadSlices") else None
        if replaces not in self._jobs:
            return job
        return EnlargedJob(**{item.name: getattr(job, item.name) for item in fields(Job)}, replaces=replaces)

    def _gate_closed(self, key: str) -> bool:
        """Return whether a preemption gate is closed, which is also so for a gate without a position."""
        if not self._gate("MultiKueueOrchestratedPreemption", default=False):
            return False
        workload = self._objects[key]
        states = workload.get("status", {}).get("preemptionGates", ())
        positions = {entry["name"]: entry.get("position", "Closed") for entry in states}
        gates = workload.get("spec", {}).get("preemptionGates", ())
        return any(positions.get(gate["name"], "Closed") == "Closed" for gate in gates)

    # Decisions are carried out

    def _take_effect(self, result: CycleResult, turns: Iterable[JobEvaluation]) -> None:
        outcomes = {outcome.job: outcome for outcome in result.outcomes}
        for decision in result.decisions:
            if decision.kind is DecisionKind.EVICT and decision.rule is EvictRule.NODE_LOST:
                self._give_up(decision.job)
            elif decision.kind is DecisionKind.EVICT:
                self._evict(decision)
            elif decision.kind is DecisionKind.MIGRATE:
                self._move(decision)
            elif decision.kind is DecisionKind.ADMIT and not self._given.get("admissionError"):
                self._admit(decision)
        for turn in turns:
            if turn.job not in outcomes:
                self._second_turn(turn)
            elif turn.verdict is not Verdict.ADMITTED:
                self._turn(turn, outcomes[turn.job])

    def _admit(self, decision: Decision) -> None:
        key = decision.job
        job = self._jobs[key]
        queue = self._setup.get_queue(job.queue)
        admission = _admission(queue, decision, self._levels, self._setup.on_order.get(queue.id, ()))
        status.set_reserved(self.statuses[key], admission, self._checks(admission))
        self.assignments[key] = admission
        self._jobs[key] = replace(job, state=JobState.LIVE, admitted_at=self._now)
        self._allocations.update((held.id, held) for held in decision.allocations)
        self.heaps.remove_workload(job.queue, key)
        if self._preemptors.get(job.queue) == key:
            del self._preemptors[job.queue]
        self.events.append((key, "Normal", "QuotaReserved"))
        if status.is_admitted(self.statuses[key]):
            self.events.append((key, "Normal", "Admitted"))
        for old in sorted({self._allocations.pop(held).job for held in decision.released}):
            status.set_replaced(self.statuses[old])
            self._jobs[old] = replace(self._jobs[old], state=JobState.SUSPENDED)
            self.events.append((old, "Normal", "WorkloadSliceReplaced"))

    def _evict(self, decision: Decision) -> None:
        key, rule = decision.job, decision.rule or EvictRule.IN_QUEUE_PRIORITY
        self.preempted[key] = REASONS[rule]
        status.set_preempted(self.statuses[key], REASONS[rule])
        self._jobs[key] = replace(self._jobs[key], state=JobState.LEAVING)
        for held in decision.released:
            self._allocations[held] = replace(self._allocations[held], leaving=True)
        self.events.append((key, "Normal", "EvictedDueToPreempted"))
        self.events.append((key, "Normal", "Preempted"))
        self.events.append((decision.beneficiary or "", "Normal", "PreemptedWorkload"))

    def _checks(self, admission: Mapping[str, Any]) -> list[str]:
        """Return the admission checks of the ClusterQueue that apply to the flavors of an admission."""
        queues = (CaseFields(entry, "ClusterQueue:") for entry in self._given["clusterQueues"])
        name = admission["clusterQueue"]
        spec = next(
            q.read_object("spec") for q in queues if q.read_object("metadata").read_text("name") == name
        )
        used = {flavor for part in admission["podSetAssignments"] for flavor in part["flavors"].values()}
        checks = spec.read_object("admissionChecksStrategy").read_objects("admissionChecks")
        bound = {check.read_text("name"): set(check.read_texts("onFlavors")) for check in checks}
        return [check for check, flavors in bound.items() if not flavors or used & flavors]

    # Workloads that hold quota already

    def _move(self, decision: Decision) -> None:
        key = decision.job
        for held in decision.released:
            del self._allocations[held]
        self._allocations.update((held.id, held) for held in decision.allocations)
        tas_passes.note_places(self.statuses[key], decision.allocations, self._levels)
        if not status.is_admitted(self.statuses[key]):
            status.sync_admitted(self.statuses[key])
            self.events.append((key, "Normal", "Admitted"))

    def _give_up(self, key: str) -> None:
        if self._given.get("patchStatusError"):
            self.events.append((key, "Warning", "SecondPassFailed"))
            return
        status.gave_up(self.statuses[key])
        self._jobs[key] = replace(self._jobs[key], state=JobState.LEAVING)
        self.events.append((key, "Normal", "EvictedDueToNodeFailures"))

    def _second_turn(self, turn: JobEvaluation) -> None:
        if turn.verdict is not Verdict.ADMITTED:
            self.events.append((turn.job, "Warning", "SecondPassFailed"))

    def _turn(self, turn: JobEvaluation, outcome: JobOutcome) -> None:
        self.heaps.requeue_considered(self._setup.get_queue(turn.queue), turn)
        if turn.verdict in AWAITED:
            self._preemptors[turn.queue] = turn.job
        if turn.verdict in LOST and turn.victims:
            self.skipped[turn.queue] += 1
        if turn.again:
            result = {Verdict.DEFERRED: "deferred_fit", Verdict.PREEMPTING: "new_targets"}
            found = self.recomputed.setdefault(turn.queue, {})
            name = result.get(turn.verdict, "skipped")
            found[name] = found.get(name, 0) + 1
        self._waits(turn.job, _reason(turn, outcome))
        if turn.verdict is Verdict.GATED:
            status.set_gated(self.statuses[turn.job])

    def _waits(self, key: str, reason: str) -> None:
        reported = reason if self._gate("UnadmittedWorkloadsObservability") else "Pending"
        status.set_waiting(self.statuses[key], reported)
        self.events.append((key, "Warning", reported))


def _reason(turn: JobEvaluation, outcome: JobOutcome) -> str:
    if turn.verdict in (Verdict.NO_FIT, Verdict.NO_ROOM) and "misfit" in outcome.numbers:
        return "TopologyPlacementFailed"
    if turn.verdict is Verdict.GATED:
        return "AdmissionGated"
    if turn.verdict in AWAITED:
        return "WaitingForPreemptedWorkloads"
    if outcome.reason is None or turn.verdict is not Verdict.NO_FIT:
        return "WaitingForQuota"
    return WORDS.get(outcome.reason, "WaitingForQuota")


def _admission(
    queue: Queue, decision: Decision, levels: tas_passes.Levels, on_order: Iterable[str]
) -> dict[str, Any]:
    """Return the admission in Kueue's form; amounts are in canonical units, CPU with its suffix."""
    parts: list[dict[str, Any]] = [
        {
            "name": held.role,
            "count": decision.numbers.get(f"tasks.{held.role}", 0),
            "flavors": {charge.resource: charge.flavor for charge in held.charges},
            "resourceUsage": {
                charge.resource: f"{charge.amount}m" if charge.resource == "cpu" else charge.amount
                for charge in held.charges
            },
        }
        for held in decision.allocations
    ]
    for part, held in zip(parts, decision.allocations, strict=True):
        tas_passes.write_places(part, held, levels, on_order)
    return {"clusterQueue": queue.id, "podSetAssignments": parts}


def _key(workload: Mapping[str, Any]) -> str:
    metadata = workload["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _seconds(text: str) -> float:
    """Return the seconds of a duration such as `1h30m`, `5m` or `10s`."""
    total, number = 0.0, ""
    units = text
    while units:
        digits = len(units) - len(units.lstrip("0123456789."))
        number, units = units[:digits], units[digits:]
        unit = next((name for name in ("ms", "h", "m", "s") if units.startswith(name)), None)
        if not number or unit is None:
            raise ValueError(f"{text!r} is not a duration")
        total += float(number) * SECONDS[unit]
        units = units[len(unit) :]
    return total
