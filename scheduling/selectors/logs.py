"""What the tasks of a job printed, asked of the clusters where they run or ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import QuerySet
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from clusters.backends.base import BackendUnavailable, TaskRef
from clusters.backends.registry import backend_for
from foundation.actor import Actor
from foundation.errors import Conflict, NotFound
from scheduling.models import Allocation, Job
from tenants import permissions
from tenants.permissions import Permission

TASKS_MAX: Final = 64
"""Pods asked in one request; of a larger job name the task."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. `task` is `<role>-<index>`; `at` is None where the line carries no time."""

    task: str
    at: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines: of one task or all, of one attempt or the latest, after `since`, the last `limit`."""

    task: str = ""
    attempt: int | None = None
    since: datetime | None = None
    limit: int = 500


def job_logs(*, viewer: Actor, job: Job, query: LogQuery) -> list[LogLine]:
    """The lines in the order of their times; none before the job has started.

    A pod that is removed takes its lines along: what a cluster has forgotten cannot be read here.
    Raises: NotFound, also for a task that the attempt does not have; PermissionDenied; Conflict when a
    cluster does not answer, keeps no logs, or the job has too many tasks to be asked at once.
    """
    permissions.require(viewer, Permission.JOB_VIEW, job.workspace)
    found = list(_pods(job, query)[: TASKS_MAX + 1])
    if query.task and not found:
        raise NotFound(_("The attempt has no task named %(name)s.") % {"name": query.task})
    if len(found) > TASKS_MAX:
        message = _("The job has more than %(limit)s tasks; name one of them.") % {"limit": TASKS_MAX}
        raise Conflict(message, code="TOO_MANY_TASKS", numbers={"limit": TASKS_MAX})
    lines: list[LogLine] = []
    for pod in found:
        lines += deque(_lines(pod, query.since), maxlen=query.limit)
    lines.sort(key=lambda line: (line.at.isoformat() if line.at else "", line.task))
    return lines[-query.limit :]


def _pods(job: Job, query: LogQuery) -> QuerySet[Allocation]:
    attempt = job.attempt_number if query.attempt is None else query.attempt
    pods = Allocation.unscoped.filter(attempt__job=job, attempt__number=attempt)
    if query.task:
        role, _dash, index = query.task.rpartition("-")
        wanted = int(index) if index.isdecimal() and len(index) < 9 else -1
        pods = pods.filter(task__role__name=role, task__index=wanted)
    return pods.select_related("node__cluster", "task__role").order_by("task__role__position", "task__index")


def _lines(pod: Allocation, since: datetime | None) -> Iterator[LogLine]:
    backend = backend_for(pod.node.cluster)
    if not backend.capabilities.logs:
        message = _("The cluster %(name)s keeps no logs that could be read here.")
        raise Conflict(message % {"name": pod.node.cluster.name}, code="LOGS_UNAVAILABLE")
    task = f"{pod.task.role.name}-{pod.task.index}"
    try:
        for line in backend.logs(TaskRef(pod.namespace, pod.pod_name), since=since):
            at, text = _split(line)
            yield LogLine(task, at, text)
    except BackendUnavailable as error:
        message = _("The cluster %(name)s does not answer.") % {"name": pod.node.cluster.name}
        raise Conflict(message, code="CLUSTER_UNREACHABLE") from error


def _split(line: str) -> tuple[datetime | None, str]:
    first, _space, rest = line.partition(" ")
    try:
        at = parse_datetime(first)
    except ValueError:
        at = None
    return (at, rest) if at else (None, line)
