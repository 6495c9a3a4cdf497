"""This module groups the pending jobs of each queue by user and equivalence class, kept from cycle to cycle.

Where thousands of jobs wait, most of them are equivalent, and those equivalent to a job that waits are
skipped together. Where thousands differ, a cycle evaluates only the first ones of each user.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Hashable
from typing import NamedTuple

from scheduling.engine.model import Instant, Job, JobState
from scheduling.engine.session.equivalence import EquivalenceClasses
from scheduling.engine.state.memo import read_memo
from scheduling.engine.state.pending_jobs import JobKey, PendingEntry, PendingQueue
from scheduling.engine.state.snapshot import Snapshot


class ClassKey(NamedTuple):
    """The properties that the jobs of a group share: user, equivalence class, end of backoff."""

    user: str
    job_class: int
    ready_at: Instant | None


class QueueClasses:
    """The groups of one queue in one order, none of them empty.

    `lines` has the jobs of each group, `by_user` the groups of each user by their first jobs, and `by_class`
    the groups of one equivalence class, whichever user they belong to.
    """

    __slots__ = ("by_class", "by_user", "key", "lines", "order")

    def __init__(self, order: Hashable, key: JobKey) -> None:
        self.order, self.key = order, key
        self.lines: dict[ClassKey, PendingQueue] = {}
        self.by_user: defaultdict[str, list[tuple[PendingEntry, ClassKey]]] = defaultdict(list)
        self.by_class: dict[int, tuple[ClassKey, ...]] = {}

    def add_sorted(self, grouped: dict[ClassKey, list[PendingEntry]]) -> None:
        """Add the entries of whole groups, each in order, the groups in the order of their first entries."""
        for key_of_class, entries in grouped.items():
            self.lines[key_of_class] = PendingQueue.from_sorted(self.key, entries)
            self.by_user[key_of_class.user].append((entries[0], key_of_class))
            self.by_class[key_of_class.job_class] = (
                *self.by_class.get(key_of_class.job_class, ()),
                key_of_class,
            )

    def add_job(self, job: Job, key_of_class: ClassKey) -> None:
        """Add a job to its group."""
        line, groups = self.lines.get(key_of_class), self.by_user[key_of_class.user]
        if line is None:
            line = self.lines[key_of_class] = PendingQueue(self.key, ())
            self.by_class[key_of_class.job_class] = (
                *self.by_class.get(key_of_class.job_class, ()),
                key_of_class,
            )
            before = None
        else:
            before = line.entry_at(0)
        line.add_job(job)
        if line.entry_at(0) is not before:
            if before is not None:
                del groups[bisect_left(groups, (before,))]
            insort(groups, (line.entry_at(0), key_of_class))

    def remove_job(self, job: Job, key_of_class: ClassKey) -> None:
        """Remove a job from its group."""
        line, groups = self.lines[key_of_class], self.by_user[key_of_class.user]
        before = line.entry_at(0)
        line.remove_job(job)
        if len(line) and line.entry_at(0) is before:
            return
        del groups[bisect_left(groups, (before,))]
        if len(line):
            insort(groups, (line.entry_at(0), key_of_class))
            return
        del self.lines[key_of_class]
        if not groups:
            del self.by_user[key_of_class.user]
        rest = tuple(other for other in self.by_class.pop(key_of_class.job_class) if other != key_of_class)
        if rest:
            self.by_class[key_of_class.job_class] = rest


class ClassIndex:
    """The groups of all queues of a snapshot; those of a queue are built when they are first read."""

    def __init__(self, snapshot: Snapshot, equivalence: EquivalenceClasses) -> None:
        self._snapshot = snapshot
        self._equivalence = equivalence
        self._queues: dict[str, QueueClasses] = {}
        self._jobs: dict[str, tuple[Job, ClassKey]] = {}
        self._seen = -1

    def get_queue(self, queue: str, order: Hashable, key: JobKey) -> QueueClasses:
        """Return the groups of a queue; `order` identifies the order that `key` implements."""
        known = self._queues.get(queue)
        if known is None or known.order != order:
            known = self._queues[queue] = QueueClasses(order, key)
            grouped: dict[ClassKey, list[PendingEntry]] = {}
            line, jobs = self._snapshot.pending_jobs.jobs_of_queue(queue, order, key), self._snapshot.jobs
            for position, job_id in enumerate(line):
                key_of_class = self._register(jobs[job_id])
                if key_of_class is not None:
                    grouped.setdefault(key_of_class, []).append(line.entry_at(position))
            known.add_sorted(grouped)
        return known

    def follow_changes(self) -> None:
        """Update the groups to the jobs of the snapshot."""
        snapshot = self._snapshot
        changed = snapshot.job_changes.jobs_since(self._seen)
        self._seen = snapshot.job_changes.number
        if changed is None:
            self._queues.clear()
            self._jobs.clear()
            return
        for job_id in changed:
            before, now = self._jobs.get(job_id), snapshot.jobs.get(job_id)
            if before is not None and before[0] is not now:
                del self._jobs[job_id]
                self._queues[before[0].queue].remove_job(*before)
            if now is not None and now.queue in self._queues and job_id not in self._jobs:
                key_of_class = self._register(now)
                if key_of_class is not None:
                    self._queues[now.queue].add_job(now, key_of_class)

    def _register(self, job: Job) -> ClassKey | None:
        """Return the group key of a job and remember it; None if the job is not pending."""
        # A job that changed while the snapshot was read may lack its roles.
        if job.state is not JobState.QUEUED or not job.roles:
            return None
        key_of_class = ClassKey(job.user, self._equivalence.class_of(job), job.backoff_until)
        self._jobs[job.id] = job, key_of_class
        return key_of_class


def class_index_of(snapshot: Snapshot, equivalence: EquivalenceClasses) -> ClassIndex:
    """Return the groups of the jobs that are pending now."""
    known = read_memo(snapshot.limits_memo, ClassIndex, lambda: ClassIndex(snapshot, equivalence))
    known.follow_changes()
    return known
