"""Follows the log lines of a job by polling.

The clusters are polled for new lines, and no call stays open, so that a reader can disconnect at any time and
a pod without output blocks nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from foundation.core.actor import Actor
from scheduling.models import Allocation, Job
from scheduling.selectors.jobs.job import job_get
from scheduling.selectors.pods.logs import LogLine, LogQuery, attempt_of, in_order, pod_lines
from scheduling.selectors.pods.pods import pods_asked
from tenants.models import Tenant

FOLLOWED_MAX: Final = 16
"""The maximum number of pods that one reader follows; for a larger job a task must be given."""


@dataclass(frozen=True, slots=True)
class News:
    """The lines since the last read; `over`: there will be no more."""

    lines: list[LogLine]
    over: bool


class LogFollower:
    """Follows one attempt of a job: the one that the query selects at the first read, or the first one after
    it."""

    def __init__(self, job: uuid.UUID, query: LogQuery) -> None:
        self._job, self._query = str(job), query
        self._attempt = 0
        self._after: dict[uuid.UUID, datetime] = {}

    def poll_lines(self, *, viewer: Actor, workspace: Tenant) -> News:
        """Read the new lines. Raises: PermissionDenied, NotFound, Conflict, as `job_logs`, with fewer
        tasks."""
        job = job_get(viewer=viewer, workspace=workspace, ref=self._job)
        self._attempt = self._attempt or max(attempt_of(job, self._query), 0)
        if not self._attempt:
            return News([], job.is_terminal or self._query.previous)
        pods = pods_asked(job, task=self._query.task, attempt=self._attempt, most=FOLLOWED_MAX)
        # This is checked before the lines are read, so that the last lines of a pod are included.
        over = _is_over(job, self._attempt, pods)
        return News(in_order(line for pod in pods for line in self._new(pod)), over)

    def _new(self, pod: Allocation) -> Iterable[LogLine]:
        known = self._after.get(pod.pk)
        first = self._query.limit if known is None else None
        found = list(pod_lines(pod, known or self._query.since, last=first))
        times = [line.at for line in found if line.at is not None]
        if times:
            self._after[pod.pk] = max(times)
        # A line without a time would be repeated by every read, so it is returned by the first read only.
        return found if known is None else [line for line in found if line.at is not None]


def _is_over(job: Job, attempt: int, pods: Iterable[Allocation]) -> bool:
    """Return whether all pods of the attempt have ended."""
    return job.is_terminal or attempt < job.attempt_number or all(pod.released_at for pod in pods)
