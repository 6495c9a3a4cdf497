"""Reads a recorded period of a cell: the scenario in which its jobs are replayed, and the actual attempts."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Q
from django.utils.translation import gettext as _

from clusters.models import Cell, Device, Node
from foundation.core import clock
from foundation.core.errors import Invalid
from foundation.core.months import to_ms
from foundation.sql import row_scope
from quotas.models import QuotaNode
from scheduling.engine import model as em
from scheduling.engine_input.job_history import PREEMPTED
from scheduling.engine_input.jobs import RoleRow, engine_job, watched_workspaces
from scheduling.metering.intervals import lost_since_ms
from scheduling.models import TERMINAL_STATES, Allocation, Attempt, DeviceSlice, Job, JobRole, JobState
from scheduling.services.policy_replay.past_quotas import Limits, read_past_quotas
from scheduling.services.start_prediction.history import CUT_SHORT
from scheduling.services.start_prediction.predict import forecast_config
from scheduling.simulation.history_replay import (
    QuotaStep,
    RecordedJob,
    Scenario,
    count_points,
    sum_team_quotas,
)
from scheduling.simulation.replay_tally import ReplayTally
from scheduling.snapshots.cell_parts import CellParts
from scheduling.snapshots.delegated import read_delegated
from scheduling.snapshots.holds import allocations_of
from scheduling.snapshots.inventory import devices_of, engine_flavors, engine_node
from scheduling.snapshots.tree import engine_queues, engine_quota_nodes

MOST_JOBS: Final = 20_000
_PREEMPTED: Final = frozenset(rule.value for rule in PREEMPTED)
_UNUSED: Final = ("environment", "volumes", "reason_numbers", "reason_help")


@dataclass(frozen=True, slots=True)
class _Run:
    """An attempt, in epoch seconds: it held its GPUs from `since` to `until`; None if it still does.

    `lost_s` is the work that a preemption discarded, in seconds.
    """

    attempt_id: uuid.UUID
    since: float
    until: float | None
    rule: str
    lost_s: float

    @property
    def cut_short(self) -> bool:
        return self.rule in CUT_SHORT


@dataclass(frozen=True, slots=True)
class RecordedPeriod:
    """The scenario of a period, with the attempts of each job and the GPUs that each attempt held."""

    scenario: Scenario
    runs: Mapping[str, Sequence[_Run]]
    holds: Mapping[uuid.UUID, Mapping[str, int]]

    def measure_period(self) -> dict[str, Any]:
        """Return the figures of the actual events, counted in the same way as those of a replay."""
        scenario = self.scenario
        nominal = sum_team_quotas(scenario.quota_nodes, scenario.team_nodes)
        tally = ReplayTally(scenario.collect_facts(), nominal, begin=scenario.begin, end=scenario.end)
        events = sorted(self._list_events(), key=lambda event: event[:3])
        for at, _order, job_id, act in events:
            act(tally, at, job_id)
        tally.close_period()
        return tally.to_json(capacity=scenario.count_capacity())

    def _list_events(self) -> Iterable[tuple[float, int, str, Any]]:
        """Yield the events of the period; at one instant ends come before beginnings."""
        scenario = self.scenario
        for step in scenario.quota_steps:
            quotas = sum_team_quotas(apply_limits(scenario.quota_nodes, step.quotas), scenario.team_nodes)
            yield step.at, 0, "", lambda tally, at, _id, quotas=quotas: tally.set_nominal(at, quotas)
        for one in scenario.jobs:
            yield from self._events_of(one)

    def _events_of(self, one: RecordedJob) -> Iterable[tuple[float, int, str, Any]]:
        begin, end, key = self.scenario.begin, self.scenario.end, one.job.id
        runs = self.runs[key]
        held_at_begin = any(run.since <= begin and (run.until is None or run.until > begin) for run in runs)
        last = runs[-1] if runs else None
        if not held_at_begin:
            yield max(float(one.job.submitted_at), begin), 2, key, ReplayTally.submit_job
        for run in runs:
            if run.since > end or (run.until is not None and run.until <= begin):
                continue
            held = self.holds.get(run.attempt_id, {})
            yield (
                max(run.since, begin),
                3,
                key,
                lambda tally, at, job, held=held: tally.start_job(at, job, held),
            )
            if run.until is None or run.until > end:
                continue
            if run is last and one.work_s is not None:
                yield run.until, 1, key, ReplayTally.finish_job
            else:
                yield run.until, 1, key, _stop_of(run)
        if one.withdrawn_at is not None and begin < one.withdrawn_at <= end:
            yield one.withdrawn_at, 4, key, ReplayTally.withdraw_job


def _stop_of(run: _Run) -> Any:
    """Return the event of a run's end; the job waits again if the run was cut short."""

    def stop_run(tally: ReplayTally, at: float, job_id: str) -> None:
        preempted = run.rule in _PREEMPTED
        tally.stop_job(at, job_id, waits=run.cut_short, preempted=preempted, lost_s=run.lost_s)

    return stop_run


