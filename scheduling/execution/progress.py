"""Applies observed pods to allocations, tasks and jobs, each batch in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

import structlog
from django.db import transaction
from django.db.models import QuerySet

from clusters.backends.base import HOLD, PodObservation, PodPhase
from clusters.models import Cluster
from foundation.core import faults
from foundation.messaging import outbox
from foundation.sql.bulk import Guard, update_rows
from foundation.sql.prepared import PreparedQuery
from scheduling.execution import restart
from scheduling.execution.changes import RowChanges
from scheduling.execution.endings import ending_message, ending_numbers
from scheduling.lifecycle.job_lifecycle import (
    ask_removal,
    end_attempts,
    eviction_move,
    finish_jobs,
    no_reason,
    settle_jobs,
)
from scheduling.lifecycle.journal import JournalPod, log_pods
from scheduling.lifecycle.retry import after_failed_task, after_failure, never_starts, rule_for
from scheduling.lifecycle.transitions import StateMove, transition_all
from scheduling.models import Allocation, Attempt, Job, JobState, Task, TaskState
from scheduling.services.obstacles import TERMINATING
from scheduling.services.release import give_back

log = structlog.get_logger(__name__)

_S: Final = TaskState
# A phase is applied only to tasks in these states; otherwise the observation is old or repeated.
_FROM: Final = {
    PodPhase.PENDING: (),
    PodPhase.STARTING: (_S.BOUND,),
    PodPhase.RUNNING: (_S.BOUND, _S.STARTING),
    PodPhase.SUCCEEDED: (_S.BOUND, _S.STARTING, _S.RUNNING),
    PodPhase.FAILED: (_S.BOUND, _S.STARTING, _S.RUNNING),
    PodPhase.REMOVED: (_S.BOUND, _S.STARTING, _S.RUNNING),
}
_TO: Final = {
    PodPhase.STARTING: _S.STARTING,
    PodPhase.RUNNING: _S.RUNNING,
    PodPhase.SUCCEEDED: _S.SUCCEEDED,
    PodPhase.FAILED: _S.FAILED,
    PodPhase.REMOVED: _S.FAILED,
}
# The reasons of the kubelet that report no problem.
_AS_USUAL: Final = ("", "ContainerCreating", "PodInitializing")
# Restarts in place were handled before; with this count only rules that end the attempt are found.
_NEVER_AGAIN: Final = 1 << 31
_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.REMOVED)


_TIDY_S: Final = 1.0
"""The seconds after which pods that have ended are removed, unless an execution comes first; they hold
nothing."""
_OF_THE_POD: Final = ("gpu_models", "image", "command", "container")


def _named(names: str, cluster: uuid.UUID) -> QuerySet[Allocation]:
    return Allocation.unscoped.filter(
        removed_at__isnull=True, node__cluster=cluster, pod_name__any_of=names
    ).order_by("pk")


_JOBS_NAMED: Final = PreparedQuery(lambda *given: _named(*given).values_list("attempt__job_id"))
_JOBS: Final = PreparedQuery(
    lambda jobs: (
        Job.unscoped.select_for_update(of=("self",), no_key=True)
        .filter(pk__any_of=jobs)
        .order_by("pk")
        .select_related("queue")
        # These columns are needed only to create a pod.
        .defer("placement", "environment", "volumes", "runtime", "simulate", "reason_numbers", "reason_help")
    )
)
_ALLOCATIONS: Final = PreparedQuery(
    lambda names, cluster, jobs: (
        _named(names, cluster)
        .select_for_update(of=("self",), no_key=True)
        .filter(attempt__job__pk__any_of=jobs)
        .select_related("attempt", "task__role")
        .defer("attempt__borrowed", *(f"task__role__{name}" for name in _OF_THE_POD))
    )
)
_STATES: Final[PreparedQuery[tuple[uuid.UUID, str, str]]] = PreparedQuery(
    lambda jobs: (
        Task.unscoped.filter(job__pk__any_of=jobs)
        .exclude(state=_S.WAITING)
        .order_by("id")
        .values_list("job_id", "role__name", "state")
    )
)


@transaction.atomic
def pods_apply(*, cluster: Cluster, observations: Sequence[PodObservation], now: datetime) -> None:
    """Apply one batch of observations, and change the states of jobs whose tasks changed in the same
    transaction.

    Rows are locked in the order that every change of a job keeps: the job, its allocations, then ledger,
    nodes and cards. So two transactions for pods of one job in two clusters run one after the other. All
    changes are written together: a batch of any size takes a few statements.
    """
    allocations = _allocations(cluster, observations)
    changes = RowChanges()
    touched: dict[Job, list[PodObservation]] = {}
    ended: list[Allocation] = []
    # Finished pods, and the shared object of a gang, still exist in the cluster and have to be removed.
    left = any(seen.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED) for seen in observations)
    restarted, removed = False, list[JournalPod]()
    for seen in observations:
        allocation = allocations.get((seen.ref.namespace, seen.ref.name))
        if allocation is None:
            continue  # a pod without a live allocation in this cluster
        if _of_a_predecessor(allocation, seen):
            continue
        if restart.belongs_to_restart(allocation, seen):
            changes.write_changes()  # a restart looks at rows of the whole role
            restart.advance_restart(allocation, seen, batch=allocations.values(), now=now)
            restarted = True
            continue
        if seen.phase in _ENDED:
            if allocation.released_at is None:
                changes.set_fields(allocation, released_at=now)
                ended.append(allocation)
            left = left or allocation.attempt.gathered_at is not None
        if seen.phase is PodPhase.REMOVED and allocation.removed_at is None:
            removed.append(JournalPod(allocation.attempt.job_id, allocation.namespace, allocation.pod_name))
        if _apply_pod(allocation, seen, changes, now):
            touched.setdefault(allocation.attempt.job, []).append(seen)
    changes.write_changes()
    log_pods("gone", removed)
    give_back(ended, now=now)
    _advance(touched, now)
    if restarted:
        outbox.add_hint(outbox.Topic.EXECUTE, cluster.pk)
    elif left:
        outbox.add_hint(outbox.Topic.EXECUTE, cluster.pk, delay_s=_TIDY_S)
    if touched:
        faults.fault_point("observe.before_commit")


def _allocations(
    cluster: Cluster, observations: Sequence[PodObservation]
) -> dict[tuple[str, str], Allocation]:
    names = [seen.ref.name for seen in observations]
    of_jobs = {job for (job,) in _JOBS_NAMED.for_any(names, cluster.pk)}
    jobs = {job.pk: job for job in _JOBS.for_any(sorted(of_jobs))}
    rows = _ALLOCATIONS(names, cluster.pk, list(jobs)) if jobs else []
    by_name: dict[tuple[str, str], Allocation] = {}
    tasks: dict[uuid.UUID, Task] = {}
    for row in rows:
        # One object for each job and task, so that observations of other pods see its changes.
        row.attempt.job = jobs[row.attempt.job_id]
        row.task = tasks.setdefault(row.task_id, row.task)
        by_name[(row.namespace, row.pod_name)] = row
    return by_name


def _of_a_predecessor(allocation: Allocation, seen: PodObservation) -> bool:
    """Return whether the observed pod is not the allocation's: for example, a task that restarted in place
    has a new pod under the same name."""
    hold = seen.labels.get(HOLD) if not allocation.known_uid else None
    if hold is not None and hold != str(allocation.pk):
        return True  # the pod was created for another allocation, which this database does not know
    if not allocation.pod_uid or not seen.ref.uid:
        return False
    same = allocation.pod_uid == seen.ref.uid
    return not same if allocation.ensured_at else same


def _apply_pod(allocation: Allocation, seen: PodObservation, changes: RowChanges, now: datetime) -> bool:
    """Update the task's state and the allocation's times; return whether anything changed."""
    task, changed = allocation.task, False
    if seen.phase is PodPhase.REMOVED:
        if allocation.removed_at is None:
            changes.set_fields(allocation, removed_at=now)
            changed = True
        if task.message.startswith(TERMINATING):
            changes.set_fields(task, message="")
        if task.state == _S.LEAVING:
            if allocation.attempt.job.state in _LIVE:  # its job shrank and continues without the task
                changes.set_fields(task, state=_S.WAITING, started_at=None, finished_at=None)
            else:
                changes.set_fields(task, state=_S.REMOVED, finished_at=seen.at)
    elif seen.phase in _ENDED and allocation.removal_asked_at is None:
        changes.set_fields(allocation, removal_asked_at=now)
    changed = _note_obstacle(task, seen, changes) or changed
    if seen.phase not in _TO or task.state not in _FROM[seen.phase]:
        return changed
    changes.set_fields(task, state=_TO[seen.phase])
    if seen.phase is PodPhase.RUNNING:
        changes.set_fields(task, started_at=seen.at, message="")
    if seen.phase in _ENDED:
        message = ending_message(seen)[:2000]
        changes.set_fields(task, finished_at=seen.at, exit_code=seen.exit_code, message=message)
    return True


def _note_obstacle(task: Task, seen: PodObservation, changes: RowChanges) -> bool:
    """Write to the task's message what keeps its pod from starting or from ending; return whether the job
    needs an update, which is never so for a pod that is ending."""
    if task.state == _S.LEAVING and seen.finalizers and seen.phase is not PodPhase.REMOVED:
        text = f"{TERMINATING}: {', '.join(seen.finalizers)}"[:2000]
        if task.message != text:
            changes.set_fields(task, message=text)
        return False
    if seen.phase not in (PodPhase.PENDING, PodPhase.STARTING) or seen.reason in _AS_USUAL:
        return False
    text = f"{seen.reason}: {seen.message}"[:2000]
    if task.state not in (_S.BOUND, _S.STARTING) or task.message == text:
        return False
    changes.set_fields(task, message=text)
    return True


def _advance(touched: Mapping[Job, Sequence[PodObservation]], now: datetime) -> None:
    """Change the states of jobs according to the states of their tasks."""
    jobs = sorted(touched, key=lambda job: job.pk)
    settle_jobs(jobs, now=now)
    tasks = _states([job for job in jobs if job.state in _LIVE])
    failed: list[_Failure] = []
    blocked: list[StateMove] = []
    succeeded: list[Job] = []
    begun: list[StateMove] = []
    for job, by_role in tasks.items():
        states = list(chain(*by_role.values()))
        if obstacle := next((seen for seen in touched[job] if never_starts(seen)), None):
            blocked.append(_giving_up(job, obstacle, now))
        elif _S.FAILED in states:
            failure = _failure(job, by_role, touched[job])
            if failure.action == "complete_job":
                succeeded.append(job)
            else:
                failed.append(failure)
        elif _complete(job, by_role):
            succeeded.append(job)
        elif job.state in (JobState.ADMITTED, JobState.STARTING):
            begun += _beginning(job, states, touched[job], now)
    _start(begun, now)
    _succeed(succeeded, tasks, now)
    _evict([*blocked, *(_failing(failure, now) for failure in failed)], now)


def _states(jobs: Sequence[Job]) -> dict[Job, dict[str, list[str]]]:
    """Return the states of the tasks of each job, by role, without tasks that wait for growth."""
    found: dict[Job, dict[str, list[str]]] = {job: {} for job in jobs}
    if not found:
        return found
    by_id = {job.pk: job for job in jobs}
    for job_id, role, state in _STATES.for_any(list(by_id)):
        found[by_id[job_id]].setdefault(role, []).append(state)
    return found


def _complete(job: Job, by_role: Mapping[str, Sequence[str]]) -> bool:
    """Return whether all tasks have succeeded, or enough of them to complete the job by its rules."""
    if any(_S.SUCCEEDED in states and rule_for(job, "task_completed", role=role)
           for role, states in by_role.items()):  # fmt: skip
        return True
    done = [role for role, states in by_role.items() if all(state == _S.SUCCEEDED for state in states)]
    return len(done) == len(by_role) or any(rule_for(job, "role_completed", role=role) for role in done)


def _succeed(jobs: Sequence[Job], tasks: Mapping[Job, Mapping[str, Sequence[str]]], now: datetime) -> None:
    if not jobs:
        return
    _note_start({job: job.started_at or now for job in jobs if job.state != JobState.RUNNING})
    end_attempts(dict.fromkeys(jobs, "SUCCEEDED"), now=now)
    finish_jobs(jobs, JobState.SUCCEEDED, now=now)
    # Other tasks may still run if a rule has completed the job.
    ask_removal(
        [
            job
            for job in jobs
            if any(state != _S.SUCCEEDED for group in tasks[job].values() for state in group)
        ],
        now,
    )


def _beginning(
    job: Job, states: Sequence[str], seen: Sequence[PodObservation], now: datetime
) -> list[StateMove]:
    """Return the state change of a job whose tasks all run, or begin to start; none if it does not change."""
    if all(state in (_S.RUNNING, _S.SUCCEEDED) for state in states):
        at = max((s.at for s in seen if s.phase is PodPhase.RUNNING), default=now)
        limit = at + timedelta(seconds=job.max_run_s) if job.max_run_s else None
        fields = {"started_at": at, "deadline_at": limit, **no_reason(job)}
        return [StateMove(job=job, to=JobState.RUNNING, code="running", fields=fields)]
    if job.state == JobState.ADMITTED and any(state != _S.BOUND for state in states):
        return [StateMove(job=job, to=JobState.STARTING, code="starting")]
    return []


def _start(moves: Sequence[StateMove], now: datetime) -> None:
    transition_all(moves, now=now)
    _note_start({m.job: m.fields["started_at"] for m in moves if m.to == JobState.RUNNING})


def _note_start(times: Mapping[Job, datetime]) -> None:
    unstarted = Guard(where={"ended_at": None, "started_at": None})
    rows = [(job.pk, at) for job, at in times.items()]
    update_rows(Attempt, ("started_at",), rows, key="job", guard=unstarted)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A job with a failed task, the observation of the failure, and the action of the job's rules."""

    job: Job
    cause: PodObservation
    action: str


