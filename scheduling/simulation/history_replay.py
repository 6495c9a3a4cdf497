"""Replays a recorded period of a cell with the platform's engine in virtual time, with or without a change.

Jobs are submitted and withdrawn at their recorded times, and run for their recorded run times. The engine
makes all other decisions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from foundation.core.quantities import Resource
from scheduling.engine import (
    AllocationPut,
    Change,
    Delta,
    EngineConfig,
    JobPut,
    LossPut,
    QuotaPut,
    Snapshot,
    UsagePut,
)
from scheduling.engine.model import (
    Allocation,
    Flavor,
    Instant,
    Job,
    JobState,
    Node,
    Queue,
    Quota,
    QuotaNode,
    ResourceAmount,
    UserUsage,
)
from scheduling.prediction.virtual_cell import CellWatch, TimeGrid, VirtualCell
from scheduling.simulation.losses import Losses
from scheduling.simulation.replay_tally import WHOLE_GPU, JobFacts, ReplayTally

GRID: Final = TimeGrid(finest_s=1.0, coarseness=0.0, tick_s=300.0)
_COUNTED: Final = (Resource.GPU_CORES, Resource.GPU_CARDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedJob:
    """A recorded job. `job` is as it was submitted, with its evictions before the period.

    `work_s` is its total run time; None if its end is not known, then it runs until the end of the period.
    `withdrawn_at` is when its user cancelled it before it ended by itself. A job with allocations at the
    beginning of the period has `holds` since `held_since`; `done_s` of its work were done before that, or
    saved by earlier runs.
    """

    job: Job
    team: str
    points: int
    work_s: float | None
    withdrawn_at: float | None = None
    checkpoint_s: float | None = None
    holds: tuple[Allocation, ...] = ()
    held_since: float | None = None
    done_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QuotaStep:
    """The limits of quota nodes that change at an instant, by node."""

    at: float
    quotas: Mapping[str, Sequence[Quota]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cell and its events between `begin` and `end`, in epoch seconds.

    `team_nodes` are the quota nodes of the teams whose jobs are replayed.
    """

    begin: float
    end: float
    config: EngineConfig
    nodes: Sequence[Node]
    flavors: Sequence[Flavor]
    quota_nodes: Sequence[QuotaNode]
    queues: Sequence[Queue]
    jobs: Sequence[RecordedJob]
    team_nodes: Mapping[str, str]
    quota_steps: Sequence[QuotaStep] = ()

    def collect_facts(self) -> dict[str, JobFacts]:
        """Return the facts of each job that its figures need."""
        flavors = {queue.id: queue.flavors for queue in self.queues}
        return {
            one.job.id: JobFacts(
                one.team, flavors[one.job.queue], one.points, one.job.submitted_at >= self.begin
            )
            for one in self.jobs
        }

    def count_capacity(self) -> dict[str, int]:
        """Return the percent points of the healthy GPUs of each pool; a node counts once."""
        found: Counter[str] = Counter()
        for node in self.nodes:
            pool = next((one.id for one in self.flavors if is_node_of(node, one)), None)
            if pool is not None and node.devices:
                found[pool] += sum(device.cores for device in node.devices if device.healthy)
        return dict(found)


def is_node_of(node: Node, flavor: Flavor) -> bool:
    """Return whether a node belongs to a pool."""
    return node.cluster == flavor.cluster and flavor.node_labels.items() <= node.labels.items()


def count_points(allocations: Iterable[Allocation]) -> dict[str, int]:
    """Return the charged percent points of GPUs of tasks, by pool."""
    found: Counter[str] = Counter()
    for allocation in allocations:
        charged = {charge.resource: charge.amount for charge in allocation.charges}
        cores, cards = (charged.get(name, 0) for name in _COUNTED)
        if points := cores or WHOLE_GPU * cards:
            found[allocation.flavor] += points
    return dict(found)


def sum_team_quotas(
    nodes: Sequence[QuotaNode], team_nodes: Mapping[str, str]
) -> dict[tuple[str, str], int | None]:
    """Return the nominal GPU compute of each team in each pool, including that of its queues."""
    below: defaultdict[str | None, list[QuotaNode]] = defaultdict(list)
    for node in nodes:
        below[node.parent].append(node)
    found: dict[tuple[str, str], int | None] = {}
    for team, top in team_nodes.items():
        inside = [node for node in nodes if node.id == top]
        for node in inside:
            inside.extend(below[node.id])
        for node in inside:
            for quota in node.quotas:
                if quota.resource != Resource.GPU_CORES:
                    continue
                key = team, quota.flavor
                before = found.get(key, 0)
                own = quota.own_nominal
                found[key] = None if before is None or own is None else before + own
    return found


