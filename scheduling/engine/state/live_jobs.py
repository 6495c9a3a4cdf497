"""An index of the live jobs that housekeeping has to check, updated with each change of a job.

Few of the jobs of a large cell are idle, elastic or near their run-time limit; a cycle finds them
without a walk over all jobs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator

from scheduling.engine.model import Job, JobState


class LiveJobIndex:
    """The live jobs of a snapshot by the check that applies to them; ids in no particular order.

    `idle` jobs do not use their cards, `elastic` ones, by queue, can shrink or grow. `wanted_tasks` is the
    number of tasks of a job that have not finished.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        self.idle: dict[str, None] = {}
        self.elastic: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self.wanted_tasks: dict[str, int] = {}
        self._without_start: dict[str, None] = {}
        self._ends: list[tuple[float, str]] = []
        for job in jobs:
            if job.state is JobState.LIVE:
                self._note(job)
                if (end := _run_time_end(job)) is not None:
                    self._ends.append((end, job.id))
        self._ends.sort()

    def update_job(self, old: Job | None, new: Job | None) -> None:
        """Update the index for a job that was added (`old` is None), changed, or removed (`new` is None)."""
        if old is not None and old.state is JobState.LIVE:
            for noted in (self.idle, self.elastic[old.queue], self.wanted_tasks, self._without_start):
                noted.pop(old.id, None)
            if (end := _run_time_end(old)) is not None:
                del self._ends[bisect_left(self._ends, (end, old.id))]
        if new is not None and new.state is JobState.LIVE:
            self._note(new)
            if (end := _run_time_end(new)) is not None:
                insort(self._ends, (end, new.id))

    def run_time_ends(self) -> Iterator[tuple[float, str]]:
        """Return (end, job id) of started jobs with a run-time limit, the earliest end first."""
        return iter(self._ends)

    def jobs_without_start(self) -> Iterable[str]:
        """Return the jobs with a run-time limit whose start is not known."""
        return self._without_start

    def _note(self, job: Job) -> None:
        self.wanted_tasks[job.id] = sum(role.replicas - role.ended for role in job.roles)
        if job.idle_since is not None:
            self.idle[job.id] = None
        if not job.has_fixed_size:
            self.elastic[job.queue][job.id] = None
        if job.max_run_s is not None and job.attempt_started_at is None:
            self._without_start[job.id] = None


def _run_time_end(job: Job) -> float | None:
    """Return the end of the job's run time; None if it has no limit or did not start."""
    return (
        None
        if job.max_run_s is None or job.attempt_started_at is None
        else job.attempt_started_at + job.max_run_s
    )
