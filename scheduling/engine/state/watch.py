"""Which live jobs housekeeping has to look at, kept as jobs come and go.

Few of the jobs of a large cell are broken, idle, of changing size or near the end of their time: no cycle
has to walk over the others to find them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator

from scheduling.engine.model import Instant, Job, JobState


class Watch:
    """The live jobs of a snapshot by what there may be to do about them; ids in no particular order.

    `broken` and `idle` were noticed to be so, `elastic` ones, by queue, may have more tasks or fewer; `tasks`
    is how many a job wants that did not finish.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        self.broken: dict[str, None] = {}
        self.idle: dict[str, None] = {}
        self.elastic: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self.tasks: dict[str, int] = {}
        self._unstarted: dict[str, None] = {}
        self._ends: list[tuple[float, str]] = []
        for job in jobs:
            if job.state is JobState.LIVE:
                self._note(job)
                if (end := _end(job)) is not None:
                    self._ends.append((end, job.id))
        self._ends.sort()

    def put(self, old: Job | None, new: Job | None) -> None:
        """Follow a job that came, changed or left."""
        if old is not None and old.state is JobState.LIVE:
            for noted in (self.broken, self.idle, self.elastic[old.queue], self.tasks, self._unstarted):
                noted.pop(old.id, None)
            if (end := _end(old)) is not None:
                del self._ends[bisect_left(self._ends, (end, old.id))]
        if new is not None and new.state is JobState.LIVE:
            self._note(new)
            if (end := _end(new)) is not None:
                insort(self._ends, (end, new.id))

    def overdue(self, now: Instant) -> list[str]:
        """Jobs whose run time is over."""
        return [job_id for _, job_id in self._ends[: bisect_right(self._ends, (now, chr(0x10FFFF)))]]

    def ends(self) -> Iterator[tuple[float, str]]:
        """When jobs with a limited run time will have ended, first the next; without the unstarted ones."""
        return iter(self._ends)

    def unstarted(self) -> Iterable[str]:
        """Jobs with a limited run time of which it is not known since when they run."""
        return self._unstarted

    def _note(self, job: Job) -> None:
        self.tasks[job.id] = sum(role.replicas - role.ended for role in job.roles)
        if job.broken_since is not None:
            self.broken[job.id] = None
        if job.idle_since is not None:
            self.idle[job.id] = None
        if not job.fixed:
            self.elastic[job.queue][job.id] = None
        if job.max_run_s is not None and job.since is None:
            self._unstarted[job.id] = None


def _end(job: Job) -> float | None:
    """When the job's run time will be over; None where it has no limit or did not start."""
    return None if job.max_run_s is None or job.since is None else job.since + job.max_run_s