def apply_limits(
    nodes: Sequence[em.QuotaNode], quotas: Mapping[str, Sequence[em.Quota]]
) -> list[em.QuotaNode]:
    """Return the quota nodes with the limits in `quotas` in place of their own."""
    found = []
    for node in nodes:
        merged = {quota.key: quota for quota in (*node.quotas, *quotas.get(node.id, ()))}
        found.append(replace(node, quotas=tuple(merged.values())) if node.id in quotas else node)
    return found


@row_scope.whole()
def read_period(cell: Cell, *, begin: datetime, end: datetime) -> RecordedPeriod:
    """Read the jobs of a period and the cell at that time, as far as it is recorded.

    Raises: Invalid when the period has no jobs, or more than `MOST_JOBS`.
    """
    parts, past = _read_cell(cell), read_past_quotas(cell.pk, begin=begin, end=end)
    queues = {queue.id for queue in parts.queues if queue.flavors}
    jobs = _read_jobs(cell, queues, begin, end)
    watched = watched_workspaces((job.workspace_id, job.placement) for job in jobs)
    roles = _roles_of(cell, begin, end)
    runs = _runs_of(cell, jobs, begin, end)
    held = _holds_of(cell, begin, end, watched)
    now = clock.now().timestamp()
    recorded = [
        _recorded(job, roles[job.pk], runs.get(str(job.pk), ()), held, begin.timestamp(), now, watched)
        for job in jobs
        if job.pk in roles
    ]
    teams = {job.workspace_id for job in jobs}
    team_nodes = QuotaNode.unscoped.filter(cell=cell, is_queue=False, tenant__in=teams)
    scenario = Scenario(
        begin=begin.timestamp(),
        end=end.timestamp(),
        config=forecast_config(cell.sharing),
        nodes=parts.nodes,
        flavors=parts.flavors,
        quota_nodes=apply_limits(parts.quota_nodes, quotas_of(past.at_begin)),
        queues=parts.queues,
        jobs=recorded,
        team_nodes={str(tenant): str(pk) for pk, tenant in team_nodes.values_list("pk", "tenant_id")},
        quota_steps=[QuotaStep(at.timestamp(), quotas_of(limits)) for at, limits in past.steps],
    )
    points = {pk: count_points(allocations) for pk, allocations in held.items()}
    return RecordedPeriod(scenario, {one.job.id: runs.get(one.job.id, ()) for one in recorded}, points)


def quotas_of(limits: Limits) -> dict[str, list[em.Quota]]:
    """Return the limits as the engine's quotas, by quota node."""
    found: defaultdict[str, list[em.Quota]] = defaultdict(list)
    for key, limit in limits.items():
        found[str(key.node_id)].append(
            em.Quota(
                flavor=str(key.flavor_id),
                resource=key.resource,
                own_nominal=limit.own_nominal,
                borrowing_limit=limit.borrowing_limit,
                lending_limit=limit.lending_limit,
            )
        )
    return dict(found)


def _read_cell(cell: Cell) -> CellParts:
    """Return the current cell without Allotment's own allocations; foreign pods stay.

    All queues are active, because it is not recorded whether one was on hold.
    """
    devices = devices_of(Device.unscoped.filter(node__cluster__cell=cell, node__present=True))
    now = clock.now()
    nodes = []
    rows = Node.unscoped.filter(cluster__cell=cell, present=True).order_by("cluster_id", "name")
    for rank, node in enumerate(rows):
        node.cpu_granted = node.memory_granted = 0
        for device in devices.get(node.pk, ()):
            device.holders = device.cores_granted = device.memory_granted = 0
        nodes.append(engine_node(node, devices.get(node.pk, ()), rank, now))
    parts = CellParts(
        nodes=nodes,
        flavors=engine_flavors(cell.pk),
        quota_nodes=[replace(node, usage=()) for node in engine_quota_nodes(cell.pk)],
        queues=[replace(queue, stop_policy=em.StopPolicy.NONE) for queue in engine_queues(cell.pk)],
        jobs=(),
        allocations=(),
        claims=(),
    )
    delegated = read_delegated(cell.pk)
    return parts.exclude_delegated(delegated) if delegated.clusters else parts


def _in_period(begin: datetime, end: datetime, prefix: str = "") -> Q:
    """Return the filter for jobs that were unfinished at some time of a period."""
    submitted = Q(**{f"{prefix}submitted_at__lt": end})
    running_on = Q(**{f"{prefix}finished_at__isnull": True}) | Q(**{f"{prefix}finished_at__gt": begin})
    return submitted & running_on


def _read_jobs(cell: Cell, queues: set[str], begin: datetime, end: datetime) -> list[Job]:
    rows = Job.unscoped.filter(_in_period(begin, end), queue__cell=cell).defer(*_UNUSED)
    jobs = list(rows.order_by("submitted_at", "pk")[: MOST_JOBS + 1])
    if len(jobs) > MOST_JOBS:
        message = _("More than %(most)s jobs in this period. Select a shorter period.")
        raise Invalid(message % {"most": f"{MOST_JOBS:,}"}, code="TOO_MANY_JOBS")
    jobs = [job for job in jobs if str(job.queue_id) in queues]
    if not jobs:
        raise Invalid(_("No jobs in this period. Select another period."), code="NO_JOBS")
    return jobs


