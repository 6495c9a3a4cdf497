"""A small cluster over several cycles: decisions take effect, and evicted tasks end when a test says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    Change,
    ClaimPut,
    ClaimRemoved,
    Delta,
    EngineConfig,
    JobPut,
    JobRemoved,
    Snapshot,
    run_cycle,
)
from scheduling.engine.actions.advice.apply_help import apply_help
from scheduling.engine.model import (
    Claim,
    CycleResult,
    Decision,
    DecisionKind,
    Help,
    Instant,
    Job,
    JobOutcome,
    JobState,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
)

ADMIT = EngineConfig(actions=("admit",))
TAKE_BACK = PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.ANY)
OWN_ONLY = PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY)


@dataclass
class Stage:
    """A snapshot, a clock, and all decisions so far."""

    snapshot: Snapshot
    config: EngineConfig = ADMIT
    now: float = 1_000.0
    all_decisions: list[Decision] = field(default_factory=list)
    last: CycleResult | None = None

    def cycle(self) -> CycleResult:
        """Run one cycle, whose decisions take effect."""
        self.last = run_cycle(self.snapshot, self.config, Instant(self.now))
        for decision in self.last.decisions:
            self.apply(decision)
        self.now += 1
        self.all_decisions.extend(self.last.decisions)
        return self.last

    def end_evicted(self, *jobs: str) -> None:
        """Remove the terminating tasks of these jobs; evicted jobs are queued again."""
        for name in jobs:
            job = self.snapshot.jobs[name]
            gone = [held for held in self.snapshot.allocations_of(name) if held.leaving]
            changes: list[Change] = [AllocationRemoved(held.id) for held in gone]
            if job.state is JobState.LEAVING:
                again = {"evictions": job.evictions + 1, "evicted_at": Instant(self.now)}
                changes.append(JobPut(replace(job, state=JobState.QUEUED, **again)))
            self.put(*changes)

    def submit(self, *jobs: Job) -> None:
        """Queue further jobs."""
        self.put(*map(JobPut, jobs))

    def put(self, *changes: Change) -> None:
        """Apply any other changes."""
        self.snapshot.apply_delta(Delta(changes))

    def apply_end(self, job: str) -> None:
        """End a job that has completed."""
        self.put(*(AllocationRemoved(held.id) for held in self.snapshot.allocations_of(job)), JobRemoved(job))

    def outcome(self, job: str) -> JobOutcome:
        """Return a job's outcome in the last cycle."""
        assert self.last is not None
        return next(found for found in self.last.outcomes if found.job == job)

    def ask(self, asked: Job) -> JobOutcome:
        """Submit a job, run a cycle and return the job's outcome."""
        self.submit(asked)
        self.cycle()
        return self.outcome(asked.id)

    def starts_with(self, asked: Job, *ways: Help) -> bool:
        """Return whether a job starts in the next cycle once all of these recommendations are followed."""
        for way in ways:
            changed = apply_help(asked, way)
            assert changed is not None
            asked = changed
        self.put(JobPut(asked))
        self.cycle()
        return asked.id in self.running()

    def running(self) -> set[str]:
        """Return the jobs that hold something and were not evicted."""
        return {name for name, job in self.snapshot.jobs.items() if job.state is JobState.LIVE}

    def evicted(self) -> dict[str, str]:
        """Return the victims and the rule of their eviction."""
        return {
            d.job: d.rule or ""
            for d in self.all_decisions
            if d.kind in (DecisionKind.EVICT, DecisionKind.SHRINK)
        }

    def apply(self, decision: Decision) -> None:
        """Let one decision take effect."""
        job = self.snapshot.jobs[decision.job]
        if decision.kind is DecisionKind.ADMIT:
            live = replace(job, state=JobState.LIVE, admitted_at=Instant(self.now), preempting=False)
            self.put(JobPut(live), ClaimRemoved(job.id), *map(AllocationPut, decision.allocations))
        elif decision.kind in (DecisionKind.EVICT, DecisionKind.SHRINK):
            whole = decision.kind is DecisionKind.EVICT
            self.put(JobPut(replace(job, state=JobState.LEAVING if whole else job.state)))
            self._mark(decision.released)
        elif decision.allocations:
            if decision.kind is DecisionKind.MIGRATE:
                self.put(JobPut(replace(job, state=JobState.LEAVING)))
                self._mark(decision.released)
                job = self.snapshot.jobs[job.id]
            until = Instant(int(decision.numbers.get("until", self.now + 300)))
            claim = Claim(
                job=job.id, allocations=decision.allocations, leaving=decision.released, until=until
            )
            self.put(JobPut(replace(job, preempting=True)), ClaimPut(claim))
        else:
            self.put(JobPut(replace(job, preempting=False)), ClaimRemoved(job.id))

    def _mark(self, ids: Iterable[str]) -> None:
        for key in ids:
            held = self.snapshot.allocations[key]
            self.put(AllocationRemoved(key), AllocationPut(replace(held, leaving=True)))
