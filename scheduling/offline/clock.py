"""Virtual time: a trace runs through the engine, one cycle at each instant at which something happens.

At one instant completions come first, then arrivals, then one cycle, whose decisions take effect at
once. Nothing is decided here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from scheduling.engine import (
    AllocationGone,
    AllocationPut,
    Change,
    Delta,
    EngineConfig,
    Explain,
    JobGone,
    JobPut,
    Snapshot,
    run_cycle,
)
from scheduling.engine.model import Allocation, Decision, DecisionKind, Instant, JobState
from scheduling.offline.philly import Tenant, TraceJob
from scheduling.offline.pools import PoolPolicy, engine_job, world

CONFIG = EngineConfig(heads_per_queue=None, explain=Explain.CONSIDERED)


class UnexpectedDecision(RuntimeError):
    """The engine decided something that a replay without preemption does not configure."""


@dataclass(slots=True)
class Record:
    """What became of one job. Times are in seconds of the trace; `lost_s` was run and thrown away."""

    job: TraceJob
    started_s: int | None = None
    finished_s: int | None = None
    evictions: int = 0
    lost_s: int = 0
    nodes: tuple[str, ...] = ()

    @property
    def queue_s(self) -> int | None:
        """All the time between submission and finish in which it did not run."""
        return None if self.finished_s is None else self.finished_s - self.job.submit_s - self.job.duration_s

    @property
    def jct_s(self) -> int | None:
        """Finish minus submission."""
        return None if self.finished_s is None else self.finished_s - self.job.submit_s


class Observer(Protocol):
    """Watches a replay; `settled` is called once an instant is over."""

    def submitted(self, at: int, record: Record) -> None: ...

    def started(self, at: int, record: Record) -> None: ...

    def finished(self, at: int, record: Record) -> None: ...

    def settled(self, at: int) -> None: ...


@dataclass(slots=True)
class Replay:
    """One run of a trace through the engine."""

    tenants: Sequence[Tenant]
    policy: PoolPolicy
    records: dict[str, Record] = field(default_factory=dict)
    _held: dict[str, tuple[Allocation, ...]] = field(default_factory=dict)
    _finishes: list[tuple[int, str]] = field(default_factory=list)
    _snapshot: Snapshot = field(default_factory=Snapshot)

    def run(
        self,
        jobs: Sequence[TraceJob],
        observers: Sequence[Observer] = (),
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Record]:
        """Replay all jobs; returns one record per job in the order given."""
        cards = max(tenant.cards_per_node for tenant in self.tenants)
        self._snapshot = world(self.tenants, self.policy)
        arrivals = sorted(jobs, key=lambda job: (job.submit_s, job.row))
        arrived = done = 0
        while arrived < len(arrivals) or self._finishes:
            now = self._next_instant(arrivals[arrived] if arrived < len(arrivals) else None)
            changes: list[Change] = []
            for record in self._ended(now, changes):
                done += 1
                for observer in observers:
                    observer.finished(now, record)
            while arrived < len(arrivals) and arrivals[arrived].submit_s == now:
                job = engine_job(arrivals[arrived], self.policy, cards)
                self.records[job.id] = Record(arrivals[arrived])
                changes.append(JobPut(job))
                for observer in observers:
                    observer.submitted(now, self.records[job.id])
                arrived += 1
            self._snapshot.apply(Delta(tuple(changes)))
            for record in self._cycle(now):
                for observer in observers:
                    observer.started(now, record)
            for observer in observers:
                observer.settled(now)
            progress(done, len(arrivals))
        by_row = {record.job.row: record for record in self.records.values()}
        return [by_row[job.row] for job in jobs]

    def _next_instant(self, arrival: TraceJob | None) -> int:
        times = [self._finishes[0][0]] if self._finishes else []
        if arrival is not None:
            times.append(arrival.submit_s)
        return min(times)

    def _ended(self, now: int, changes: list[Change]) -> Iterator[Record]:
        while self._finishes and self._finishes[0][0] == now:
            _, job_id = heapq.heappop(self._finishes)
            changes.extend(AllocationGone(allocation.id) for allocation in self._held.pop(job_id))
            changes.append(JobGone(job_id))
            record = self.records[job_id]
            record.finished_s = now
            yield record

    def _cycle(self, now: int) -> list[Record]:
        result = run_cycle(self._snapshot, CONFIG, Instant(now))
        started: list[Record] = []
        changes: list[Change] = []
        for decision in result.decisions:
            started.append(self._start(now, decision, changes))
        self._snapshot.apply(Delta(tuple(changes)))
        return started

    def _start(self, now: int, decision: Decision, changes: list[Change]) -> Record:
        if decision.kind is not DecisionKind.ADMIT:
            raise UnexpectedDecision(f"a replay only admits; the engine decided {decision.kind}")
        record = self.records[decision.job]
        record.started_s = now
        record.nodes = tuple(allocation.node for allocation in decision.allocations)
        self._held[decision.job] = decision.allocations
        heapq.heappush(self._finishes, (now + record.job.duration_s, decision.job))
        job = self._snapshot.jobs[decision.job]
        changes.append(JobPut(replace(job, state=JobState.LIVE, admitted_at=Instant(now))))
        changes.extend(AllocationPut(allocation) for allocation in decision.allocations)
        return record