def _failure(job: Job, by_role: Mapping[str, Sequence[str]], seen: Sequence[PodObservation]) -> _Failure:
    cause = next((s for s in seen if s.phase in (PodPhase.FAILED, PodPhase.REMOVED)), seen[0])
    role = next(role for role, states in by_role.items() if _S.FAILED in states)
    return _Failure(job, cause, after_failed_task(job, role, _NEVER_AGAIN, cause))


def _giving_up(job: Job, seen: PodObservation, now: datetime) -> StateMove:
    """Return the state change that fails a job with a pod that can never start, so that its cards are
    released."""
    numbers = {"pod": seen.ref.name, "message": seen.message[:300]}
    return eviction_move(job=job, rule=never_starts(seen), then=JobState.FAILED, now=now, numbers=numbers)


def _failing(failure: _Failure, now: datetime) -> StateMove:
    """Return the eviction of a job with a failed task; the job's rules decide its next state."""
    cause, verdict = failure.cause, after_failure(failure.cause, failure.action)
    return eviction_move(
        job=failure.job,
        rule=verdict.rule,
        then=verdict.then,
        now=now,
        numbers=ending_numbers(cause),
        backoff=verdict.backoff,
    )


def _evict(moves: Sequence[StateMove], now: datetime) -> None:
    transition_all(moves, now=now)
    jobs = [move.job for move in moves]
    ask_removal(jobs, now)
    settle_jobs(jobs, now=now)
