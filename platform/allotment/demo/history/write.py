"""Writes the recorded week as rows: jobs, their runs and allocations, timelines and the audit log."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import DateTimeField, Model

from allotment.demo.history.jobs import DemoJob
from allotment.demo.history.prediction_rows import prediction_rows
from allotment.demo.history.recording import RecordedPlace, RecordedPrediction, RecordedRun
from allotment.demo.history.spec_rows import SpecRows
from clusters.models import Cell, Device, Flavor, Node
from clusters.services.grants import DeviceAmount, NodeAmount, devices_take, nodes_take
from foundation.core.actor import SYSTEM, Actor
from foundation.core.months import month_of, start_ms, to_ms
from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from foundation.models import AuditRecord
from quotas.models import GpuUse, LedgerEntry
from scheduling.metering.intervals import count_borrowed_gpus, count_gpus, gpu_percent
from scheduling.models import (
    Allocation,
    Attempt,
    Decision,
    DecisionKind,
    DeviceSlice,
    Job,
    JobEvent,
    JobRole,
    JobState,
    StartPrediction,
    Task,
    TaskState,
)
from scheduling.models.pod_names import pod_name
from scheduling.services.jobs.job_rows import Rows

STARTING: Final = timedelta(seconds=20)
"""The time between admission and the moment at which all pods of a run are up, as in the recording."""
_BATCH: Final = 1000
_TERMINATING: Final = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class DemoPlaces:
    """The nodes, GPUs and flavors of the demo by their names."""

    cell: Cell
    nodes: Mapping[str, uuid.UUID]
    devices: Mapping[tuple[str, int], uuid.UUID]
    flavors: Mapping[str, uuid.UUID]

    @classmethod
    def read_places(cls) -> DemoPlaces:
        """Return the nodes, GPUs and flavors in the database."""
        devices = Device.unscoped.filter(node__cluster__name="demo").values_list("node__name", "index", "pk")
        return cls(
            Cell.unscoped.get(name="default"),
            dict(Node.unscoped.filter(cluster__name="demo").values_list("name", "pk")),
            {(node, index): pk for node, index, pk in devices},
            dict(Flavor.unscoped.filter(cluster__name="demo").values_list("name", "pk")),
        )


@dataclass(slots=True)
class WeekRows:
    """The rows of a week up to `now`, collected job by job and written together."""

    start: datetime
    now: datetime
    inventory: DemoPlaces
    jobs: list[Job] = field(default_factory=list)
    roles: list[JobRole] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    slices: list[DeviceSlice] = field(default_factory=list)
    events: list[JobEvent] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    audit: list[AuditRecord] = field(default_factory=list)
    predictions: list[StartPrediction] = field(default_factory=list)

    def find_moment(self, second: int) -> datetime:
        """Return the moment of a second of the week."""
        return self.start + timedelta(seconds=second)

    def write_rows(self) -> None:
        """Write everything, within a transaction."""
        # Readers of events resume after the last key, so keys must be in the order of time.
        self.events.sort(key=lambda event: event.at)
        self.audit.sort(key=lambda record: record.created_at)
        everything: Sequence[Sequence[Model]] = (
            self.jobs, self.roles, self.tasks, self.attempts, self.allocations, self.slices, self.events,
            self.decisions, self.audit, self.predictions,
        )  # fmt: skip
        with with_own_creation_times(
            Job, JobRole, Task, Attempt, Allocation, DeviceSlice, Decision, AuditRecord, StartPrediction
        ):
            for rows in everything:
                if rows:
                    type(rows[0])._base_manager.bulk_create(rows, batch_size=_BATCH)
        self._write_ledger()
        self._take_capacity()
        _analyze_tables([type(rows[0]) for rows in everything if rows])

    def _write_ledger(self) -> None:
        """Write the quota reserved now, and the GPU time by month, which budgets count."""
        month = month_of(self.now)
        turn = start_ms(month)
        reserved: Counter[tuple[uuid.UUID, uuid.UUID, str]] = Counter()
        past: Counter[tuple[uuid.UUID, uuid.UUID, date]] = Counter()
        present: Counter[tuple[uuid.UUID, uuid.UUID, str]] = Counter()
        for one in self.allocations:
            begun, node = to_ms(one.attempt.admitted_at), one.attempt.job.queue.node_id
            # A row counts what is reserved from the beginning of its month on, so the time before is
            # subtracted.
            ended = turn if one.released_at is None else to_ms(one.released_at)
            since = max(turn, begun) if one.released_at is None else min(max(turn, begun), ended)
            used = gpu_percent(one.charge)
            past[node, one.flavor_id, month_of(self.start)] += used * (since - begun)
            present[node, one.flavor_id, Resource.GPU_CORES.value] += used * (ended - since)
            if one.released_at is None:
                reserved.update({(node, one.flavor_id, name): n for name, n in one.charge.items()})
        LedgerEntry.unscoped.bulk_create(
            LedgerEntry(
                node_id=key[0], flavor_id=key[1], resource=key[2], month=month, core_ms=present[key],
                reserved=reserved[key],
            )
            for key in present.keys() | reserved.keys()
        )  # fmt: skip
        GpuUse.unscoped.bulk_create(
            GpuUse(node_id=node, flavor_id=flavor, month=before, core_ms=core_ms)
            for (node, flavor, before), core_ms in past.items()
            if core_ms
        )

    def _take_capacity(self) -> None:
        """Add the present allocations to the used capacity of their nodes and GPUs."""
        nodes: defaultdict[uuid.UUID, NodeAmount] = defaultdict(NodeAmount)
        devices: defaultdict[uuid.UUID, DeviceAmount] = defaultdict(DeviceAmount)
        for one in self.allocations:
            if one.released_at is None:
                nodes[one.node_id] += NodeAmount(one.cpu_millicores, one.memory_mib)
        for part in self.slices:
            if not part.released:
                devices[part.device_id] += DeviceAmount(part.cores, part.memory_mib, 1)
        nodes_take(nodes)
        devices_take(devices)


def _analyze_tables(models: Sequence[type[Model]]) -> None:
    """Run ANALYZE on tables that were empty, so that PostgreSQL plans queries with their row counts."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE " + ", ".join(model._meta.db_table for model in models))


