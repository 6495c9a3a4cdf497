"""Applying observed pods to allocations, tasks and jobs, a batch in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import transaction

from clusters.backends.base import PodObservation, PodPhase
from clusters.models import Cluster
from foundation import faults, outbox
from scheduling.execution import restart
from scheduling.models import Allocation, Attempt, Job, JobState, Task, TaskState
from scheduling.services.lifecycle import ask_removal, begin_eviction, end_attempt, finish, settle
from scheduling.services.release import allocations_release
from scheduling.services.retry import after_failed_task, after_failure, never_starts, rule_for
from scheduling.transitions import transition

log = structlog.get_logger(__name__)

_S: Final = TaskState
# A phase is applied only from these task states; anything else is an old or repeated observation.
_FROM: Final = {
    PodPhase.PENDING: (),
    PodPhase.STARTING: (_S.BOUND,),
    PodPhase.RUNNING: (_S.BOUND, _S.STARTING),
    PodPhase.SUCCEEDED: (_S.BOUND, _S.STARTING, _S.RUNNING),
    PodPhase.FAILED: (_S.BOUND, _S.STARTING, _S.RUNNING),
    PodPhase.GONE: (_S.BOUND, _S.STARTING, _S.RUNNING),
}
_TO: Final = {
    PodPhase.STARTING: _S.STARTING,
    PodPhase.RUNNING: _S.RUNNING,
    PodPhase.SUCCEEDED: _S.SUCCEEDED,
    PodPhase.FAILED: _S.FAILED,
    PodPhase.GONE: _S.FAILED,
}
# What the kubelet says while everything goes as it should.
_AS_USUAL: Final = ("", "ContainerCreating", "PodInitializing")
# Whether a task is restarted in place has been asked before; what is left are the rules that end the attempt.
_NEVER_AGAIN: Final = 1 << 31
_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.GONE)


@transaction.atomic
def pods_apply(*, cluster: Cluster, observations: Sequence[PodObservation], now: datetime) -> None:
    """Apply one batch; jobs whose tasks changed are moved on in the same transaction.

    Rows are locked in the order that every change of a job keeps: the job, its allocations, then what
    they hold. Two pods of one job that end at the same moment in two clusters see each other that way.
    """
    allocations = _allocations(cluster, observations)
    touched: dict[Job, list[PodObservation]] = {}
    ended: list[Allocation] = []
    # Finished pods are still objects in the cluster, and so is what a gang had in common: have them removed.
    owed = any(seen.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED) for seen in observations)
    for seen in observations:
        allocation = allocations.get((seen.ref.namespace, seen.ref.name))
        if allocation is None:
            continue  # not ours, or of a cluster that was forgotten
        if _of_a_predecessor(allocation, seen):
            continue
        if restart.applies(allocation, seen):
            restart.step(allocation, seen, batch=allocations.values(), now=now)
            owed = True
            continue
        if seen.phase in _ENDED:
            ended.append(allocation)
            owed = owed or allocation.attempt.gathered_at is not None
        if _apply_pod(allocation, seen, now):
            touched.setdefault(allocation.attempt.job, []).append(seen)
    allocations_release(ended, now=now)
    for job in sorted(touched, key=lambda job: job.pk):
        _advance(job, touched[job], now)
    if owed:
        outbox.hint(outbox.Topic.EXECUTE, cluster.pk)
    if touched:
        faults.point("observe.before_commit")


def _allocations(
    cluster: Cluster, observations: Sequence[PodObservation]
) -> dict[tuple[str, str], Allocation]:
    names = [seen.ref.name for seen in observations]
    named = Allocation.unscoped.filter(removed_at__isnull=True, node__cluster=cluster, pod_name__in=names)
    of_jobs = set(named.values_list("attempt__job_id", flat=True))
    held = Job.unscoped.select_for_update(of=("self",), no_key=True).filter(pk__in=of_jobs).order_by("pk")
    jobs = {job.pk: job for job in held.select_related("queue")}
    rows = named.select_for_update(of=("self",), no_key=True).filter(attempt__job__in=jobs).order_by("pk")
    by_name: dict[tuple[str, str], Allocation] = {}
    for row in rows.select_related("attempt", "task__role", "node"):
        # One object per job, so that a version raised for one task is seen by the next.
        row.attempt.job = jobs[row.attempt.job_id]
        by_name[(row.namespace, row.pod_name)] = row
    return by_name


def _of_a_predecessor(allocation: Allocation, seen: PodObservation) -> bool:
    """A task restarted in place has a new pod by the same name; news of the old one is no longer news."""
    if not allocation.pod_uid or not seen.ref.uid:
        return False
    same = allocation.pod_uid == seen.ref.uid
    return not same if allocation.ensured_at else same


def _apply_pod(allocation: Allocation, seen: PodObservation, now: datetime) -> bool:
    """Move the task and note the pod's end; returns whether anything changed."""
    changed = False
    if seen.phase is PodPhase.GONE:
        changed = bool(
            Allocation.unscoped.filter(pk=allocation.pk, removed_at__isnull=True).update(removed_at=now)
        )
        leaving = Task.unscoped.filter(pk=allocation.task_id, state=_S.LEAVING)
        if allocation.attempt.job.state in _LIVE:  # given up by a job that goes on without it
            leaving.update(state=_S.WAITING, started_at=None, finished_at=None)
        else:
            leaving.update(state=_S.GONE, finished_at=seen.at)
    elif seen.phase in _ENDED and allocation.removal_asked_at is None:
        Allocation.unscoped.filter(pk=allocation.pk).update(removal_asked_at=now)
    changed = _note_obstacle(allocation, seen) or changed
    if seen.phase not in _TO:
        return changed
    fields: dict[str, object] = {"state": _TO[seen.phase]}
    if seen.phase is PodPhase.RUNNING:
        fields |= {"started_at": seen.at, "message": ""}
    if seen.phase in _ENDED:
        message = seen.message or (
            "the pod was deleted by somebody else" if seen.phase is PodPhase.GONE else ""
        )
        fields |= {"finished_at": seen.at, "exit_code": seen.exit_code, "message": message[:2000]}
    moved = Task.unscoped.filter(pk=allocation.task_id, state__in=_FROM[seen.phase]).update(**fields)
    return bool(moved) or changed


