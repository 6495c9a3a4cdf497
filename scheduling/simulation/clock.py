"""Replays a trace with the engine in virtual time, with cycles at each instant that has an event.

At an instant completions come first, then arrivals, then cycles until there are no more decisions, because
evicted jobs release their capacity at once in virtual time. This module itself decides nothing.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    Change,
    ClaimPut,
    ClaimRemoved,
    Delta,
    JobPut,
    JobRemoved,
    LossPut,
    Snapshot,
    run_cycle,
)
from scheduling.engine.model import Allocation, Claim, Decision, DecisionKind, Instant, JobState
from scheduling.simulation.losses import Losses
from scheduling.simulation.philly import TraceJob, TraceTenant
from scheduling.simulation.pools import PoolPolicy, build_config, build_world, engine_job

# A cycle that evicts is followed by one that uses the released capacity, and so on. If the engine does not
# end this chain, it is stopped after so many cycles.
MOST_CYCLES: Final = 100
CLAIM_S: Final = 300


class Restless(RuntimeError):
    """The engine kept deciding although nothing else changed."""


class UnexpectedDecision(RuntimeError):
    """The engine made a decision that a replay does not carry out."""


@dataclass(slots=True)
class Record:
    """The history of one job. Times are in seconds of the trace; `lost_s` is the run time lost to
    evictions."""

    job: TraceJob
    started_s: int | None = None
    finished_s: int | None = None
    evictions: int = 0
    lost_s: int = 0
    nodes: tuple[str, ...] = ()

    @property
    def queue_s(self) -> int | None:
        """The time between submission and finish in which the job did not run."""
        return None if self.jct_s is None else self.jct_s - self.job.duration_s - self.lost_s

    @property
    def jct_s(self) -> int | None:
        """Finish minus submission."""
        return None if self.finished_s is None else self.finished_s - self.job.submit_s


class Observer(Protocol):
    """Receives the events of a replay; `on_settled` is called at the end of each instant."""

    def on_submitted(self, at: int, record: Record) -> None: ...

    def on_started(self, at: int, record: Record) -> None: ...

    def on_evicted(self, at: int, record: Record) -> None: ...

    def on_finished(self, at: int, record: Record) -> None: ...

    def on_settled(self, at: int) -> None: ...


@dataclass(slots=True)
class Replay:
    """One run of a trace through the engine."""

    tenants: Sequence[TraceTenant]
    policy: PoolPolicy
    observers: Sequence[Observer] = ()
    records: dict[str, Record] = field(default_factory=dict)
    # Called at the beginning of each instant with its time and the snapshot before its events.
    before_instant: Callable[[int, Snapshot], None] = lambda now, snapshot: None
    _held: dict[str, dict[str, Allocation]] = field(default_factory=dict)
    _finishes: list[tuple[int, str, int]] = field(default_factory=list)
    _waiting: Counter[str] = field(default_factory=Counter)
    _losses: Losses = field(default_factory=Losses)
    _snapshot: Snapshot = field(default_factory=Snapshot)

    def run(
        self,
        jobs: Sequence[TraceJob],
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Record]:
        """Replay all jobs; return one record for each job in the given order."""
        self._snapshot = build_world(self.tenants, self.policy)
        self._losses = Losses(sum(tenant.gpus for tenant in self.tenants))
        arrivals = sorted(jobs, key=lambda job: (job.submit_s, job.row))
        arrived = done = 0
        while arrived < len(arrivals) or self._finishes:
            now = self._next_instant(arrivals[arrived] if arrived < len(arrivals) else None)
            self.before_instant(now, self._snapshot)
            changes: list[Change] = []
            done += self._finish_due(now, changes)
            while arrived < len(arrivals) and arrivals[arrived].submit_s == now:
                self._submit(now, arrivals[arrived], changes)
                arrived += 1
            lost_ppm = self._losses.measure_ppm(now)
            if lost_ppm != self._snapshot.lost_ppm:
                changes.append(LossPut(lost_ppm))
            self._snapshot.apply_delta(Delta(tuple(changes)))
            self._cycles(now)
            for observer in self.observers:
                observer.on_settled(now)
            progress(done, len(arrivals))
        by_row = {record.job.row: record for record in self.records.values()}
        return [by_row[job.row] for job in jobs]

    def _next_instant(self, arrival: TraceJob | None) -> int:
        times = [self._finishes[0][0]] if self._finishes else []
        if arrival is not None:
            times.append(arrival.submit_s)
        return min(times)

    def _submit(self, now: int, arrival: TraceJob, changes: list[Change]) -> None:
        cards = max(tenant.cards_per_node for tenant in self.tenants)
        job = engine_job(arrival, self.policy, cards)
        record = self.records[job.id] = Record(arrival)
        self._waiting[arrival.tenant] += 1
        changes.append(JobPut(job))
        for observer in self.observers:
            observer.on_submitted(now, record)

    def _finish_due(self, now: int, changes: list[Change]) -> int:
        """End the runs that end now, except those of evicted attempts; return how many ended."""
        ended = 0
        while self._finishes and self._finishes[0][0] == now:
            _, job_id, attempt = heapq.heappop(self._finishes)
            record = self.records[job_id]
            if attempt != record.evictions or record.started_s is None:
                continue
            changes.extend(AllocationRemoved(key) for key in self._held.pop(job_id))
            changes.append(JobRemoved(job_id))
            record.finished_s = now
            ended += 1
            for observer in self.observers:
                observer.on_finished(now, record)
        return ended

    def _cycles(self, now: int) -> None:
        for _ in range(MOST_CYCLES):
            result = run_cycle(self._snapshot, build_config(self.policy), Instant(now))
            for decision in self._ordered(result.decisions):
                changes: list[Change] = []
                self._carry_out(now, decision, changes)
                self._snapshot.apply_delta(Delta(tuple(changes)))
            if not any(self._goes_on(decision) for decision in result.decisions):
                return
        raise Restless(f"at {now} s the engine was still deciding after {MOST_CYCLES} cycles")

    def _goes_on(self, decision: Decision) -> bool:
        """Return whether more decisions may follow in the same instant: an admission frees nothing, but jobs
        of other tenants may reclaim what it borrows."""
        if decision.kind is not DecisionKind.ADMIT:
            return True
        tenant = self.records[decision.job].job.tenant
        others = sum(self._waiting.values()) - self._waiting[tenant]
        return bool(decision.borrowed) and others > 0

    def _ordered(self, decisions: Sequence[Decision]) -> Iterator[Decision]:
        """Yield evictions and moves first: other decisions already use the capacity that these release."""
        first = (DecisionKind.EVICT, DecisionKind.MIGRATE)
        yield from (decision for decision in decisions if decision.kind is DecisionKind.EVICT)
        yield from (decision for decision in decisions if decision.kind is DecisionKind.MIGRATE)
        yield from (decision for decision in decisions if decision.kind not in first)

    def _carry_out(self, now: int, decision: Decision, changes: list[Change]) -> None:
        match decision.kind:
            case DecisionKind.ADMIT:
                self._start(now, decision.job, decision.allocations, changes)
            case DecisionKind.EVICT:
                self._evict(now, decision.job, changes)
            case DecisionKind.MIGRATE:
                self._move(now, decision, changes)
            case DecisionKind.PARK:
                changes.append(self._promise(now, decision))
            case _:
                raise UnexpectedDecision(f"a replay does not carry out {decision.kind}")

    def _promise(self, now: int, decision: Decision) -> Change:
        """Return the change that stores a claim, or removes it if the decision has no allocations."""
        if not decision.allocations:
            return ClaimRemoved(decision.job)
        return ClaimPut(
            Claim(
                job=decision.job,
                allocations=decision.allocations,
                leaving=decision.released,
                until=Instant(now + CLAIM_S),
            )
        )

    def _start(self, now: int, job_id: str, allocations: Sequence[Allocation], changes: list[Change]) -> None:
        record = self.records[job_id]
        record.started_s = now
        self._waiting[record.job.tenant] -= 1
        record.nodes = tuple(allocation.node for allocation in allocations)
        self._held[job_id] = {allocation.id: allocation for allocation in allocations}
        heapq.heappush(self._finishes, (now + record.job.duration_s, job_id, record.evictions))
        job = self._snapshot.jobs[job_id]
        changes.append(ClaimRemoved(job_id))
        since = Instant(now)
        changes.append(JobPut(replace(job, state=JobState.LIVE, admitted_at=since, running_since=since)))
        changes.extend(AllocationPut(allocation) for allocation in allocations)
        for observer in self.observers:
            observer.on_started(now, record)

    def _evict(self, now: int, job_id: str, changes: list[Change]) -> None:
        """Evict a job; its work since the last checkpoint, here since its start, is lost."""
        record = self.records[job_id]
        if record.started_s is None:
            raise UnexpectedDecision(f"{job_id} is evicted and does not run")
        record.lost_s += now - record.started_s
        self._losses.add(now, record.job.gpus * (now - record.started_s))
        record.evictions += 1
        record.started_s = None
        self._waiting[record.job.tenant] += 1
        job = self._snapshot.jobs[job_id]
        changes.extend(AllocationRemoved(key) for key in self._held.pop(job_id))
        changes.append(
            JobPut(
                replace(
                    job,
                    state=JobState.QUEUED,
                    admitted_at=None,
                    running_since=None,
                    evictions=record.evictions,
                    evicted_at=Instant(now),
                )
            )
        )
        for observer in self.observers:
            observer.on_evicted(now, record)

    def _move(self, now: int, decision: Decision, changes: list[Change]) -> None:
        """Evict a job that moves, and start it again at its new placement at once."""
        held = self._held[decision.job]
        remaining = [allocation for key, allocation in held.items() if key not in decision.released]
        self._evict(now, decision.job, changes)
        self._snapshot.apply_delta(Delta(tuple(changes)))
        changes.clear()
        self._start(now, decision.job, (*remaining, *decision.allocations), changes)
