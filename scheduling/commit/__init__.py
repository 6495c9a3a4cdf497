"""Engine decisions in, rows out, in one transaction.

The engine decided on a snapshot; the world may have moved. So under the cell's lock the epoch is
checked, the tree arithmetic is run again on the ledger of this moment, each job must still be as it
was read, and nodes and cards are taken by guarded updates. A decision that no longer holds is
dropped; its job stays queued and the next cycle looks at it again.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F

from clusters.models import Cell
from clusters.services.grants import DeviceAmount, NodeAmount, NoLongerFree, devices_take, nodes_take
from foundation import leases, outbox
from quotas.selectors.tree import TreeKey, tree_load
from quotas.services.ledger import LedgerKey, ledger_reserve
from quotas.tree import QuotaTree, at_least
from scheduling.engine import model as em
from scheduling.models import (
    Allocation,
    Attempt,
    Decision,
    DecisionKind,
    DeviceSlice,
    Job,
    JobEvent,
    JobState,
    Task,
    TaskState,
)
from scheduling.naming import pod_name
from scheduling.snapshots import CellSnapshot, with_names
from scheduling.transitions import admit

log = structlog.get_logger(__name__)
_BATCH: Final = 500


@dataclass(slots=True)
class Committed:
    """What a commit did: jobs admitted, decisions dropped, waiting reasons changed."""

    admitted: int = 0
    dropped: int = 0
    reasons_changed: int = 0


@dataclass(slots=True)
class _Batch:
    """Rows and sums of one transaction, written together at its end."""

    cell: Cell
    now: datetime
    attempts: list[Attempt] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    slices: list[DeviceSlice] = field(default_factory=list)
    events: list[JobEvent] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    ledger: Counter[LedgerKey] = field(default_factory=Counter)
    nodes: defaultdict[uuid.UUID, NodeAmount] = field(default_factory=lambda: defaultdict(NodeAmount))
    devices: defaultdict[uuid.UUID, DeviceAmount] = field(default_factory=lambda: defaultdict(DeviceAmount))
    admitted: list[Job] = field(default_factory=list)


def commit_cycle(
    *, cell_id: uuid.UUID, epoch: int, taken: CellSnapshot, result: em.CycleResult, now: datetime
) -> Committed:
    """Write the result of one cycle.

    Raises: LeaseLost when another process has taken the cell over; then nothing is written.
    """
    admits = [d for d in result.decisions if d.kind is em.DecisionKind.ADMIT]
    try:
        admitted = _commit_admits(cell_id, epoch, taken, admits, now)
    except (NoLongerFree, IntegrityError):
        # Something was taken or has failed since the snapshot, or cannot be written at all. One by one,
        # so that only the decision that no longer holds is lost and not its whole cycle.
        admitted = sum(_commit_alone(cell_id, epoch, taken, decision, now) for decision in admits)
    changed = _commit_reasons(cell_id, epoch, taken, result.outcomes, now)
    return Committed(admitted, len(admits) - admitted, changed)


def _commit_alone(
    cell_id: uuid.UUID, epoch: int, taken: CellSnapshot, decision: em.Decision, now: datetime
) -> int:
    try:
        return _commit_admits(cell_id, epoch, taken, [decision], now)
    except NoLongerFree as error:
        log.info("decision dropped", job=decision.job, why=error.detail)
    except IntegrityError as error:
        log.exception("decision cannot be written", job=decision.job, why=str(error))
    return 0


@transaction.atomic
def _commit_admits(
    cell_id: uuid.UUID, epoch: int, taken: CellSnapshot, decisions: list[em.Decision], now: datetime
) -> int:
    if not decisions:
        return 0
    batch = _Batch(leases.lock_current(Cell, cell_id, epoch), now)
    tree = tree_load(cell_id)
    tasks = _tasks(decisions)
    for decision in decisions:
        job = taken.jobs[decision.job]
        amounts = _amounts(decision)
        queue_node = str(job.queue.node_id)
        if not _fits(tree, queue_node, amounts) or not admit(job, now=now):
            log.info("decision dropped", job=decision.job, why="quota or the job itself has changed")
            continue
        for key, amount in amounts.items():
            tree.add_usage(queue_node, key, amount)
            batch.ledger[LedgerKey(job.queue.node_id, uuid.UUID(key[0]), key[1])] += amount
        _collect(batch, taken, decision, job, tasks[decision.job])
    _write(batch)
    return len(batch.admitted)


def _amounts(decision: em.Decision) -> dict[TreeKey, int]:
    amounts: Counter[TreeKey] = Counter()
    for allocation in decision.allocations:
        for charge in allocation.charges:
            amounts[(charge.flavor, charge.resource)] += charge.amount
    return dict(sorted(amounts.items()))


def _fits(tree: QuotaTree[TreeKey], queue_node: str, amounts: Mapping[TreeKey, int]) -> bool:
    return all(at_least(tree.available(queue_node, key), amount) for key, amount in amounts.items())


def _tasks(decisions: Iterable[em.Decision]) -> dict[str, dict[tuple[str, int], uuid.UUID]]:
    """Task ids per job by role name and index."""
    found: defaultdict[str, dict[tuple[str, int], uuid.UUID]] = defaultdict(dict)
    ids = [uuid.UUID(decision.job) for decision in decisions]
    for start in range(0, len(ids), _BATCH):
        rows = Task.unscoped.filter(job__in=ids[start : start + _BATCH])
        for pk, job_id, role, index in rows.values_list("pk", "job_id", "role__name", "index"):
            found[str(job_id)][(role, index)] = pk
    return found


def _collect(
    batch: _Batch,
    taken: CellSnapshot,
    decision: em.Decision,
    job: Job,
    tasks: Mapping[tuple[str, int], uuid.UUID],
) -> None:
    number = job.attempt_number + 1
    borrowed = {f"{c.flavor}/{c.resource}": c.amount for c in decision.borrowed}
    attempt = Attempt(
        job=job, number=number, epoch=batch.cell.epoch, admitted_at=batch.now, borrowed=borrowed
    )
    batch.attempts.append(attempt)
    batch.admitted.append(job)
    numbers = _summary(decision, number)
    batch.events.append(JobEvent(job=job, at=batch.now, code="admitted", numbers=numbers))
    batch.decisions.append(_decision(batch, job, DecisionKind.ADMIT, "", numbers))
    for item in decision.allocations:
        allocation = Allocation(
            attempt=attempt,
            task_id=tasks[(item.role, item.index)],
            node_id=uuid.UUID(item.node),
            flavor_id=uuid.UUID(item.flavor),
            cpu_millicores=item.cpu,
            memory_mib=item.memory,
            charge={charge.resource: charge.amount for charge in item.charges},
            namespace=job.workspace.slug,
            pod_name=pod_name(job, number, item.role, item.index),
        )
        batch.allocations.append(allocation)
        batch.nodes[allocation.node_id] += NodeAmount(item.cpu, item.memory)
        for part in item.slices:
            pk = taken.devices[part.device]
            batch.devices[pk] += DeviceAmount(part.cores, part.memory, 1)
            batch.slices.append(
                DeviceSlice(
                    allocation=allocation,
                    device_id=pk,
                    cores=part.cores,
                    memory_mib=part.memory,
                    exclusive=part.exclusive,
                )
            )


def _summary(decision: em.Decision, attempt: int) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "tasks": len(decision.allocations),
        "nodes": len({allocation.node for allocation in decision.allocations}),
        "cards": sum(len(allocation.slices) for allocation in decision.allocations),
        "borrowed_cards": sum(c.amount for c in decision.borrowed if c.resource == "gpu.cards"),
    }


def _decision(batch: _Batch, job: Job, kind: DecisionKind, code: str, numbers: Mapping[str, Any]) -> Decision:
    return Decision(
        cell=batch.cell,
        job=job,
        cycle=batch.cell.cycle_number,
        epoch=batch.cell.epoch,
        kind=kind,
        code=code,
        numbers=dict(numbers),
    )


def _write(batch: _Batch) -> None:
    if not batch.admitted:
        return
    ledger_reserve(batch.ledger)
    nodes_take(batch.nodes)
    devices_take(batch.devices)
    Attempt.unscoped.bulk_create(batch.attempts, batch_size=_BATCH)
    Allocation.unscoped.bulk_create(batch.allocations, batch_size=_BATCH)
    DeviceSlice.unscoped.bulk_create(batch.slices, batch_size=_BATCH)
    tasks = [allocation.task_id for allocation in batch.allocations]
    for start in range(0, len(tasks), _BATCH):
        Task.unscoped.filter(pk__in=tasks[start : start + _BATCH]).update(state=TaskState.BOUND)
    JobEvent.unscoped.bulk_create(batch.events, batch_size=_BATCH)
    Decision.unscoped.bulk_create(batch.decisions, batch_size=_BATCH)
    clusters = batch.cell.clusters.filter(nodes__in=list(batch.nodes)).distinct()
    for cluster_id in sorted(clusters.values_list("id", flat=True)):
        outbox.hint(outbox.Topic.EXECUTE, cluster_id)


# A job's place in line changes with every cycle; it is counted when somebody reads it, not stored.
_VOLATILE: Final = frozenset({"position", "ahead"})


def _steady(numbers: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {key: value for key, value in with_names(numbers, names).items() if key not in _VOLATILE}


@dataclass(frozen=True, slots=True)
class _Wait:
    """Why a job waits, as it is stored."""

    job: Job
    code: str
    numbers: dict[str, Any]
    helps: list[dict[str, Any]]

    @property
    def is_news(self) -> bool:
        known = (self.job.reason, self.job.reason_numbers, self.job.reason_help)
        return known != (self.code, self.numbers, self.helps) or self.job.reason_at is None


def _commit_reasons(
    cell_id: uuid.UUID,
    epoch: int,
    taken: CellSnapshot,
    outcomes: Iterable[em.Outcome],
    now: datetime,
) -> int:
    """Store why each job waits, where that has changed since it was last written."""
    changed: list[_Wait] = []
    for outcome in outcomes:
        job = taken.jobs.get(outcome.job)
        if job is None or outcome.reason is None:
            continue
        helps = [{"code": h.code.value, "numbers": _steady(h.numbers, taken.names)} for h in outcome.help]
        wait = _Wait(job, outcome.reason.value, _steady(outcome.numbers, taken.names), helps)
        if wait.is_news:
            changed.append(wait)
    with transaction.atomic():
        batch = _Batch(leases.lock_current(Cell, cell_id, epoch), now)
        for wait in changed:
            _write_reason(batch, wait)
        Decision.unscoped.bulk_create(batch.decisions, batch_size=_BATCH)
        Cell.unscoped.filter(pk=cell_id).update(cycle_number=F("cycle_number") + 1, last_cycle_at=now)
    return len(changed)


def _write_reason(batch: _Batch, wait: _Wait) -> None:
    job = wait.job
    # Guarded by the version: a job that has moved on keeps what it says now.
    Job.unscoped.filter(pk=job.pk, version=job.version, state=JobState.QUEUED).update(
        reason=wait.code, reason_numbers=wait.numbers, reason_help=wait.helps, reason_at=batch.now
    )
    if job.reason != wait.code:
        batch.decisions.append(_decision(batch, job, DecisionKind.PARK, wait.code, wait.numbers))