def _roles_of(cell: Cell, begin: datetime, end: datetime) -> Mapping[uuid.UUID, list[RoleRow]]:
    rows = JobRole.unscoped.filter(_in_period(begin, end, "job__"), job__queue__cell=cell)
    found: dict[uuid.UUID, list[RoleRow]] = {}
    for row in rows.order_by("job_id", "position").values_list(*RoleRow._fields).iterator():
        role = RoleRow._make(row)
        found.setdefault(role.job_id, []).append(role)
    return found


def _runs_of(cell: Cell, jobs: Sequence[Job], begin: datetime, end: datetime) -> Mapping[str, Sequence[_Run]]:
    checkpoints = {job.pk: job.checkpoint_interval_s for job in jobs}
    rows = Attempt.unscoped.filter(_in_period(begin, end, "job__"), job__queue__cell=cell)
    found: defaultdict[str, list[_Run]] = defaultdict(list)
    names = ("job_id", "pk", "admitted_at", "started_at", "ended_at", "end_reason")
    for job_id, pk, admitted, started, ended, rule in (
        rows.order_by("job_id", "number").values_list(*names).iterator()
    ):
        if job_id not in checkpoints:
            continue
        lost_ms = 0
        if ended is not None and rule in _PREEMPTED:
            lost_ms = to_ms(ended) - lost_since_ms(
                started_ms=to_ms(started) if started else None,
                ended_ms=to_ms(ended),
                checkpoint_interval_s=checkpoints[job_id],
            )
        until = None if ended is None else ended.timestamp()
        found[str(job_id)].append(_Run(pk, admitted.timestamp(), until, rule, lost_ms / 1000))
    return found


def _holds_of(
    cell: Cell, begin: datetime, end: datetime, watched: frozenset[uuid.UUID]
) -> Mapping[uuid.UUID, list[em.Allocation]]:
    """Return the allocations of each attempt; tasks that it did not have all the time count as if it had."""
    rows = Allocation.unscoped.filter(
        Q(attempt__ended_at__isnull=True) | Q(attempt__ended_at__gt=begin),
        attempt__admitted_at__lt=end,
        attempt__job__queue__cell=cell,
    )
    parts = DeviceSlice.unscoped.filter(allocation__in=rows.values("pk"))
    attempts = dict(rows.values_list("pk", "attempt_id"))
    found: defaultdict[uuid.UUID, list[em.Allocation]] = defaultdict(list)
    for pk, allocation in allocations_of(rows, parts, watched).items():
        found[attempts[pk]].append(replace(allocation, leaving=False))
    return found


def _recorded(
    job: Job,
    roles: Sequence[RoleRow],
    runs: Sequence[_Run],
    holds: Mapping[uuid.UUID, Sequence[em.Allocation]],
    begin: float,
    now: float,
    watched: frozenset[uuid.UUID],
) -> RecordedJob:
    """Return a job in the form in which it is replayed."""
    over = job.state in TERMINAL_STATES
    last = runs[-1] if runs else None
    came_to_end = last is not None and last.until is not None and not last.cut_short
    before = [run for run in runs if run.until is not None and run.until <= begin]
    at_begin = next((run for run in runs if run.since <= begin and run not in before), None)
    saved_every = job.checkpoint_interval_s
    withdrawn = job.finished_at.timestamp() if over and not came_to_end and job.finished_at else None
    state, job.state, job.backoff_until = job.state, JobState.QUEUED, None
    made = replace(
        engine_job(job, roles, watched=watched),
        submitted_at=em.Instant(job.submitted_at.timestamp()),
        admitted_at=None,
        running_since=None,
        evictions=sum(run.rule in _PREEMPTED for run in before),
    )
    job.state = state
    return RecordedJob(
        job=made,
        team=str(job.workspace_id),
        points=sum(role.replicas * role.gpu_cards * role.gpu_cores for role in roles),
        work_s=sum(_count_work(run, saved_every, now) for run in runs) if came_to_end else None,
        withdrawn_at=withdrawn,
        checkpoint_s=saved_every,
        holds=tuple(_at_once(holds.get(at_begin.attempt_id, ()))) if at_begin else (),
        held_since=at_begin.since if at_begin else None,
        done_s=sum(_count_work(run, saved_every, now) for run in before),
    )


def _at_once(allocations: Sequence[em.Allocation]) -> Iterable[em.Allocation]:
    """Return one allocation for each task: a task that was placed again within an attempt has several."""
    return {allocation.id: allocation for allocation in allocations}.values()


def _count_work(run: _Run, checkpoint_s: int | None, now: float) -> float:
    """Return the work of a run that was not lost, in seconds; the time before its pods ran counts as work."""
    held_s = (now if run.until is None else run.until) - run.since
    if not run.cut_short:
        return held_s
    return held_s // checkpoint_s * checkpoint_s if checkpoint_s else 0.0
