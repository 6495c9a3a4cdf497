"""The waiting jobs of each queue by what they are like, kept from cycle to cycle.

Where thousands wait most are alike: those that are like one that waits are passed over together. Where
thousands are like no other, a cycle only looks at the first ones of each user.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass

from scheduling.engine.model import Instant, Job, JobState
from scheduling.engine.session.equivalence import EquivalenceClasses
from scheduling.engine.state.lines import Entry, JobKey, Line
from scheduling.engine.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ClassKey:
    """What the jobs of one rank share: whose they are, what they are like, and when they are ready."""

    user: str
    job_class: int
    ready_at: Instant | None


class QueueClasses:
    """The ranks of one queue in one order, none of them empty.

    `lines` has the jobs of each rank, `by_user` the ranks of each user by their first jobs, and `by_class`
    those of one equivalence, whoever's they are.
    """

    __slots__ = ("by_class", "by_user", "key", "lines", "order")

    def __init__(self, order: Hashable, key: JobKey) -> None:
        self.order, self.key = order, key
        self.lines: dict[ClassKey, Line] = {}
        self.by_user: defaultdict[str, list[tuple[Entry, ClassKey]]] = defaultdict(list)
        self.by_class: dict[int, tuple[ClassKey, ...]] = {}

    def add_sorted(self, ranked: dict[ClassKey, list[Entry]]) -> None:
        """Take the entries of whole ranks, each in order, and the ranks in the order of their first ones."""
        for kind, entries in ranked.items():
            self.lines[kind] = Line.of_sorted(self.key, entries)
            self.by_user[kind.user].append((entries[0], kind))
            self.by_class[kind.job_class] = (*self.by_class.get(kind.job_class, ()), kind)

    def add_job(self, job: Job, kind: ClassKey) -> None:
        """Put a job into its rank."""
        line, ranks = self.lines.get(kind), self.by_user[kind.user]
        if line is None:
            line = self.lines[kind] = Line(self.key, ())
            self.by_class[kind.job_class] = (*self.by_class.get(kind.job_class, ()), kind)
            before = None
        else:
            before = line.entry(0)
        line.add(job)
        if line.entry(0) is not before:
            if before is not None:
                del ranks[bisect_left(ranks, (before,))]
            insort(ranks, (line.entry(0), kind))

    def remove_job(self, job: Job, kind: ClassKey) -> None:
        """Take a job out of its rank."""
        line, ranks = self.lines[kind], self.by_user[kind.user]
        before = line.entry(0)
        line.remove(job)
        if len(line) and line.entry(0) is before:
            return
        del ranks[bisect_left(ranks, (before,))]
        if len(line):
            insort(ranks, (line.entry(0), kind))
            return
        del self.lines[kind]
        if not ranks:
            del self.by_user[kind.user]
        rest = tuple(other for other in self.by_class.pop(kind.job_class) if other != kind)
        if rest:
            self.by_class[kind.job_class] = rest


class ClassIndex:
    """All ranks of a snapshot, those of a queue made when they are first asked for."""

    def __init__(self, snapshot: Snapshot, likes: EquivalenceClasses) -> None:
        self._snapshot = snapshot
        self._likes = likes
        self._queues: dict[str, QueueClasses] = {}
        self._jobs: dict[str, tuple[Job, ClassKey]] = {}
        self._seen = -1

    def get_queue(self, queue: str, order: Hashable, key: JobKey) -> QueueClasses:
        """The ranks of a queue; `order` identifies the order that `key` stands for."""
        known = self._queues.get(queue)
        if known is None or known.order != order:
            known = self._queues[queue] = QueueClasses(order, key)
            ranked: dict[ClassKey, list[Entry]] = {}
            line, jobs = self._snapshot.lines.line(queue, order, key), self._snapshot.jobs
            for position, job_id in enumerate(line):
                kind = self._kind(jobs[job_id])
                if kind is not None:
                    ranked.setdefault(kind, []).append(line.entry(position))
            known.add_sorted(ranked)
        return known

    def follow_changes(self) -> None:
        """Bring what is known up to date with the jobs of the snapshot."""
        snapshot = self._snapshot
        changed = snapshot.changes.since(self._seen)
        self._seen = snapshot.changes.number
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
                kind = self._kind(now)
                if kind is not None:
                    self._queues[now.queue].add_job(now, kind)

    def _kind(self, job: Job) -> ClassKey | None:
        """What a job shares with those of its rank, which is noted; None where it has no turn."""
        # A job that changed while the snapshot was taken may have come without its roles.
        if job.state is not JobState.QUEUED or not job.roles:
            return None
        kind = ClassKey(job.user, self._likes.class_of(job), job.backoff_until)
        self._jobs[job.id] = job, kind
        return kind


def class_index_of(snapshot: Snapshot, likes: EquivalenceClasses) -> ClassIndex:
    """The ranks of the jobs that wait now."""
    known = snapshot.limits_memo.get(ClassIndex)
    if not isinstance(known, ClassIndex):
        known = snapshot.limits_memo[ClassIndex] = ClassIndex(snapshot, likes)
    known.follow_changes()
    return known