def _note_obstacle(allocation: Allocation, seen: PodObservation) -> bool:
    """Note what keeps a pod from starting, as the cluster tells it; returns whether that is news."""
    if seen.phase not in (PodPhase.PENDING, PodPhase.STARTING) or seen.reason in _AS_USUAL:
        return False
    text = f"{seen.reason}: {seen.message}"[:2000]
    waiting = Task.unscoped.filter(pk=allocation.task_id, state__in=(_S.BOUND, _S.STARTING))
    return bool(waiting.exclude(message=text).update(message=text))


def _advance(job: Job, seen: Sequence[PodObservation], now: datetime) -> None:
    """Move a job on according to the states of its tasks."""
    if settle(job, now=now) or job.state in (JobState.EVICTING, JobState.STOPPING) or job.is_terminal:
        return
    if job.is_waiting:
        return
    tasks = Task.unscoped.filter(job=job).exclude(state=_S.WAITING)
    by_role: dict[str, list[str]] = {}
    for role, state in tasks.values_list("role__name", "state"):
        by_role.setdefault(role, []).append(state)
    states = [state for group in by_role.values() for state in group]
    if any(never_starts(told) for told in seen):
        _give_up(job, next(told for told in seen if never_starts(told)), now)
    elif _S.FAILED in states:
        _fail(job, seen, now)
    elif _complete(job, by_role):
        _succeed(job, now)
    elif job.state in (JobState.ADMITTED, JobState.STARTING):
        _start(job, states, seen, now)


def _complete(job: Job, by_role: Mapping[str, Sequence[str]]) -> bool:
    """Whether all tasks have succeeded, or enough of them for the job's rules to say that it is done."""
    if any(_S.SUCCEEDED in states and rule_for(job, "task_completed", role=role)
           for role, states in by_role.items()):  # fmt: skip
        return True
    done = [role for role, states in by_role.items() if all(state == _S.SUCCEEDED for state in states)]
    return len(done) == len(by_role) or any(rule_for(job, "role_completed", role=role) for role in done)


def _succeed(job: Job, now: datetime) -> None:
    _note_start(job, job.started_at or now)
    end_attempt(job, reason="SUCCEEDED", now=now)
    finish(job, JobState.SUCCEEDED, now=now)
    ask_removal(job, now)  # of what still runs when one role has ended the job


def _start(job: Job, states: Sequence[str], seen: Sequence[PodObservation], now: datetime) -> None:
    up = sum(state in (_S.RUNNING, _S.SUCCEEDED) for state in states)
    if up == len(states):
        at = max((s.at for s in seen if s.phase is PodPhase.RUNNING), default=now)
        limit = at + timedelta(seconds=job.max_run_s) if job.max_run_s else None
        transition(job, JobState.RUNNING, code="running", now=now, started_at=at, deadline_at=limit)
        _note_start(job, at)
    elif job.state == JobState.ADMITTED and any(state != _S.BOUND for state in states):
        transition(job, JobState.STARTING, code="starting", now=now)


def _note_start(job: Job, at: datetime) -> None:
    Attempt.unscoped.filter(job=job, ended_at__isnull=True, started_at__isnull=True).update(started_at=at)


def _give_up(job: Job, told: PodObservation, now: datetime) -> None:
    """A pod can never start: to wait, or to try it again, would only hold its cards."""
    numbers = {"pod": told.ref.name, "message": told.message[:300]}
    begin_eviction(job=job, rule=never_starts(told), then=JobState.FAILED, now=now, numbers=numbers)
    settle(job, now=now)


def _fail(job: Job, seen: Sequence[PodObservation], now: datetime) -> None:
    """A task has failed: the whole attempt gives way, and the job's rules say where to."""
    cause = next((s for s in seen if s.phase in (PodPhase.FAILED, PodPhase.GONE)), seen[0])
    failed = Task.unscoped.filter(job=job, state=_S.FAILED).select_related("role").order_by("id").first()
    action = after_failed_task(job, failed.role.name if failed else "", _NEVER_AGAIN, cause)
    if action == "complete_job":
        _succeed(job, now)
        return
    verdict = after_failure(cause, action)
    begin_eviction(
        job=job,
        rule=verdict.rule,
        then=verdict.then,
        now=now,
        numbers={"pod": cause.ref.name, "exit_code": cause.exit_code, "message": cause.message[:300]},
        backoff=verdict.backoff,
    )
    settle(job, now=now)
