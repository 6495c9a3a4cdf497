"""The lines of a job as they come, look by look.

The clusters are asked again and again for what is new, and no call is left open: whoever reads may leave at
any moment, and a pod that prints nothing for hours holds nothing up.
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
"""Pods followed by one reader; of a larger job name the task."""


@dataclass(frozen=True, slots=True)
class News:
    """The lines since the last read; `over`: nothing more will come."""

    lines: list[LogLine]
    over: bool


class LogFollower:
    """One reader of one job, and of one attempt: that which was meant when there was any."""

    def __init__(self, job: uuid.UUID, query: LogQuery) -> None:
        self._job, self._query = str(job), query
        self._attempt = 0
        self._after: dict[uuid.UUID, datetime] = {}

    def poll_lines(self, *, viewer: Actor, workspace: Tenant) -> News:
        """Ask once. Raises: PermissionDenied, NotFound, Conflict; as `job_logs`, with fewer tasks at once."""
        job = job_get(viewer=viewer, workspace=workspace, ref=self._job)
        self._attempt = self._attempt or max(attempt_of(job, self._query), 0)
        if not self._attempt:
            return News([], job.is_terminal or self._query.previous)
        pods = pods_asked(job, task=self._query.task, attempt=self._attempt, most=FOLLOWED_MAX)
        # Looked at before the lines are read: what a pod printed last is then among them.
        over = _is_over(job, self._attempt, pods)
        return News(in_order(line for pod in pods for line in self._new(pod)), over)

    def _new(self, pod: Allocation) -> Iterable[LogLine]:
        known = self._after.get(pod.pk)
        first = self._query.limit if known is None else None
        found = list(pod_lines(pod, known or self._query.since, last=first))
        times = [line.at for line in found if line.at is not None]
        if times:
            self._after[pod.pk] = max(times)
        # One without a time would be told by every look.
        return found if known is None else [line for line in found if line.at is not None]


def _is_over(job: Job, attempt: int, pods: Iterable[Allocation]) -> bool:
    """Return whether every container of that attempt has ended."""
    return job.is_terminal or attempt < job.attempt_number or all(pod.released_at for pod in pods)
