"""Restarts tasks in place: same nodes, same cards, same names, new pods.

Allocations are not released in between, so no other job can take the cards. The old pods must be gone first,
because their names are taken until then. A restart of a role waits for all its old pods, so that no new task
connects to an old one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from django.db.models import F, QuerySet

from clusters.backends.base import PodObservation, PodPhase
from scheduling.execution.endings import ending_message, ending_numbers
from scheduling.lifecycle.retry import IN_PLACE, after_failed_task
from scheduling.lifecycle.transitions import add_event
from scheduling.models import Allocation, JobState, Task, TaskState

_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_ACTIVE: Final = (TaskState.BOUND, TaskState.STARTING, TaskState.RUNNING)


def belongs_to_restart(allocation: Allocation, seen: PodObservation) -> bool:
    """Return whether this observation starts or continues a restart in place."""
    return allocation.restarting or action_for(allocation, seen) in IN_PLACE


def action_for(allocation: Allocation, seen: PodObservation) -> str:
    """Return the action of the job's rules for a failed task of a live job; empty for none."""
    job = allocation.attempt.job
    live = job.state in _LIVE and allocation.removal_asked_at is None and allocation.task.state in _ACTIVE
    return after_failed_task(job, allocation.task.role.name, allocation.restarts, seen) if live else ""


def advance_restart(
    allocation: Allocation, seen: PodObservation, *, batch: Iterable[Allocation], now: datetime
) -> None:
    """Mark the old pods for removal, and once they are gone the new ones for creation; the caller adds a
    hint.

    The caller has locked the job's row, so that a concurrent cancellation comes before or after. `batch` are
    the allocations in memory, which are updated too.
    """
    if not allocation.restarting:
        _begin(allocation, seen, batch, now)
    elif seen.phase is PodPhase.REMOVED:
        # `pod_uid` stays, because observations of the removed pod may be repeated.
        Allocation.unscoped.filter(pk=allocation.pk).update(ensured_at=None)
        allocation.ensured_at = None
        together = _together(allocation) if allocation.restarting_role else _alone(allocation)
        if not together.filter(restarting=True, ensured_at__isnull=False).exists():
            _make_again(together)


def _alone(allocation: Allocation) -> QuerySet[Allocation]:
    return Allocation.unscoped.filter(pk=allocation.pk)


def _together(allocation: Allocation) -> QuerySet[Allocation]:
    """Return the allocations of the task's role that are not released."""
    return Allocation.unscoped.filter(
        attempt=allocation.attempt_id, task__role=allocation.task.role_id, released_at__isnull=True
    )


def _make_again(together: QuerySet[Allocation]) -> None:
    again = together.filter(restarting=True)
    tasks = list(again.values_list("task_id", flat=True))
    again.update(
        restarting=False,
        restarting_role=False,
        restarts=F("restarts") + 1,
        removal_asked_at=None,
        removal_sent_at=None,
        ensure_failures=0,
        ensure_after=None,
    )
    leaving = Task.unscoped.filter(pk__in=tasks, state=TaskState.LEAVING)
    leaving.update(state=TaskState.BOUND, message="", started_at=None, finished_at=None)


def _begin(allocation: Allocation, seen: PodObservation, batch: Iterable[Allocation], now: datetime) -> None:
    whole_role = action_for(allocation, seen) == "restart_role"
    # Allocations whose pods are already being removed are left out.
    chosen = _together(allocation).filter(removal_asked_at__isnull=True) if whole_role else _alone(allocation)
    keys = set(chosen.values_list("pk", flat=True))
    tasks = list(chosen.values_list("task_id", flat=True))
    Allocation.unscoped.filter(pk__in=keys).update(
        restarting=True, restarting_role=whole_role, removal_asked_at=now
    )
    for row in batch:
        if row.pk in keys:
            row.restarting, row.restarting_role, row.removal_asked_at = True, whole_role, now
    Task.unscoped.filter(pk__in=tasks).update(state=TaskState.LEAVING)
    Task.unscoped.filter(pk=allocation.task_id).update(
        exit_code=seen.exit_code, message=ending_message(seen)[:2000], finished_at=seen.at
    )
    numbers = {
        "role": allocation.task.role.name,
        "index": allocation.task.index,
        **ending_numbers(seen),
        "restart": allocation.restarts + 1,
    }
    code = "role_restarting" if whole_role else "task_restarting"
    add_event(allocation.attempt.job, code, now=now, numbers=numbers)
