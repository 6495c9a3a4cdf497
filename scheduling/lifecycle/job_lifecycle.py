"""The end of a running job: it is marked for stop or eviction, and settled when all its pods are gone.

Quota and cards stay allocated through `evicting` and `stopping`. They are released for each pod as its end is
observed; the job changes its state after the last pod.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F, Q

from foundation.core.reasons import Reason
from foundation.messaging import outbox
from foundation.sql.bulk import Guard, update_rows
from scheduling.lifecycle.retry import after_eviction
from scheduling.lifecycle.transitions import StateMove, change_state, transition_all
from scheduling.models import (
    NO_GROWTH,
    OWN_END_REASONS,
    TERMINAL_STATES,
    Allocation,
    Attempt,
    Claim,
    Job,
    JobState,
    Task,
    TaskState,
)

BACKOFF_BASE_S: Final = 60
BACKOFF_LIMIT_S: Final = 3600
_BATCH: Final = 500
_UNFINISHED: Final = (TaskState.BOUND, TaskState.STARTING, TaskState.RUNNING)


def begin_stopping(*, job: Job, now: datetime, actor: str = "") -> None:
    """Begin to stop a job with allocations; it becomes `cancelled` when every pod is gone.

    Raises: IllegalTransition, StaleJob.
    """
    change_state(
        job,
        JobState.STOPPING,
        code="stopping",
        now=now,
        actor=actor,
        end_reason="CANCELLED",
        after_eviction="",
        **no_reason(job),
    )
    end_claims([job])  # a job that is being moved has a claim on its new nodes
    ask_removal([job], now)


def begin_eviction(
    *,
    job: Job,
    rule: str,
    then: JobState,
    now: datetime,
    actor: str = "",
    numbers: Mapping[str, Any] | None = None,
    backoff: bool = False,
) -> None:
    """Begin to evict a job; it becomes `then`, or what its lifecycle rules say, when every pod is gone.

    `rule` is the code of the rule that evicts it. With `backoff` the job waits before its next admission: one
    minute after the first failure, twice as long after each further one, one hour at most.
    Raises: IllegalTransition, StaleJob.
    """
    mark_evicting(job=job, rule=rule, then=then, now=now, actor=actor, numbers=numbers, backoff=backoff)
    ask_removal([job], now)


def mark_evicting(
    *,
    job: Job,
    rule: str,
    then: JobState,
    now: datetime,
    actor: str = "",
    numbers: Mapping[str, Any] | None = None,
    backoff: bool = False,
) -> None:
    """Mark a job for eviction; the caller requests the removal of the pods of several jobs together.

    Raises: IllegalTransition, StaleJob.
    """
    move = eviction_move(job=job, rule=rule, then=then, now=now, numbers=numbers, backoff=backoff)
    transition_all([move], now=now, actor=actor)


def eviction_move(
    *,
    job: Job,
    rule: str,
    then: JobState,
    now: datetime,
    numbers: Mapping[str, Any] | None = None,
    backoff: bool = False,
) -> StateMove:
    """Return the state change that begins an eviction; see `begin_eviction`."""
    if rule not in OWN_END_REASONS:
        then = after_eviction(job, then)
    fields: dict[str, Any] = {"after_eviction": then.value, "end_reason": rule, **no_reason(job)}
    if backoff:
        fields["failures"] = job.failures + 1
        pause = min(BACKOFF_BASE_S * 2**job.failures, BACKOFF_LIMIT_S)
        fields["backoff_until"] = now + timedelta(seconds=pause)
    numbers_of_rule = {"rule": rule, **(numbers or {})}
    return StateMove(job=job, to=JobState.EVICTING, code="evicting", numbers=numbers_of_rule, fields=fields)


def no_reason(job: Job) -> dict[str, Any]:
    """Return the fields that clear the job's reason, if it has one."""
    return {"reason": "", "reason_numbers": {}, "reason_help": []} if job.reason else {}


def ask_removal(jobs: Collection[Job], now: datetime) -> None:
    """Request the removal of all pods of the jobs; each allocation is released when its pod is gone."""
    if not jobs:
        return
    Task.unscoped.filter(job__in=jobs, state__in=_UNFINISHED).update(state=TaskState.LEAVING)
    for cluster_id in sorted(note_removal(Q(attempt__job__in=jobs), now)):
        outbox.add_hint(outbox.Topic.EXECUTE, cluster_id)


