"""What the tasks of a job printed, asked of the clusters where they run or ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from clusters.backends.base import BackendUnavailable, TaskRef
from clusters.backends.registry import backend_for
from foundation.actor import Actor
from foundation.errors import Conflict
from scheduling.models import Allocation, Job
from scheduling.selectors.pods import pods_asked, task_name, unreachable
from tenants import permissions
from tenants.permissions import Permission


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
    lines: list[LogLine] = []
    for pod in pods_asked(job, task=query.task, attempt=query.attempt):
        lines += deque(_lines(pod, query.since), maxlen=query.limit)
    lines.sort(key=lambda line: (line.at.isoformat() if line.at else "", line.task))
    return lines[-query.limit :]


def _lines(pod: Allocation, since: datetime | None) -> Iterator[LogLine]:
    backend = backend_for(pod.node.cluster)
    if not backend.capabilities.logs:
        message = _("The cluster %(name)s keeps no logs that could be read here.")
        raise Conflict(message % {"name": pod.node.cluster.name}, code="LOGS_UNAVAILABLE")
    task = task_name(pod)
    try:
        for line in backend.logs(TaskRef(pod.namespace, pod.pod_name), since=since):
            at, text = _split(line)
            yield LogLine(task, at, text)
    except BackendUnavailable as error:
        raise unreachable(pod.node.cluster) from error


def _split(line: str) -> tuple[datetime | None, str]:
    first, _space, rest = line.partition(" ")
    try:
        at = parse_datetime(first)
    except ValueError:
        at = None
    return (at, rest) if at else (None, line)
