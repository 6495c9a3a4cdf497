"""How a running job leaves: told to stop, evicted, and settled when its pods are confirmed gone.

Quota and cards stay held through `evicting` and `stopping`. They come back one by one as each pod's
end is observed; the job moves on when the last one is.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from foundation import outbox
from scheduling.models import Allocation, Attempt, Claim, Job, JobState, Task, TaskState
from scheduling.services.retry import after_eviction
from scheduling.transitions import transition

BACKOFF_BASE_S: Final = 60
BACKOFF_LIMIT_S: Final = 3600
_BATCH: Final = 500
_UNFINISHED: Final = (TaskState.BOUND, TaskState.STARTING, TaskState.RUNNING)


def begin_stopping(*, job: Job, now: datetime, actor: str = "") -> None:
    """Tell a job that holds cards to end; it becomes `cancelled` when every pod is gone.

    Raises: IllegalTransition, StaleJob.
    """
    transition(
        job,
        JobState.STOPPING,
        code="stopping",
        now=now,
        actor=actor,
        end_reason="CANCELLED",
        after_eviction="",
    )
    end_claim(job)  # a job that is being moved was promised its new place
    ask_removal(job, now)


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
    """Make a job give back what it holds; it becomes `then` when every pod is gone.

    `rule` is the code of what evicts it. With `backoff` it waits before its next try, doubling from
    one minute to one hour.
    Raises: IllegalTransition, StaleJob.
    """
    mark_evicting(job=job, rule=rule, then=then, now=now, actor=actor, numbers=numbers, backoff=backoff)
    ask_removal(job, now)


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
    """The first half of `begin_eviction`, for whoever has the pods of several jobs removed together.

    Raises: IllegalTransition, StaleJob.
    """
    if rule != "TASK_FAILED":
        then = after_eviction(job, then)
    fields: dict[str, Any] = {"after_eviction": then.value, "end_reason": rule}
    if backoff:
        fields["failures"] = job.failures + 1
        pause = min(BACKOFF_BASE_S * 2**job.failures, BACKOFF_LIMIT_S)
        fields["backoff_until"] = now + timedelta(seconds=pause)
    transition(
        job,
        JobState.EVICTING,
        code="evicting",
        now=now,
        actor=actor,
        numbers={"rule": rule, **(numbers or {})},
        **fields,
    )


def ask_removal(job: Job, now: datetime) -> None:
    """Have every pod of the job removed; what they hold comes back as each is confirmed gone."""
    Task.unscoped.filter(job=job, state__in=_UNFINISHED).update(state=TaskState.LEAVING)
    for cluster_id in sorted(note_removal(Q(attempt__job=job), now)):
        outbox.hint(outbox.Topic.EXECUTE, cluster_id)


def note_removal(which: Q, now: datetime) -> set[uuid.UUID]:
    """Mark the pods of those allocations as unwanted; the caller hints at the clusters returned."""
    present = Allocation.unscoped.filter(which, removed_at__isnull=True)
    # In the order in which workers note what they did with them.
    locked = present.select_for_update(of=("self",), no_key=True).order_by("pk")
    held = list(locked.values_list("task_id", flat=True))
    for start in range(0, len(held), _BATCH):
        tasks = Task.unscoped.filter(pk__in=held[start : start + _BATCH])
        tasks.filter(state__in=_UNFINISHED).update(state=TaskState.LEAVING)
    present.filter(restarting=True).update(restarting=False)  # not to be made again after all
    live = present.filter(removal_asked_at__isnull=True)
    clusters = set(live.values_list("node__cluster_id", flat=True))
    live.update(removal_asked_at=now)
    return clusters


def settle(job: Job, *, now: datetime) -> bool:
    """Move a leaving job on if nothing of it is left; returns whether it moved.

    Called in the transaction that noted the end of a pod.
    """
    if job.state not in (JobState.EVICTING, JobState.STOPPING):
        return False
    if Allocation.unscoped.filter(attempt__job=job, removed_at__isnull=True).exists():
        return False
    end_attempt(job, reason=job.end_reason, now=now)
    if job.state == JobState.STOPPING:
        finish(job, JobState.CANCELLED, now=now)
        return True
    target = JobState(job.after_eviction)
    if target == JobState.FAILED:
        finish(job, target, now=now)
        return True
    Task.unscoped.filter(job=job).update(
        state=TaskState.WAITING, exit_code=None, message="", started_at=None, finished_at=None
    )
    if target == JobState.SUSPENDED:
        end_claim(job)
    reason = "SUSPENDED" if target == JobState.SUSPENDED else "PENDING_EVALUATION"
    transition(
        job,
        target,
        code="requeued" if target == JobState.QUEUED else "suspended",
        now=now,
        numbers={"rule": job.end_reason},
        after_eviction="",
        end_reason="",
        admitted_at=None,
        started_at=None,
        deadline_at=None,
        reason=reason,
        reason_numbers={},
        reason_help=[],
        reason_at=now,
    )
    outbox.hint(outbox.Topic.CYCLE, job.queue.cell_id)
    return True


def finish(job: Job, to: JobState, *, now: datetime) -> None:
    """Bring a job to its terminal state."""
    end_claim(job)
    numbers = {"rule": job.end_reason} if job.end_reason else {}
    transition(
        job,
        to,
        code=to.value,
        now=now,
        numbers=numbers,
        finished_at=now,
        reason="",
        reason_numbers={},
        reason_help=[],
    )


def end_claim(job: Job) -> None:
    """Take back what the job was promised, if anything: it will not come for it."""
    Claim.unscoped.filter(job=job).delete()


def end_attempt(job: Job, *, reason: str, now: datetime) -> None:
    """Close the live attempt, if there is one."""
    Attempt.unscoped.filter(job=job, ended_at__isnull=True).update(ended_at=now, end_reason=reason)