def note_removal(which: Q, now: datetime) -> set[uuid.UUID]:
    """Mark the pods of those allocations for removal; return the clusters that need a hint."""
    present = Allocation.unscoped.filter(which, removed_at__isnull=True)
    # Workers update allocations in the same order.
    locked = present.select_for_update(of=("self",), no_key=True).order_by("pk")
    held = list(locked.values_list("task_id", flat=True))
    for start in range(0, len(held), _BATCH):
        tasks = Task.unscoped.filter(pk__in=held[start : start + _BATCH])
        tasks.filter(state__in=_UNFINISHED).update(state=TaskState.LEAVING)
    present.filter(restarting=True).update(restarting=False)  # their pods are not created again
    live = present.filter(removal_asked_at__isnull=True)
    clusters = set(live.values_list("node__cluster_id", flat=True))
    live.update(removal_asked_at=now)
    return clusters


def note_shrink(job: Job, now: datetime, *, for_good: bool = False) -> None:
    """Record that the running attempt lost tasks; each further time delays its next growth longer.

    `for_good`: these tasks cannot start, so the attempt does not grow again.
    """
    live = Attempt.unscoped.filter(job=job, ended_at__isnull=True)
    live.update(scaled_at=now, shrinks=NO_GROWTH if for_good else F("shrinks") + 1)


def settle_jobs(jobs: Iterable[Job], *, now: datetime) -> list[Job]:
    """Change the state of evicting and stopping jobs without remaining pods; return these jobs.

    It is called in the transaction that records the end of their pods.
    """
    leaving = [job for job in jobs if job.state in (JobState.EVICTING, JobState.STOPPING)]
    if not leaving:
        return []
    present = Allocation.unscoped.filter(attempt__job__in=leaving, removed_at__isnull=True)
    held = set(present.values_list("attempt__job_id", flat=True))
    free = [job for job in leaving if job.pk not in held]
    reasons = {job: job.end_reason for job in free}
    by_target: defaultdict[JobState, list[Job]] = defaultdict(list)
    for job in free:
        stopped = job.state == JobState.STOPPING
        by_target[JobState.CANCELLED if stopped else JobState(job.after_eviction)].append(job)
    for target, group in by_target.items():
        if target in TERMINAL_STATES:
            finish_jobs(group, target, now=now)
        else:
            _go_back(group, target, now)
    end_attempts(reasons, now=now)
    return free


def _go_back(jobs: Sequence[Job], target: JobState, now: datetime) -> None:
    """Queue or suspend jobs whose allocations are all released."""
    queued = target == JobState.QUEUED
    fields: dict[str, Any] = {
        "after_eviction": "",
        "end_reason": "",
        "admitted_at": None,
        "started_at": None,
        "deadline_at": None,
        "reason": Reason.PENDING_EVALUATION if queued else Reason.SUSPENDED,
        "reason_numbers": {},
        "reason_help": [],
        "reason_at": now,
    }
    code = "requeued" if queued else "suspended"
    moves = [
        StateMove(job=job, to=target, code=code, numbers={"rule": job.end_reason}, fields=fields)
        for job in jobs
    ]
    transition_all(moves, now=now)
    Task.unscoped.filter(job__in=jobs).update(
        state=TaskState.WAITING, exit_code=None, message="", started_at=None, finished_at=None
    )
    if not queued:
        end_claims(jobs)
    for cell_id in sorted({job.queue.cell_id for job in jobs}):
        outbox.add_hint(outbox.Topic.CYCLE, cell_id)


def finish_jobs(jobs: Sequence[Job], to: JobState, *, now: datetime) -> None:
    """Change jobs to the terminal state `to`."""
    fields = {"finished_at": now, "reason": "", "reason_numbers": {}, "reason_help": []}
    moves = [
        StateMove(
            job=job,
            to=to,
            code=to.value,
            numbers={"rule": job.end_reason} if job.end_reason else {},
            fields=fields,
        )
        for job in jobs
    ]
    transition_all(moves, now=now)
    end_claims(jobs)


def end_claims(jobs: Sequence[Job]) -> None:
    """Delete the claims of jobs that will not use them."""
    Claim.unscoped.filter(job__in=jobs).delete()


def end_attempts(reasons: Mapping[Job, str], *, now: datetime) -> None:
    """End the live attempt of each job with its reason."""
    rows = [(job.pk, reason) for job, reason in reasons.items()]
    live = Guard(where={"ended_at": None})
    update_rows(Attempt, ("end_reason",), rows, key="job", constants={"ended_at": now}, guard=live)
