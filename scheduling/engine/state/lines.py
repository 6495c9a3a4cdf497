"""The line of each queue: waiting jobs in the queue's order, kept sorted as jobs come and go.

Sorting thousands of jobs in every cycle would cost more than placing them. A line is sorted once for
an ordering and then updated by bisection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from scheduling.engine.model import Job, JobState

JobKey = Callable[[Job], tuple[Any, ...]]
"""A total order on jobs: a tuple that ends in the job's id."""

Entry = tuple[tuple[Any, ...], str]
"""A job in a line: its key, and its id."""

WAITING = (JobState.QUEUED, JobState.SUSPENDED)


class Line:
    """The waiting jobs of one queue in one order."""

    __slots__ = ("_entries", "_ids", "_key")

    def __init__(self, key: JobKey, jobs: Iterable[Job]) -> None:
        self._key = key
        self._entries: list[Entry] = sorted((key(job), job.id) for job in jobs)
        # The same order; whole lines are read in every cycle.
        self._ids = [job_id for _, job_id in self._entries]

    @classmethod
    def of_sorted(cls, key: JobKey, entries: list[Entry]) -> Line:
        """The line of entries that are in order; it keeps the list."""
        line = cls(key, ())
        line._entries, line._ids = entries, [job_id for _, job_id in entries]
        return line

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def at(self, position: int) -> str:
        """The id of the job at a position, 0 being the head."""
        return self._ids[position]

    def entry(self, position: int) -> Entry:
        """The entry at a position, to be compared with those of other lines in this order."""
        return self._entries[position]

    def before(self, entry: Entry) -> int:
        """How many stand before an entry of a line in this order."""
        return bisect_left(self._entries, entry)

    def between(self, first: int, end: int) -> list[str]:
        """The ids of the jobs from one position to before another."""
        return self._ids[first:end]

    def add(self, job: Job) -> None:
        """Put a job in its place."""
        entry = (self._key(job), job.id)
        position = self.before(entry)
        self._entries.insert(position, entry)
        self._ids.insert(position, job.id)

    def remove(self, job: Job) -> None:
        """Take a job out."""
        position = self.before((self._key(job), job.id))
        del self._entries[position], self._ids[position]


class Lines:
    """All lines of a snapshot, each built when first asked for."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._waiting: defaultdict[str, dict[str, Job]] = defaultdict(dict)
        self._lines: dict[str, tuple[Hashable, Line]] = {}
        for job in jobs:
            self.put(None, job)

    def line(self, queue: str, ordering: Hashable, key: JobKey) -> Line:
        """The line of a queue; `ordering` identifies the order that `key` stands for."""
        known = self._lines.get(queue)
        if known is not None and known[0] == ordering:
            return known[1]
        line = Line(key, self._waiting[queue].values())
        self._lines[queue] = (ordering, line)
        return line

    def put(self, old: Job | None, new: Job | None) -> None:
        """Follow a job that came, changed or left."""
        if old is not None and old.state in WAITING:
            del self._waiting[old.queue][old.id]
            if old.queue in self._lines:
                self._lines[old.queue][1].remove(old)
        if new is not None and new.state in WAITING:
            self._waiting[new.queue][new.id] = new
            if new.queue in self._lines:
                self._lines[new.queue][1].add(new)
