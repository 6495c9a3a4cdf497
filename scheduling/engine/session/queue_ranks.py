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
from scheduling.engine.session.equivalence import Likes
from scheduling.engine.state.lines import Entry, JobKey, Line
from scheduling.engine.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Kind:
    """What the jobs of one rank share: whose they are, what they are like, and when they are ready."""

    user: str
    like: int
    ready_at: Instant | None


class QueueRanks:
    """The ranks of one queue in one order, none of them empty.

    `lines` has the jobs of each rank, `of_user` the ranks of each user by their first jobs, and `alike` those
    of one equivalence, whoever's they are.
    """

    __slots__ = ("alike", "key", "lines", "of_user", "order")

    def __init__(self, order: Hashable, key: JobKey) -> None:
        self.order, self.key = order, key
        self.lines: dict[Kind, Line] = {}
        self.of_user: defaultdict[str, list[tuple[Entry, Kind]]] = defaultdict(list)
        self.alike: dict[int, tuple[Kind, ...]] = {}

    def fill(self, ranked: dict[Kind, list[Entry]]) -> None:
        """Take the entries of whole ranks, each in order, and the ranks in the order of their first ones."""
        for kind, entries in ranked.items():
            self.lines[kind] = Line.of_sorted(self.key, entries)
            self.of_user[kind.user].append((entries[0], kind))
            self.alike[kind.like] = (*self.alike.get(kind.like, ()), kind)

    def add(self, job: Job, kind: Kind) -> None:
        """Put a job into its rank."""
        line, ranks = self.lines.get(kind), self.of_user[kind.user]
        if line is None:
            line = self.lines[kind] = Line(self.key, ())
            self.alike[kind.like] = (*self.alike.get(kind.like, ()), kind)
            before = None
        else:
            before = line.entry(0)
        line.add(job)
        if line.entry(0) is not before:
            if before is not None:
                del ranks[bisect_left(ranks, (before,))]
            insort(ranks, (line.entry(0), kind))

    def remove(self, job: Job, kind: Kind) -> None:
        """Take a job out of its rank."""
        line, ranks = self.lines[kind], self.of_user[kind.user]
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
            del self.of_user[kind.user]
        rest = tuple(other for other in self.alike.pop(kind.like) if other != kind)
        if rest:
            self.alike[kind.like] = rest


class Ranks:
    """All ranks of a snapshot, those of a queue made when they are first asked for."""

    def __init__(self, snapshot: Snapshot, likes: Likes) -> None:
        self._snapshot = snapshot
        self._likes = likes
        self._queues: dict[str, QueueRanks] = {}
        self._jobs: dict[str, tuple[Job, Kind]] = {}
        self._seen = -1

    def of(self, queue: str, order: Hashable, key: JobKey) -> QueueRanks:
        """The ranks of a queue; `order` identifies the order that `key` stands for."""
        known = self._queues.get(queue)
        if known is None or known.order != order:
            known = self._queues[queue] = QueueRanks(order, key)
            ranked: dict[Kind, list[Entry]] = {}
            line, jobs = self._snapshot.lines.line(queue, order, key), self._snapshot.jobs
            for position, job_id in enumerate(line):
                kind = self._kind(jobs[job_id])
                if kind is not None:
                    ranked.setdefault(kind, []).append(line.entry(position))
            known.fill(ranked)
        return known

    def follow(self) -> None:
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
                self._queues[before[0].queue].remove(*before)
            if now is not None and now.queue in self._queues and job_id not in self._jobs:
                kind = self._kind(now)
                if kind is not None:
                    self._queues[now.queue].add(now, kind)

    def _kind(self, job: Job) -> Kind | None:
        """What a job shares with those of its rank, which is noted; None where it has no turn."""
        # A job that changed while the snapshot was taken may have come without its roles.
        if job.state is not JobState.QUEUED or not job.roles:
            return None
        kind = Kind(job.user, self._likes.class_of(job), job.backoff_until)
        self._jobs[job.id] = job, kind
        return kind


def ranks_of(snapshot: Snapshot, likes: Likes) -> Ranks:
    """The ranks of the jobs that wait now."""
    known = snapshot.limits_memo.get(Ranks)
    if not isinstance(known, Ranks):
        known = snapshot.limits_memo[Ranks] = Ranks(snapshot, likes)
    known.follow()
    return known
