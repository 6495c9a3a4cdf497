"""Selects the pods of a job for requests to clusters."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext as _

from clusters.models import Cluster
from foundation.core.errors import Conflict, NotFound
from foundation.core.numbers import read_whole
from foundation.core.reasons import Reason
from scheduling.models import Allocation, Job

TASKS_MAX: Final = 64
"""The maximum number of pods in one request; for a larger job a task must be given."""


def pods_asked(
    job: Job, *, task: str = "", attempt: int | None = None, most: int = TASKS_MAX
) -> list[Allocation]:
    """Return the pods of one attempt, by default the latest, by role and index; or that of one task.

    `task` is `<role>-<index>`. Raises: NotFound when the attempt has no such task; Conflict when there are
    too many pods for one request.
    """
    number = job.attempt_number if attempt is None else attempt
    pods = Allocation.unscoped.filter(attempt__job=job, attempt__number=number)
    if task:
        role, _dash, index = task.rpartition("-")
        wanted = read_whole(index, most=10**8)
        pods = pods.filter(task__role__name=role, task__index=-1 if wanted is None else wanted)
    ordered = pods.select_related("node__cluster", "task__role").order_by(
        "task__role__position", "task__index"
    )
    found = list(ordered[: most + 1])
    if task and not found:
        raise NotFound(_("Task %(name)s not found in this attempt.") % {"name": task})
    if len(found) > most:
        message = _("The job has more than %(limit)s tasks. Specify one.") % {"limit": most}
        raise Conflict(message, code="TOO_MANY_TASKS", numbers={"limit": most})
    return found


def task_name(pod: Allocation) -> str:
    """Return the name of the pod's task, `<role>-<index>`."""
    return f"{pod.task.role.name}-{pod.task.index}"


def unreachable_conflict(cluster: Cluster) -> Conflict:
    """Return the error for a cluster that does not answer."""
    message = _("Cluster %(name)s is unreachable.") % {"name": cluster.name}
    return Conflict(message, code=Reason.CLUSTER_UNREACHABLE)