@contextmanager
def with_own_creation_times(*models: type[Model]) -> Iterator[None]:
    """Let rows keep a given creation time. Not thread-safe: the calling command runs nothing concurrently."""
    fields: list[DateTimeField[Any, Any]] = [model._meta.get_field("created_at") for model in models]  # type: ignore[misc]
    for one in fields:
        one.auto_now_add = False
    try:
        yield
    finally:
        for one in fields:
            one.auto_now_add = True


def collect_week(
    week: Sequence[DemoJob],
    runs: Sequence[RecordedRun],
    predictions: Sequence[RecordedPrediction],
    *,
    start: datetime,
    now: datetime,
) -> WeekRows:
    """Return the rows of all that happened before `now`; nothing is written.

    A job that runs at that moment holds its GPUs; `start_pods` lets it run on.
    """
    rows, specs = WeekRows(start, now, DemoPlaces.read_places()), SpecRows.read_references()
    by_job: defaultdict[int, list[RecordedRun]] = defaultdict(list)
    for run in runs:
        if rows.find_moment(run.admit_s) < now:
            by_job[run.job].append(run)
    written: dict[int, Job] = {}
    for number, job in enumerate(week):
        if rows.find_moment(job.at_s) < now:
            made = specs.build_rows(job, now=rows.find_moment(job.at_s))
            written[number] = made.job
            _JobHistory(rows, job, made).add_rows(by_job[number])
    _name_beneficiaries(rows, written, by_job)
    rows.predictions += prediction_rows(predictions, written, find_moment=rows.find_moment, now=now)
    return rows


def _name_beneficiaries(
    rows: WeekRows, written: Mapping[int, Job], by_job: Mapping[int, Sequence[RecordedRun]]
) -> None:
    """Set the preemptors of evicted jobs; owners read a preemptor's name only within their workspace."""
    numbers = {job.pk: number for number, job in written.items()}
    by_cycle = {(run.job, run.end_s): run for many in by_job.values() for run in many}
    for decision in rows.decisions:
        number = numbers[decision.job_id]
        evicted = decision.kind == DecisionKind.EVICT
        run = by_cycle.get((number, decision.cycle)) if evicted else None
        other = written.get(run.beneficiary) if run is not None and run.beneficiary is not None else None
        if other is None:
            continue
        decision.beneficiary = other
        if other.workspace_id == written[number].workspace_id:
            decision.numbers["beneficiary"] = other.name


