"""Reads the output of a job's tasks from the clusters where they run or ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from clusters.backends.base import BackendUnavailable, TaskRef
from clusters.backends.registry import backend_for
from foundation.core.actor import Actor
from foundation.core.errors import Conflict
from scheduling.models import Allocation, Job
from scheduling.selectors.pods.pods import pods_asked, task_name, unreachable_conflict
from tenants.access import permissions
from tenants.access.permissions import Permission


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. `task` is `<role>-<index>`; `at` is None if the line has no time."""

    task: str
    at: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The requested lines: of one task or all, of one attempt or the latest, after `since`, the last `limit`.

    `previous` selects the attempt before the latest.
    """

    task: str = ""
    attempt: int | None = None
    previous: bool = False
    since: datetime | None = None
    limit: int = 500


def job_logs(*, viewer: Actor, job: Job, query: LogQuery) -> list[LogLine]:
    """Return the lines in the order of their times; none before the job has started.

    The logs of a pod are lost when the cluster removes it.
    Raises: NotFound, also for a task that the attempt does not have; PermissionDenied; Conflict when a
    cluster does not answer or has no logs, or when the job has too many tasks for one request.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    lines: list[LogLine] = []
    for pod in pods_asked(job, task=query.task, attempt=attempt_of(job, query)):
        lines += pod_lines(pod, query.since, last=query.limit)
    return in_order(lines)[-query.limit :]


def attempt_of(job: Job, query: LogQuery) -> int:
    """Return the number of the attempt that the query selects; it may not exist."""
    if query.attempt is not None:
        return query.attempt
    return job.attempt_number - query.previous


def in_order(lines: Iterable[LogLine]) -> list[LogLine]:
    """Return the lines sorted by time and then by task."""
    return sorted(lines, key=lambda line: (line.at.isoformat() if line.at else "", line.task))


def pod_lines(pod: Allocation, since: datetime | None, *, last: int | None = None) -> Iterator[LogLine]:
    """Yield the output of a pod, after `since` if it is given, the `last` lines at most. Raises: Conflict."""
    backend = backend_for(pod.node.cluster, disowned_too=True)
    if not backend.capabilities.logs:
        message = _("Logs aren't available for cluster %(name)s.")
        raise Conflict(message % {"name": pod.node.cluster.name}, code="LOGS_UNAVAILABLE")
    task = task_name(pod)
    try:
        for line in backend.read_logs(TaskRef(pod.namespace, pod.pod_name), since=since, last=last):
            at, text = _split(line)
            yield LogLine(task, at, text)
    except BackendUnavailable as error:
        raise unreachable_conflict(pod.node.cluster) from error


def _split(line: str) -> tuple[datetime | None, str]:
    first, _space, rest = line.partition(" ")
    try:
        at = parse_datetime(first)
    except ValueError:
        at = None
    return (at, rest) if at else (None, line)
