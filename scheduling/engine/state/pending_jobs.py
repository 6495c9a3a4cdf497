"""The pending jobs of each queue in the queue's order.

A sort of thousands of jobs in every cycle would cost more than their placement. A queue is sorted once for
an ordering and then updated by bisection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from scheduling.engine.model import Job, JobState

PendingEntry = tuple[Any, ...]
"""A job in a queue: its sort key, which ends in its id."""

JobKey = Callable[[Job], PendingEntry]
"""A total order on jobs."""

WAITING = (JobState.QUEUED, JobState.SUSPENDED)


class PendingQueue:
    """The pending jobs of one queue in one order."""

    __slots__ = ("_entries", "_ids", "_key")

    def __init__(self, key: JobKey, jobs: Iterable[Job]) -> None:
        self._key = key
        self._entries: list[PendingEntry] = sorted(map(key, jobs))
        # The ids in the same order, because whole queues are read in every cycle.
        self._ids: list[str] = [entry[-1] for entry in self._entries]

    @classmethod
    def from_sorted(cls, key: JobKey, entries: list[PendingEntry]) -> PendingQueue:
        """Return a queue of sorted entries; it owns the list from now on."""
        line = cls(key, ())
        line._entries, line._ids = entries, [entry[-1] for entry in entries]
        return line

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def job_at(self, position: int) -> str:
        """Return the id of the job at a position; 0 is the head."""
        return self._ids[position]

    def entry_at(self, position: int) -> PendingEntry:
        """Return the entry at a position, which compares with entries of other queues in this order."""
        return self._entries[position]

    def count_before(self, entry: PendingEntry) -> int:
        """Return how many jobs come before an entry."""
        return bisect_left(self._entries, entry)

    def jobs_between(self, first: int, end: int) -> list[str]:
        """Return the ids of the jobs from position `first` to before `end`."""
        return self._ids[first:end]

    def add_job(self, job: Job) -> None:
        """Insert a job at its position."""
        entry = self._key(job)
        position = self.count_before(entry)
        self._entries.insert(position, entry)
        self._ids.insert(position, job.id)

    def remove_job(self, job: Job) -> None:
        """Remove a job."""
        position = self.count_before(self._key(job))
        del self._entries[position], self._ids[position]


class PendingJobs:
    """The pending jobs of all queues; each queue is sorted when it is first read."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._waiting: defaultdict[str, dict[str, Job]] = defaultdict(dict)
        self._queues: dict[str, tuple[Hashable, PendingQueue]] = {}
        for job in jobs:
            self.update_job(None, job)

    def jobs_of_queue(self, queue: str, ordering: Hashable, key: JobKey) -> PendingQueue:
        """Return the pending jobs of a queue, sorted by `key`; `ordering` identifies that order."""
        known = self._queues.get(queue)
        if known is not None and known[0] == ordering:
            return known[1]
        line = PendingQueue(key, self._waiting[queue].values())
        self._queues[queue] = (ordering, line)
        return line

    def update_job(self, old: Job | None, new: Job | None) -> None:
        """Update the queues for a job that was added (`old` is None), changed, or removed (`new` is None)."""
        if old is not None and old.state in WAITING:
            del self._waiting[old.queue][old.id]
            if old.queue in self._queues:
                self._queues[old.queue][1].remove_job(old)
        if new is not None and new.state in WAITING:
            self._waiting[new.queue][new.id] = new
            if new.queue in self._queues:
                self._queues[new.queue][1].add_job(new)