@dataclass(slots=True)
class HistoryReplay(CellWatch):
    """One run of a scenario. It watches its own virtual cell and counts the events of jobs."""

    scenario: Scenario
    tally: ReplayTally = field(init=False)
    _jobs: dict[str, RecordedJob] = field(init=False)
    _cell: VirtualCell = field(init=False)
    _done: dict[str, float] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)
    _points: dict[str, int] = field(default_factory=dict)
    _held: defaultdict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _charges: dict[str, Counter[str]] = field(default_factory=dict)
    _losses: Losses = field(init=False)
    _sampled_at: float = field(init=False)

    def __post_init__(self) -> None:
        scenario = self.scenario
        self._jobs = {one.job.id: one for one in scenario.jobs}
        self._done = {key: one.done_s for key, one in self._jobs.items()}
        nominal = sum_team_quotas(scenario.quota_nodes, scenario.team_nodes)
        self.tally = ReplayTally(scenario.collect_facts(), nominal, begin=scenario.begin, end=scenario.end)
        self._losses = Losses(sum(scenario.count_capacity().values()) // WHOLE_GPU)
        self._sampled_at = scenario.begin
        snapshot = Snapshot(
            nodes=scenario.nodes,
            flavors=scenario.flavors,
            quota_nodes=scenario.quota_nodes,
            queues=scenario.queues,
        )
        self._cell = VirtualCell(
            snapshot, scenario.config, scenario.begin, self._run_time, grid=GRID, watch=self
        )

    def run_period(self, report: Callable[[float], None] = lambda part: None) -> dict[str, Any]:
        """Run to the end of the period and return the figures.

        `report` is called with the simulated part of the period, 0 to 1, and may raise.
        """
        scenario = self.scenario
        self._place_jobs()
        for step in scenario.quota_steps:
            self._cell.add_change(max(step.at, scenario.begin), partial(self._change_quota, step))
        length = scenario.end - scenario.begin
        for at, _started in self._cell.run_until(scenario.end):
            self._measure(at)
            report(min((at - scenario.begin) / length, 1.0))
        self.tally.close_period()
        return self.tally.to_json(capacity=scenario.count_capacity()) | {"cycles": self._cell.cycles}

    def _place_jobs(self) -> None:
        """Place the jobs that ran at the beginning, queue those that were pending, and plan later
        submissions."""
        begin, arrivals = self.scenario.begin, []
        known = {node.id: {device.uuid for device in node.devices} for node in self.scenario.nodes}
        changes: list[Change] = []
        for one in self.scenario.jobs:
            fits = one.holds and all(
                held.node in known and all(part.device in known[held.node] for part in held.slices)
                for held in one.holds
            )
            if one.held_since is not None and fits:
                changes += self._continue_job(one, one.held_since)
            elif one.job.submitted_at < begin:
                changes.append(JobPut(one.job))
                self.tally.submit_job(begin, one.job.id)
            else:
                arrivals.append((float(one.job.submitted_at), one.job))
            if one.withdrawn_at is not None:
                self._cell.withdraw_at(one.job.id, one.withdrawn_at)
        self._cell.snapshot.apply_delta(Delta(tuple(changes)))
        self._cell.add_arrivals(arrivals)

    def _continue_job(self, one: RecordedJob, since: float) -> list[Change]:
        """Return the changes that continue a job which ran at the beginning of the period."""
        key, begin = one.job.id, self.scenario.begin
        began = Instant(since)
        live = replace(one.job, state=JobState.LIVE, admitted_at=began, running_since=began)
        self._note_start(begin, key, one.holds)
        self._since[key] = since
        self._cell.end_at(key, max(since + self._remaining(one, since), begin + 1.0))
        return [JobPut(live), *map(AllocationPut, one.holds)]

    def _run_time(self, key: str) -> float:
        return max(self._remaining(self._jobs[key], self._cell.now), 1.0)

    def _remaining(self, one: RecordedJob, at: float) -> float:
        """Return the remaining run time of a job that starts at an instant, in seconds."""
        if one.withdrawn_at is not None:
            return one.withdrawn_at - at
        return math.inf if one.work_s is None else one.work_s - self._done[one.job.id]

    def _change_quota(self, step: QuotaStep, snapshot: Snapshot) -> Iterable[Change]:
        """Return the changes that set the limits of a step."""
        puts = []
        for node in snapshot.export_quota_nodes():
            if node.id in step.quotas:
                quotas = {quota.key: quota for quota in (*node.quotas, *step.quotas[node.id])}
                puts.append(QuotaPut(replace(node, quotas=tuple(quotas.values()))))
        changed = {put.quota_node.id: put.quota_node for put in puts}
        nodes = [changed.get(node.id, node) for node in snapshot.export_quota_nodes()]
        self.tally.set_nominal(self._cell.now, sum_team_quotas(nodes, self.scenario.team_nodes))
        return puts

    def _measure(self, at: float) -> None:
        """Update the measured losses and user usage of the snapshot, as the platform does for a live cell."""
        changes: list[Change] = []
        lost_ppm = self._losses.measure_ppm(int(at))
        if lost_ppm != self._cell.snapshot.lost_ppm:
            changes.append(LossPut(lost_ppm))
        shares = self.scenario.config.user_shares
        if shares is not None and at - self._sampled_at >= shares.sampling_s:
            decay = 0.5 ** ((at - self._sampled_at) / shares.half_life_s)
            self._sampled_at = at
            for key in {*self._held, *self._cell.snapshot.usage}:
                known = self._cell.snapshot.usage.get(key)
                past = {one.resource: one.amount for one in known.consumed} if known else {}
                held: Mapping[str, int] = self._held.get(key, {})
                amounts = {
                    name: decay * past.get(name, 0.0) + (1.0 - decay) * held.get(name, 0)
                    for name in sorted({*past, *held})
                }
                consumed = tuple(ResourceAmount(name, amount) for name, amount in amounts.items())
                usage = UserUsage(queue=key[0], user=key[1], at=Instant(at), consumed=consumed)
                changes.append(UsagePut(usage))
        if changes:
            self._cell.snapshot.apply_delta(Delta(tuple(changes)))

    def _note_start(self, at: float, job_id: str, allocations: Sequence[Allocation]) -> None:
        held = count_points(allocations)
        self._points[job_id] = sum(held.values())
        charges: Counter[str] = Counter()
        for allocation in allocations:
            charges.update({charge.resource: charge.amount for charge in allocation.charges})
        self._charges[job_id] = charges
        job = self._jobs[job_id].job
        self._held[job.queue, job.user].update(charges)
        self.tally.start_job(at, job_id, held)

    def _note_stop(self, job_id: str) -> None:
        job = self._jobs[job_id].job
        self._held[job.queue, job.user].subtract(self._charges.pop(job_id))

    def on_submitted(self, at: float, job_id: str) -> None:
        self.tally.submit_job(at, job_id)

    def on_started(self, at: float, job_id: str, allocations: Sequence[Allocation]) -> None:
        self._since[job_id] = at
        self._note_start(at, job_id, allocations)

    def on_evicted(self, at: float, job_id: str) -> None:
        one, ran = self._jobs[job_id], at - self._since[job_id]
        saved = ran // one.checkpoint_s * one.checkpoint_s if one.checkpoint_s else 0.0
        self._done[job_id] += saved
        self._losses.add(int(at), int((ran - saved) * self._points[job_id] / WHOLE_GPU))
        self.tally.stop_job(at, job_id, waits=True, preempted=True, lost_s=ran - saved)
        self._note_stop(job_id)

    def on_ended(self, at: float, job_id: str) -> None:
        self.tally.finish_job(at, job_id)
        self._note_stop(job_id)

    def on_withdrawn(self, at: float, job_id: str) -> None:
        self.tally.withdraw_job(at, job_id)


def replay_scenario(
    scenario: Scenario, report: Callable[[float], None] = lambda part: None
) -> dict[str, Any]:
    """Return the figures of a scenario; `report` as for `HistoryReplay.run_period`."""
    return HistoryReplay(scenario).run_period(report)
