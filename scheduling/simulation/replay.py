"""Replays a multi-tenant trace, and compares the result with private clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.simulation.clock import Record, Replay
from scheduling.simulation.guarantee import GRACE_S, GuaranteeWatch
from scheduling.simulation.pack import Progress, no_progress
from scheduling.simulation.philly import TraceJob, TraceTenant, compress_jobs
from scheduling.simulation.pools import pool_policy
from scheduling.simulation.statistics import (
    TenantFigures,
    ValueSpread,
    completion_times,
    compute_makespan,
    compute_utilisation,
    count_harmed,
    lost_gpu_hours,
    queue_times,
    tenant_figures,
)

PRIVATE = "static-fifo"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the event list, from which every metric can be verified."""

    t_s: int
    event: str
    job: str
    tenant: str
    gpus: int
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class EventLog:
    """An observer that records events in the order in which they occur."""

    events: list[Event] = field(default_factory=list)

    def on_submitted(self, at: int, record: Record) -> None:
        self._note(at, "submit", record, ())

    def on_started(self, at: int, record: Record) -> None:
        self._note(at, "start", record, record.nodes)

    def on_evicted(self, at: int, record: Record) -> None:
        self._note(at, "evict", record, record.nodes)

    def on_finished(self, at: int, record: Record) -> None:
        self._note(at, "finish", record, record.nodes)

    def on_settled(self, at: int) -> None:
        """Record nothing: there are no events at the end of an instant."""

    def _note(self, at: int, event: str, record: Record, nodes: tuple[str, ...]) -> None:
        job = record.job
        self.events.append(Event(at, event, job.name, job.tenant, job.gpus, nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The result of a replay. Times are seconds of the trace; `wall_s` is the duration of the run."""

    policy: str
    jobs: int
    finished: int
    makespan_s: int
    queue: ValueSpread
    jct: ValueSpread
    per_tenant: dict[str, TenantFigures]
    guarantee_violations: int
    jobs_harmed: int
    preemptions: int
    max_evictions_of_one_job: int
    lost_gpu_hours: float
    gpu_utilisation: float
    wall_s: float
    events: tuple[Event, ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the fixed keys of the command's JSON; a tenant's `queue_s` and `jct_s` are means."""
        return {
            "policy": self.policy,
            "jobs": self.jobs,
            "finished": self.finished,
            "makespan_s": self.makespan_s,
            "queue_s": self.queue.to_json(),
            "jct_s": self.jct.to_json(),
            "per_tenant": {name: figures.to_json() for name, figures in self.per_tenant.items()},
            "guarantee_violations": self.guarantee_violations,
            "jobs_harmed": self.jobs_harmed,
            "preemptions": self.preemptions,
            "max_evictions_of_one_job": self.max_evictions_of_one_job,
            "lost_gpu_hours": self.lost_gpu_hours,
            "gpu_utilisation": self.gpu_utilisation,
            "wall_s": round(self.wall_s, 3),
            "jobs_per_second": round(self.jobs / self.wall_s, 1) if self.wall_s > 0 else 0.0,
        }


def run_replay(
    jobs: Sequence[TraceJob],
    tenants: Sequence[TraceTenant],
    *,
    policy: str,
    compress: float = 1.0,
    heads_only: bool = False,
    stopwatch: Callable[[], float] = time.perf_counter,
    progress: Progress = no_progress,
) -> ReplayReport:
    """Replay the jobs under a policy, and under private clusters for comparison.

    `heads_only`: guarantee violations are counted only for the first pending job of each tenant. `wall_s` is
    the time of the policy's own run, without the comparison.

    Raises:
        UsageError: for a policy that is not offered or a factor that is not above zero.
    """
    rules = pool_policy(policy)
    trace = compress_jobs(jobs, compress)
    watch, log = GuaranteeWatch(tenants, heads_only=heads_only), EventLog()
    begun = stopwatch()
    records = Replay(tenants, rules, (watch, log)).run(trace, progress)
    wall = stopwatch() - begun
    alone = records
    if policy != PRIVATE:
        alone = Replay(tenants, pool_policy(PRIVATE)).run(trace, progress)
    private = {record.job.name: record for record in alone}
    return ReplayReport(
        policy=policy,
        jobs=len(records),
        finished=sum(1 for record in records if record.finished_s is not None),
        makespan_s=compute_makespan(records),
        queue=ValueSpread.of_values(queue_times(records)),
        jct=ValueSpread.of_values(completion_times(records)),
        per_tenant={
            tenant.name: tenant_figures([r for r in records if r.job.tenant == tenant.name], private)
            for tenant in tenants
        },
        guarantee_violations=watch.violations,
        jobs_harmed=count_harmed(records, private, GRACE_S),
        preemptions=sum(record.evictions for record in records),
        max_evictions_of_one_job=max(record.evictions for record in records),
        lost_gpu_hours=lost_gpu_hours(records),
        gpu_utilisation=compute_utilisation(records, sum(tenant.gpus for tenant in tenants)),
        wall_s=wall,
        events=tuple(log.events),
    )
