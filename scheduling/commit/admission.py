"""Admissions: a job gets an attempt, and its tasks get nodes, cards and quota."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

from django.db import transaction

from clusters.services.grants import DeviceAmount, NodeAmount, NoLongerFree, devices_take, nodes_take
from foundation.core.identifiers import new_id
from foundation.sql.bulk import insert_values
from foundation.sql.prepared import PreparedQuery, PreparedUpdate
from quotas.models import QuotaKey
from quotas.services.ledger import ledger_reserve
from quotas.tree import QuotaTree, is_at_least
from scheduling.commit.batch import CHUNK, CommitBatch, task_key
from scheduling.engine import model as em
from scheduling.lifecycle.transitions import admit_jobs, advance_job
from scheduling.metering.intervals import count_borrowed_gpus, count_gpus
from scheduling.models import (
    Allocation,
    Attempt,
    DecisionKind,
    DeviceSlice,
    Job,
    JobState,
    Task,
    TaskState,
    UserUsage,
)
from scheduling.models.pod_names import pod_name
from scheduling.monitoring import counters

_TASKS: Final = PreparedQuery(
    lambda jobs: Task.unscoped.filter(job__pk__any_of=jobs).values_list("pk", "job_id", "role__name", "index")
)
_BOUND: Final = PreparedUpdate(
    lambda tasks: Task.unscoped.filter(pk__any_of=tasks).order_by(),
    lambda tasks: {"state": TaskState.BOUND},
)
_ATTEMPT: Final = ("id", "job_id", "number", "epoch", "admitted_at", "borrowed")
_ALLOCATION: Final = (
    "id",
    "attempt_id",
    "task_id",
    "node_id",
    "flavor_id",
    "cpu_millicores",
    "memory_mib",
    "charge",
    "namespace",
    "pod_name",
    "granted_at",
)
_SLICE: Final = ("allocation_id", "device_id", "cores", "memory_mib", "exclusive")
_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
TaskIds = Mapping[str, Mapping[tuple[str, int], uuid.UUID]]


def tasks_of(decisions: Iterable[em.Decision]) -> TaskIds:
    """Return the task ids of each admitted job, by role name and index."""
    found: defaultdict[str, dict[tuple[str, int], uuid.UUID]] = defaultdict(dict)
    ids = [uuid.UUID(d.job) for d in decisions if d.kind is em.DecisionKind.ADMIT]
    for pk, job_id, role, index in _TASKS.for_any(ids):
        found[str(job_id)][(role, index)] = pk
    return found


def admit_job(batch: CommitBatch, decision: em.Decision, tasks: TaskIds) -> bool:
    """Admit a job if the current quota and limits allow it; return whether it was admitted."""
    job, amounts = batch.jobs[decision.job], amounts_of(decision)
    if not _fits(batch, job, amounts) or not batch.limits.allow_job(job, amounts):
        return False
    return _write_admission(batch, decision, amounts, tasks)


def record_admission(batch: CommitBatch, decision: em.Decision, tasks: TaskIds) -> bool:
    """Record an admission without checks of quota or limits; return whether the job was still queued.

    The caller checks quota, or follows an admission that a cluster's own engine has made.
    """
    return _write_admission(batch, decision, amounts_of(decision), tasks)


def _write_admission(
    batch: CommitBatch, decision: em.Decision, amounts: Mapping[em.FlavorResource, int], tasks: TaskIds
) -> bool:
    job = batch.jobs[decision.job]
    if job.state != JobState.QUEUED or job.pk in batch.admitted:
        return False
    queue_node = str(job.queue.node_id)
    for key, amount in amounts.items():
        batch.tree.add_usage(queue_node, key, amount)
        batch.ledger[QuotaKey.at_node(job.queue.node_id, key)] += amount
    _collect(batch, decision, job, tasks[decision.job])
    return True


def amounts_of(decision: em.Decision) -> dict[em.FlavorResource, int]:
    """Return the sum of the charges of all placements."""
    amounts: Counter[em.FlavorResource] = Counter()
    for allocation in decision.allocations:
        for charge in allocation.charges:
            amounts[charge.key] += charge.amount
    return dict(sorted(amounts.items()))


def grow_job(batch: CommitBatch, decision: em.Decision) -> bool:
    """Give a running job more tasks if current quota and limits allow it; return whether they did."""
    job, amounts = batch.jobs[decision.job], amounts_of(decision)
    attempt = Attempt.unscoped.filter(job=job, ended_at__isnull=True).first()
    if job.state not in _LIVE or attempt is None or attempt.number != job.attempt_number:
        return False
    places = _places_to_grow(job, decision)
    if places is None or not _fits(batch, job, amounts) or not batch.limits.allow_job(job, amounts):
        return False
    loans = with_loans(decision, batch.tree, str(job.queue.node_id)).borrowed
    for key, amount in amounts.items():
        batch.tree.add_usage(str(job.queue.node_id), key, amount)
        batch.ledger[QuotaKey.at_node(job.queue.node_id, key)] += amount
    earlier = Counter(Allocation.unscoped.filter(attempt=attempt).values_list("task_id", flat=True))
    for item, task in places:
        batch.bound.append(task.pk)
        name = pod_name(job, attempt.number, item.role, task.index, earlier[task.pk])
        _hold(batch, item, (attempt.pk, task.pk), job.workspace.slug, name, batch.now)
    _note_growth(batch, attempt, decision, loans)
    return True


def _places_to_grow(job: Job, decision: em.Decision) -> list[tuple[em.Allocation, Task]] | None:
    """Return the waiting task for each placement; None if the job has too few waiting tasks."""
    free: defaultdict[str, dict[int, Task]] = defaultdict(dict)
    waiting = Task.unscoped.filter(job=job, state=TaskState.WAITING).select_related("role")
    for task in waiting.order_by("index"):
        free[task.role.name][task.index] = task
    found = []
    for item in decision.allocations:
        tasks = free[item.role]
        if not tasks:
            return None
        index = item.index if item.index in tasks else min(tasks)
        found.append((item, tasks.pop(index)))
    return found


def _note_growth(
    batch: CommitBatch, attempt: Attempt, decision: em.Decision, loans: Iterable[em.Charge]
) -> None:
    job, borrowed = batch.jobs[decision.job], Counter(attempt.borrowed)
    for loan in loans:
        borrowed[f"{loan.flavor}/{loan.resource}"] += loan.amount
    Attempt.unscoped.filter(pk=attempt.pk).update(borrowed=dict(borrowed), scaled_at=batch.now)
    numbers = _summary(decision, attempt.number)
    advance_job(job, code="grown", now=batch.now, numbers=numbers)
    batch.add_decision(job, DecisionKind.GROW, "", numbers)


def fits_quota(batch: CommitBatch, decision: em.Decision) -> bool:
    """Return whether the quota tree currently allows the admission."""
    return _fits(batch, batch.jobs[decision.job], amounts_of(decision))


def _fits(batch: CommitBatch, job: Job, amounts: Mapping[em.FlavorResource, int]) -> bool:
    node, tree = str(job.queue.node_id), batch.tree
    return all(is_at_least(tree.available(node, key), amount) for key, amount in amounts.items())


def _collect(
    batch: CommitBatch, decision: em.Decision, job: Job, tasks: Mapping[tuple[str, int], uuid.UUID]
) -> None:
    number = job.attempt_number + 1
    borrowed = _borrowed_amounts(decision)
    attempt = new_id()
    batch.attempts.append((attempt, job.pk, number, batch.cell.epoch, batch.now, borrowed))
    batch.admitted[job.pk] = job
    batch.unclaimed.add(job.pk)  # the admission fulfils the job's claim, if it has one
    numbers = _summary(decision, number)
    batch.add_event(job, "admitted", numbers)
    batch.add_decision(job, DecisionKind.ADMIT, "", numbers)
    for item in decision.allocations:
        task = tasks[task_key(item)]
        batch.bound.append(task)
        _hold(batch, item, (attempt, task), job.workspace.slug, pod_name(job, number, item.role, item.index))


def _hold(
    batch: CommitBatch,
    item: em.Allocation,
    whose: tuple[uuid.UUID, uuid.UUID],
    namespace: str,
    pod: str,
    granted_at: datetime | None = None,
) -> None:
    """Add an allocation to the batch; `whose` are the attempt and the task.

    `granted_at` is set if the job runs already.
    """
    allocation, node = new_id(), uuid.UUID(item.node)
    charge = {charge.resource: charge.amount for charge in item.charges}
    of = (node, uuid.UUID(item.flavor), item.cpu, item.memory, charge, namespace, pod, granted_at)
    batch.allocations.append((allocation, *whose, *of))
    batch.nodes[node] += NodeAmount(item.cpu, item.memory)
    for part in item.slices:
        pk = batch.taken.devices[part.device]
        batch.devices[pk] += DeviceAmount(part.cores, part.memory, 1)
        batch.slices.append((allocation, pk, part.cores, part.memory, part.exclusive))


def _summary(decision: em.Decision, attempt: int) -> dict[str, Any]:
    """Return the numbers of an admission for the timeline; a GPU slice counts as its share of a card."""
    held = {f"{key.flavor}/{key.resource}": amount for key, amount in amounts_of(decision).items()}
    borrowed = _borrowed_amounts(decision)
    return {
        "attempt": attempt,
        "tasks": len(decision.allocations),
        "nodes": len({allocation.node for allocation in decision.allocations}),
        "cards": count_gpus(held),
        "borrowed_cards": count_borrowed_gpus(borrowed, held) if borrowed else 0,
    }


def _borrowed_amounts(decision: em.Decision) -> dict[str, int]:
    return {f"{loan.flavor}/{loan.resource}": loan.amount for loan in decision.borrowed}


def with_loans(decision: em.Decision, tree: QuotaTree[em.FlavorResource], node: str) -> em.Decision:
    """Return the decision with `borrowed` set to the amounts beyond the own nominal of the quota node `node`.

    It is for admissions that were decided without the platform's quota tree, by a cluster's own engine.
    """

    def amount_beyond(key: em.FlavorResource, amount: int) -> int:
        own = tree.limits(node, key).own_nominal
        return 0 if own is None else max(tree.usage(node, key) + amount - own, 0)

    amounts = amounts_of(decision).items()
    loans = (em.Charge(*key, amount_beyond(key, amount) - amount_beyond(key, 0)) for key, amount in amounts)
    return decision._replace(borrowed=tuple(loan for loan in loans if loan.amount))


def write_admissions(batch: CommitBatch, *, in_use: bool = False) -> None:
    """Take quota, nodes and cards, and write the attempts, allocations and slices that hold them.

    `in_use`: pods already use the nodes and cards. Raises: NoLongerFree; IntegrityError.
    """
    if not batch.admitted and not batch.allocations:
        return
    if refused := batch.admitted.keys() - admit_jobs(batch.admitted.values(), now=batch.now):
        raise NoLongerFree(f"job {min(refused)} has moved on")
    ledger_reserve(batch.ledger, now=batch.now)
    nodes_take(batch.nodes, in_use=in_use)
    devices_take(batch.devices, in_use=in_use)
    insert_values(Attempt, _ATTEMPT, batch.attempts)
    insert_values(Allocation, _ALLOCATION, batch.allocations)
    insert_values(DeviceSlice, _SLICE, batch.slices)
    _BOUND(batch.bound)
    _count_users(batch)
    transaction.on_commit(partial(_count_waits, batch), robust=True)


def _count_waits(batch: CommitBatch) -> None:
    for _, key, number, *_ in batch.attempts:
        if number == 1:
            counters.WAIT.observe((batch.now - batch.admitted[key].submitted_at).total_seconds())


def _count_users(batch: CommitBatch) -> None:
    """Start the usage record of users at their first admission, with no use until the next sample."""
    users = {
        (job.queue_id, job.submitted_by_id): UserUsage(
            queue_id=job.queue_id, user_id=job.submitted_by_id, at=batch.now
        )
        for job in batch.admitted.values()
        if job.queue.user_shares
    }
    rows = [users[key] for key in sorted(users)]
    UserUsage.unscoped.bulk_create(rows, ignore_conflicts=True, batch_size=CHUNK)