@dataclass(slots=True)
class _JobHistory:
    """Converts one job of the week and its runs into rows."""

    rows: WeekRows
    plan: DemoJob
    made: Rows
    tasks: dict[tuple[str, int], Task] = field(default_factory=dict)

    @property
    def job_row(self) -> Job:
        """The row of the job."""
        return self.made.job

    def add_rows(self, runs: Sequence[RecordedRun]) -> None:
        """Add all rows of the job."""
        job, at = self.job_row, self.job_row.submitted_at
        self.tasks = {(task.role.name, task.index): task for task in self.made.tasks}
        for row in (job, *self.made.roles, *self.made.tasks):
            row.created_at = at
        self.rows.jobs.append(job)
        self.rows.roles += self.made.roles
        self.rows.tasks += self.made.tasks
        self._event("submitted", at, actor=self.plan.user)
        after = {"name": job.name, "queue": "default"}
        self._record("job.submit", at, job.submitted_by, after)
        for number, run in enumerate(runs, start=1):
            self._run(number, run)

    def _run(self, number: int, run: RecordedRun) -> None:
        begun = self.rows.find_moment(run.admit_s)
        ended = None if run.end_s is None else self.rows.find_moment(run.end_s)
        end = None if ended is None or ended > self.rows.now else ended
        last = self.rows.now if end is None else end - _TERMINATING
        started = begun + STARTING if begun + STARTING < last else None
        self._admit(number, run, begun)
        attempt = Attempt(
            job=self.job_row, number=number, epoch=0, admitted_at=begun, started_at=started, ended_at=end,
            end_reason="" if end is None else run.rule or _END_REASONS[self.plan.outcome], created_at=begun,
            borrowed={self._ledger_key(key): amount for key, amount in run.borrowed.items()},
        )  # fmt: skip
        self.rows.attempts.append(attempt)
        for place in run.places:
            self._hold(attempt, run, place, end)
        if started is not None:
            self._event("running", started)
        if end is None:
            self._hold_on(begun, started)
        elif run.rule:
            self._evict(run, run.rule, end)
        else:
            self._finish(started or begun, end)

    def _ledger_key(self, key: str) -> str:
        flavor, _, resource = key.partition("/")
        return f"{self.rows.inventory.flavors[flavor]}/{resource}"

    def _admit(self, number: int, run: RecordedRun, at: datetime) -> None:
        held: Counter[str] = Counter()
        for place in run.places:
            held.update({f"{run.flavor}/{resource}": amount for resource, amount in place.charge.items()})
        numbers = {
            "attempt": number,
            "tasks": len(run.places),
            "nodes": len({place.node for place in run.places}),
            "cards": count_gpus(held),
            "borrowed_cards": count_borrowed_gpus(run.borrowed, held),
        }
        self._event("admitted", at, numbers)
        self._decide(DecisionKind.ADMIT, "", numbers, run.admit_s)
        self.job_row.attempt_number = number

    def _hold(self, attempt: Attempt, run: RecordedRun, place: RecordedPlace, end: datetime | None) -> None:
        inventory, job = self.rows.inventory, self.job_row
        allocation = Allocation(
            attempt=attempt, task=self.tasks[place.role, place.index], node_id=inventory.nodes[place.node],
            flavor_id=inventory.flavors[run.flavor], cpu_millicores=place.cpu, memory_mib=place.memory,
            charge=dict(place.charge), namespace=self.plan.workspace, created_at=attempt.admitted_at,
            pod_name=pod_name(job, attempt.number, place.role, place.index),
            ensured_at=attempt.admitted_at if end else None, removal_asked_at=end, removal_sent_at=end,
            removed_at=end, released_at=end,
        )  # fmt: skip
        self.rows.allocations.append(allocation)
        self.rows.slices += [
            DeviceSlice(
                allocation=allocation, device_id=inventory.devices[place.node, gpu], cores=place.cores,
                memory_mib=place.memory_mib, exclusive=place.exclusive, released=end is not None,
                created_at=attempt.admitted_at,
            )
            for gpu in place.gpus
        ]  # fmt: skip

    def _hold_on(self, begun: datetime, started: datetime | None) -> None:
        """Set the job to admitted, or to running since `started`."""
        job = self.job_row
        job.state, job.reason = JobState.ADMITTED if started is None else JobState.RUNNING, ""
        job.admitted_at, job.started_at = begun, started
        for task in self.made.tasks:
            task.state = TaskState.BOUND if started is None else TaskState.RUNNING
            task.started_at = started

    def _evict(self, run: RecordedRun, rule: str, end: datetime) -> None:
        """Put the job back into the queue."""
        numbers = {"tasks": len(run.places), "cards": sum(len(place.gpus) for place in run.places)}
        self._event("evicting", end - _TERMINATING, {"rule": rule, **numbers})
        self._event("requeued", end, {"rule": rule})
        second = int((end - self.rows.start).total_seconds())
        self._decide(DecisionKind.EVICT, rule, numbers, second)
        self._record("job.evict", end, SYSTEM, {"name": self.job_row.name, "rule": rule, **numbers})
        self.job_row.reason, self.job_row.reason_at = Reason.PENDING_EVALUATION, end
        self.job_row.queued_at = end

    def _finish(self, started: datetime, end: datetime) -> None:
        """End the job with its outcome."""
        job, outcome = self.job_row, self.plan.outcome
        job.state, job.started_at, job.finished_at = JobState(outcome), started, end
        job.admitted_at, job.reason = started - STARTING, ""
        if outcome == "failed":
            job.end_reason = "TASK_FAILED"
            self._event("evicting", end - _TERMINATING, {"rule": "TASK_FAILED", "exit_code": 1})
        elif outcome == "cancelled":
            job.end_reason = "CANCELLED"
            self._event("stopping", end - _TERMINATING, actor=self.plan.user)
            self._record("job.cancel", end - _TERMINATING, job.submitted_by, {"name": job.name})
        self._event(outcome, end, {"rule": job.end_reason} if job.end_reason else {})
        state, exit_code = _TASKS[outcome]
        for task in self.made.tasks:
            task.state, task.exit_code = state, exit_code
            task.started_at, task.finished_at = started, end

    def _event(
        self, code: str, at: datetime, numbers: Mapping[str, Any] | None = None, actor: str = ""
    ) -> None:
        self.rows.events.append(
            JobEvent(job=self.job_row, at=at, code=code, actor=actor, numbers=dict(numbers or {}))
        )

    def _decide(self, kind: DecisionKind, code: str, numbers: Mapping[str, Any], second: int) -> None:
        self.rows.decisions.append(
            Decision(
                cell=self.rows.inventory.cell, job=self.job_row, cycle=second, epoch=0, kind=kind, code=code,
                numbers=dict(numbers), created_at=self.rows.find_moment(second),
            )
        )  # fmt: skip

    def _record(self, action: str, at: datetime, actor: Actor, after: Mapping[str, Any]) -> None:
        self.rows.audit.append(
            AuditRecord(
                actor_id=actor.pk, actor_name=actor.get_username(), action=action, entity="job",
                entity_id=str(self.job_row.pk), tenant_id=self.job_row.workspace_id, created_at=at,
                after={**after, "simulated": True},
            )
        )  # fmt: skip


_END_REASONS: Final = {"succeeded": "SUCCEEDED", "failed": "TASK_FAILED", "cancelled": "CANCELLED"}
_TASKS: Final = {
    "succeeded": (TaskState.SUCCEEDED, 0),
    "failed": (TaskState.FAILED, 1),
    "cancelled": (TaskState.REMOVED, None),
}


def count_rows(rows: WeekRows) -> Counter[str]:
    """Return how many rows of each kind a week has."""
    kinds = ("jobs", "attempts", "allocations", "slices", "events", "decisions", "audit", "predictions")
    return Counter({kind: len(getattr(rows, kind)) for kind in kinds})
