"""Simulates one future of a cell: the engine's cycles in virtual time, on a copy of its snapshot.

At an instant runs end first, then jobs arrive, then cycles run until there are no more decisions. Instants
are on a grid that may become coarser with time, so that a future takes a limited number of cycles.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

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
    recount_workload,
    run_cycle,
)
from scheduling.engine.model import (
    RELEASING_KINDS,
    Allocation,
    Claim,
    Decision,
    DecisionKind,
    Instant,
    Job,
    JobState,
)

_MOST_CYCLES: Final = 12
_CLAIM_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """The grid of instants: their distance is `finest_s`, or `coarseness` of the elapsed time if that is
    more.

    While jobs are pending, cycles run at least every `tick_s`, because guaranteed run times end and claims
    expire without an event.
    """

    finest_s: float = 15.0
    coarseness: float = 0.03
    tick_s: float = 1_800.0


class CellWatch:
    """Receives the events of jobs of a virtual cell; a subclass overrides those that it counts.

    A job that is moved is evicted and starts again at the same instant.
    """

    def on_submitted(self, at: float, job_id: str) -> None:
        """Called when a job is submitted."""

    def on_started(self, at: float, job_id: str, allocations: Sequence[Allocation]) -> None:
        """Called when a job starts with these allocations."""

    def on_evicted(self, at: float, job_id: str) -> None:
        """Called when a job is evicted and queued again."""

    def on_ended(self, at: float, job_id: str) -> None:
        """Called when a job ends by itself."""

    def on_withdrawn(self, at: float, job_id: str) -> None:
        """Called when a pending job is withdrawn."""


PlannedChange = Callable[[Snapshot], Iterable[Change]]
"""A function that returns the changes at an instant from the snapshot at that time."""


def copy_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return an independent snapshot of the same state."""
    return Snapshot(
        nodes=snapshot.export_nodes(),
        flavors=snapshot.flavors.values(),
        quota_nodes=snapshot.export_quota_nodes(),
        queues=snapshot.queues.values(),
        jobs=snapshot.jobs.values(),
        allocations=snapshot.allocations.values(),
        claims=snapshot.claims.values(),
        usage=snapshot.usage.values(),
        lost_ppm=snapshot.lost_ppm,
        workload=snapshot.workload,
    )


