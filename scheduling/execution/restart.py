"""Starting one task again where it was: same node, same cards, same name, a new pod.

The hold is never released in between, so nobody can take the place. The old pod has to be gone first,
because the name is taken until then.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db.models import F

from clusters.backends.base import PodObservation, PodPhase
from scheduling.models import Allocation, JobState, Task, TaskState
from scheduling.services.retry import restarts_in_place
from scheduling.transitions import note

_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_ACTIVE: Final = (TaskState.BOUND, TaskState.STARTING, TaskState.RUNNING)


def applies(allocation: Allocation, seen: PodObservation) -> bool:
    """Whether this observation belongs to a restart in place, beginning or under way."""
    if allocation.restarting:
        return True
    job = allocation.attempt.job
    return (
        job.state in _LIVE
        and allocation.removal_asked_at is None
        and allocation.task.state in _ACTIVE
        and restarts_in_place(job, allocation.task.role.name, allocation.restarts, seen)
    )


def step(allocation: Allocation, seen: PodObservation, *, now: datetime) -> None:
    """Have the failed pod removed, and once it is gone have the next one made; the caller hints at it.

    The caller holds the job's row: a cancellation at the same moment comes before or after, not between.
    """
    rows = Allocation.unscoped.filter(pk=allocation.pk)
    if not allocation.restarting:
        _begin(allocation, seen, now)
    elif seen.phase is PodPhase.GONE:
        rows.update(
            restarting=False,
            restarts=F("restarts") + 1,
            removal_asked_at=None,
            removal_sent_at=None,
            ensured_at=None,  # `pod_uid` stays: news of the pod that is gone may come again
        )
        leaving = Task.unscoped.filter(pk=allocation.task_id, state=TaskState.LEAVING)
        leaving.update(state=TaskState.BOUND, started_at=None, finished_at=None)


def _begin(allocation: Allocation, seen: PodObservation, now: datetime) -> None:
    Allocation.unscoped.filter(pk=allocation.pk).update(restarting=True, removal_asked_at=now)
    allocation.restarting, allocation.removal_asked_at = True, now
    Task.unscoped.filter(pk=allocation.task_id).update(
        state=TaskState.LEAVING, exit_code=seen.exit_code, message=seen.message[:2000], finished_at=seen.at
    )
    numbers = {
        "role": allocation.task.role.name,
        "index": allocation.task.index,
        "exit_code": seen.exit_code,
        "restart": allocation.restarts + 1,
    }
    note(allocation.attempt.job, "task_restarting", now=now, numbers=numbers)
