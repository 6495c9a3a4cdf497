"""The real engine, configured as by the platform, run on a world until nothing changes any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    Change,
    ClaimPut,
    ClaimRemoved,
    Delta,
    JobPut,
    JobRemoved,
    NodePut,
    QuotaPut,
    Snapshot,
    run_cycle,
)
from scheduling.engine.model import (
    Claim,
    CycleResult,
    Decision,
    DecisionKind,
    Instant,
    Job,
    JobOutcome,
    JobState,
    QuotaNode,
)
from scheduling.engine_input.config import engine_config
from tests.truth.oracle.cell import Cell
from tests.truth.worlds import World

CYCLE_S = 20.0
CLAIM_S = 300.0
WAVE_S = 8_000.0
QUIET = 2
MOST_CYCLES = 80


class Unsettled(Exception):
    """A world that still changes after very many cycles."""


@dataclass
class Run:
    """One cell under the engine. Evicted tasks have ended by the next cycle."""

    snapshot: Snapshot
    now: float = 1_000.0
    last: CycleResult | None = None
    cycles: int = 0

    def put(self, *changes: Change) -> None:
        """Apply changes."""
        if changes:
            self.snapshot.apply_delta(Delta(changes))

    def settle(self) -> None:
        """Run cycles until two of them decide nothing.

        Raises: Unsettled.
        """
        quiet = 0
        for _ in range(MOST_CYCLES):
            self._end_evicted()
            quiet = 0 if self.cycle().decisions else quiet + 1
            self.now += CYCLE_S
            if quiet == QUIET:
                return
        raise Unsettled

    def starts(self, job: str) -> bool:
        """Return whether a job starts before the cell settles; settles it otherwise.

        Raises: Unsettled.
        """
        for _ in range(MOST_CYCLES):
            self._end_evicted()
            decided = self.cycle().decisions
            self.now += CYCLE_S
            if self.snapshot.jobs[job].state is JobState.LIVE:
                return True
            if not decided:
                return False
        raise Unsettled

    def cycle(self) -> CycleResult:
        """Run one cycle, whose decisions take effect."""
        self._count_caps()
        self.last = run_cycle(self.snapshot, engine_config(), Instant(self.now))
        self.cycles += 1
        for decision in self.last.decisions:
            self.put(*self._effects(decision))
        return self.last

    def _count_caps(self) -> None:
        """Update, for pending jobs, what those that count against the same cap hold now."""
        held: Counter[str] = Counter()
        for name, job in self.snapshot.jobs.items():
            for cap in job.allowances:
                charges = (c for task in self.snapshot.allocations_of(name) for c in task.charges)
                held[cap.id] += sum(c.amount for c in charges if c.resource == cap.resource)
        for job in list(self.snapshot.jobs.values()):
            caps = tuple(replace(cap, held=held[cap.id]) for cap in job.allowances)
            if caps != job.allowances:
                self.put(JobPut(replace(job, allowances=caps)))

    def end(self, job: str) -> None:
        """End a job, which has completed or is withdrawn."""
        if job in self.snapshot.jobs:
            gone = [AllocationRemoved(held.id) for held in self.snapshot.allocations_of(job)]
            self.put(*gone, ClaimRemoved(job), JobRemoved(job))

    def limit(self, node: QuotaNode) -> None:
        """Set other limits for a quota node; what is used stays."""
        known = {each.id: each for each in self.snapshot.export_quota_nodes()}
        self.put(QuotaPut(replace(node, usage=known[node.id].usage)))

    def cordon(self, name: str) -> None:
        """Cordon a node; its tasks stay."""
        node = next(each for each in self.snapshot.export_nodes() if each.id == name)
        self.put(NodePut(replace(node, schedulable=False)))

    def cell(self) -> Cell:
        """Return the input of the last cycle as plain data."""
        snapshot = self.snapshot
        return Cell(
            nodes=snapshot.export_nodes(),
            flavors=dict(snapshot.flavors),
            quota_nodes={node.id: node for node in snapshot.export_quota_nodes()},
            queues=dict(snapshot.queues),
            jobs=dict(snapshot.jobs),
            held=tuple(snapshot.allocations[key] for key in sorted(snapshot.allocations)),
            now=self.now - CYCLE_S,
            lost_ppm=snapshot.lost_ppm,
        )

    def waiting(self) -> list[JobOutcome]:
        """Return the outcome of each pending job in the last cycle."""
        assert self.last is not None
        return [outcome for outcome in self.last.outcomes if outcome.reason is not None]

    def _end_evicted(self) -> None:
        """Remove evicted tasks, and end jobs beyond their run time."""
        for name, job in list(self.snapshot.jobs.items()):
            limited = (
                job.state is JobState.LIVE
                and job.max_run_s is not None
                and job.attempt_started_at is not None
            )
            if limited and job.attempt_started_at + job.max_run_s <= self.now:
                self.end(name)
        changes: list[Change] = []
        for name, job in self.snapshot.jobs.items():
            changes += [
                AllocationRemoved(held.id) for held in self.snapshot.allocations_of(name) if held.leaving
            ]
            if job.state is JobState.LEAVING:
                back = replace(job, state=JobState.QUEUED, admitted_at=None, evictions=job.evictions + 1)
                changes.append(JobPut(replace(back, **_since(self.now))))
        self.put(*changes)

    def _effects(self, decision: Decision) -> Iterable[Change]:
        job = self.snapshot.jobs[decision.job]
        match decision.kind:
            case DecisionKind.EVICT | DecisionKind.SHRINK:
                if decision.kind is DecisionKind.EVICT:
                    yield JobPut(replace(job, state=JobState.LEAVING))
                for key in decision.released:
                    yield AllocationRemoved(key)
                    yield AllocationPut(replace(self.snapshot.allocations[key], leaving=True))
            case DecisionKind.PARK:
                yield from self._claimed(job, decision)
            case DecisionKind.ADMIT:
                yield JobPut(
                    replace(job, state=JobState.LIVE, admitted_at=Instant(self.now), preempting=False)
                )
                yield ClaimRemoved(job.id)
                yield from map(AllocationPut, decision.allocations)
            case _:
                yield from map(AllocationRemoved, decision.released)
                yield from map(AllocationPut, decision.allocations)

    def _claimed(self, job: Job, decision: Decision) -> Iterable[Change]:
        yield JobPut(replace(job, preempting=bool(decision.allocations)))
        if not decision.allocations:
            yield ClaimRemoved(job.id)
            return
        yield ClaimPut(
            Claim(
                job=job.id,
                allocations=decision.allocations,
                leaving=decision.released,
                until=Instant(float(decision.numbers.get("until", self.now + CLAIM_S))),
            )
        )


def _since(now: float) -> dict[str, Instant]:
    """Return the fields with the time of an eviction, from which the engine counts the waiting time."""
    return {"evicted_at": Instant(now)} if hasattr(Job, "evicted_at") else {}


def run_of(world: World) -> Run:
    """Run the world through its history and settle it.

    Raises: Unsettled.
    """
    run = Run(
        Snapshot(
            nodes=world.nodes,
            flavors=world.flavors,
            quota_nodes=world.quota_nodes,
            queues=world.queues,
            lost_ppm=world.lost_ppm,
        )
    )
    for number, wave in enumerate(world.waves):
        run.now = max(run.now, WAVE_S * (number + 1))
        if number == len(world.waves) - 1:
            for node in world.lowered:
                run.limit(node)
            for name in world.cordoned:
                run.cordon(name)
            for job in world.ended:
                run.end(job)
        run.put(*map(JobPut, wave))
        run.settle()
    return run