@dataclass(slots=True)
class VirtualCell:
    """A simulated cell. The snapshot is changed; times are epoch seconds.

    `run_time` returns the seconds that a job runs once it starts, `returning` are the terminating jobs that
    are queued again. `check_time` is called before each instant, and may raise. `on_decision` gets each
    decision before it is carried out.
    """

    snapshot: Snapshot
    config: EngineConfig
    now: float
    run_time: Callable[[str], float]
    check_time: Callable[[], None] = lambda: None
    returning: frozenset[str] = frozenset()
    grid: TimeGrid = TimeGrid()
    watch: CellWatch | None = None
    on_decision: Callable[[Decision], None] = lambda decision: None
    cycles: int = 0
    _begun: float = 0.0
    _ends: list[tuple[float, str, int]] = field(default_factory=list)
    _attempts: dict[str, int] = field(default_factory=dict)
    _arrivals: list[tuple[float, int, Job]] = field(default_factory=list)
    _planned: list[tuple[float, int, PlannedChange]] = field(default_factory=list)
    _withdrawals: list[tuple[float, str]] = field(default_factory=list)
    _started: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begun = self.now

    def end_at(self, job_id: str, at: float) -> None:
        """End the current run of a job at an instant."""
        heapq.heappush(self._ends, (at, job_id, self._attempts.get(job_id, 0)))

    def add_arrivals(self, arrivals: Iterable[tuple[float, Job]]) -> None:
        """Submit jobs at these instants."""
        for at, job in arrivals:
            heapq.heappush(self._arrivals, (at, len(self._arrivals), job))

    def add_change(self, at: float, change: PlannedChange) -> None:
        """Change the cell at an instant, before all other events of that instant."""
        heapq.heappush(self._planned, (at, len(self._planned), change))

    def withdraw_at(self, job_id: str, at: float) -> None:
        """Withdraw a job at an instant if it is pending then."""
        heapq.heappush(self._withdrawals, (at, job_id))

    def run_until(self, end: float) -> Iterator[tuple[float, Sequence[str]]]:
        """Yield each instant up to `end` with the jobs that start at it."""
        self._apply(self._release_leaving())
        at = self.now
        while at <= end:
            self.check_time()
            self.now = at
            self._started = []
            while self._planned and self._planned[0][0] <= at:
                self._apply(heapq.heappop(self._planned)[2](self.snapshot))
            self._apply([*self._due_ends(), *self._due_withdrawals()])
            self._apply([*self._due_arrivals()])
            if self._waiting():
                self._settle()
            yield at, tuple(self._started)
            at = self._next_instant()

    def _waiting(self) -> bool:
        return any(job.state is JobState.QUEUED for job in self.snapshot.jobs.values())

    def _next_instant(self) -> float:
        """Return the next point of the grid at or after the next event."""
        heaps = (self._ends, self._arrivals, self._planned, self._withdrawals)
        times = [heap[0][0] for heap in heaps if heap]
        step = self.grid.coarseness * (self.now - self._begun)
        if self._waiting():
            times.append(self.now + max(self.grid.tick_s, step))
        if not times:
            return float("inf")
        return max(min(times), self.now + max(self.grid.finest_s, step))

    def _release_leaving(self) -> Iterator[Change]:
        """Yield the changes that release all terminating allocations and jobs at once."""
        for key in self.snapshot.leaving_allocations():
            yield AllocationRemoved(key)
        for job in list(self.snapshot.jobs.values()):
            if job.state is JobState.LEAVING:
                yield JobPut(self._queued_again(job)) if job.id in self.returning else JobRemoved(job.id)

    def _due_ends(self) -> Iterator[Change]:
        while self._ends and self._ends[0][0] <= self.now:
            _, job_id, attempt = heapq.heappop(self._ends)
            job = self.snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.LIVE or attempt != self._attempts.get(job_id, 0):
                continue
            for allocation in self.snapshot.allocations_of(job_id):
                yield AllocationRemoved(allocation.id)
            yield JobRemoved(job_id)
            if self.watch:
                self.watch.on_ended(self.now, job_id)

    def _due_withdrawals(self) -> Iterator[Change]:
        while self._withdrawals and self._withdrawals[0][0] <= self.now:
            job_id = heapq.heappop(self._withdrawals)[1]
            job = self.snapshot.jobs.get(job_id)
            if job is not None and job.state is JobState.QUEUED:
                yield ClaimRemoved(job_id)
                yield JobRemoved(job_id)
                if self.watch:
                    self.watch.on_withdrawn(self.now, job_id)

    def _due_arrivals(self) -> Iterator[Change]:
        while self._arrivals and self._arrivals[0][0] <= self.now:
            job = heapq.heappop(self._arrivals)[2]
            yield JobPut(job)
            if self.watch:
                self.watch.on_submitted(self.now, job.id)

    def _settle(self) -> None:
        for _ in range(_MOST_CYCLES):
            recount_workload(self.snapshot, self.config)
            result = run_cycle(self.snapshot, self.config, Instant(self.now))
            self.cycles += 1
            for decision in _evictions_first(result.decisions):
                self.on_decision(decision)
                self._apply(self._carry_out(decision))
            if not any(_goes_on(decision) for decision in result.decisions):
                return

    def _carry_out(self, decision: Decision) -> list[Change]:
        match decision.kind:
            case DecisionKind.ADMIT:
                return self._start(decision.job, decision.allocations)
            case DecisionKind.EVICT:
                return self._evict(decision.job)
            case DecisionKind.MIGRATE | DecisionKind.GROW | DecisionKind.SHRINK:
                if decision.kind is DecisionKind.MIGRATE:
                    self._begin_again(decision)
                released = [AllocationRemoved(key) for key in decision.released]
                return [*released, *map(AllocationPut, decision.allocations)]
            case DecisionKind.PARK:
                return [self._claim(decision)]
            case _:
                return []

    def _begin_again(self, decision: Decision) -> None:
        """Begin a new run of a job that is moved."""
        job_id = decision.job
        self._attempts[job_id] = self._attempts.get(job_id, 0) + 1
        if self.watch:
            stays = [one for one in self.snapshot.allocations_of(job_id) if one.id not in decision.released]
            self.watch.on_evicted(self.now, job_id)
            self.watch.on_started(self.now, job_id, (*stays, *decision.allocations))
        self.end_at(job_id, self.now + self.run_time(job_id))

    def _start(self, job_id: str, allocations: Sequence[Allocation]) -> list[Change]:
        job, since = self.snapshot.jobs[job_id], Instant(self.now)
        self._started.append(job_id)
        self.end_at(job_id, self.now + self.run_time(job_id))
        if self.watch:
            self.watch.on_started(self.now, job_id, allocations)
        live = replace(job, state=JobState.LIVE, admitted_at=since, running_since=since)
        return [ClaimRemoved(job_id), JobPut(live), *map(AllocationPut, allocations)]

    def _evict(self, job_id: str) -> list[Change]:
        job = self.snapshot.jobs[job_id]
        if job.state is not JobState.LIVE:  # two actions of a cycle may evict the same job
            return []
        self._attempts[job_id] = self._attempts.get(job_id, 0) + 1
        if self.watch:
            self.watch.on_evicted(self.now, job_id)
        released = [AllocationRemoved(held.id) for held in self.snapshot.allocations_of(job_id)]
        return [*released, JobPut(self._queued_again(job))]

    def _queued_again(self, job: Job) -> Job:
        return replace(
            job,
            state=JobState.QUEUED,
            admitted_at=None,
            running_since=None,
            evictions=job.evictions + 1,
            evicted_at=Instant(self.now),
        )

    def _claim(self, decision: Decision) -> Change:
        if not decision.allocations:
            return ClaimRemoved(decision.job)
        until = Instant(self.now + _CLAIM_S)
        leaving = decision.released
        return ClaimPut(
            Claim(job=decision.job, allocations=decision.allocations, leaving=leaving, until=until)
        )

    def _apply(self, changes: Iterable[Change]) -> None:
        self.snapshot.apply_delta(Delta(tuple(changes)))


def _evictions_first(decisions: Sequence[Decision]) -> Iterator[Decision]:
    """Yield decisions that release capacity first, because other decisions already use it."""
    for kind in RELEASING_KINDS:
        yield from (decision for decision in decisions if decision.kind is kind)
    yield from (decision for decision in decisions if decision.kind not in RELEASING_KINDS)


def _goes_on(decision: Decision) -> bool:
    """Return whether another cycle at the same instant may decide more: not if no job borrows or releases."""
    if decision.kind is DecisionKind.ADMIT:
        return bool(decision.borrowed)
    return decision.kind in (*RELEASING_KINDS, DecisionKind.PARK)
