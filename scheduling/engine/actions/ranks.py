"""The waiting jobs of each queue by what they are like, kept from cycle to cycle.

Where thousands wait most are alike: those that are like one that waits are passed over together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from scheduling.engine.actions.equivalence import Likes
from scheduling.engine.model import Instant, Job, JobState
from scheduling.engine.state.lines import JobKey, Line
from scheduling.engine.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Kind:
    """What the jobs of one rank share: whose they are, what they are like, and when they are ready."""

    user: str
    like: int
    ready_at: Instant | None


@dataclass(frozen=True, slots=True)
class _Queue:
    """The ranks of one queue in one order."""

    order: Hashable
    key: JobKey
    ranks: dict[Kind, Line] = field(default_factory=dict)


class Ranks:
    """All ranks of a snapshot, those of a queue made when they are first asked for."""

    def __init__(self, snapshot: Snapshot, likes: Likes) -> None:
        self._snapshot = snapshot
        self._likes = likes
        self._queues: dict[str, _Queue] = {}
        self._jobs: dict[str, tuple[Job, Kind]] = {}
        self._seen = -1

    def of(self, queue: str, order: Hashable, key: JobKey) -> Mapping[Kind, Line]:
        """The ranks of a queue, none of them empty; `order` identifies the order that `key` stands for."""
        known = self._queues.get(queue)
        if known is None or known.order != order:
            known = self._queues[queue] = _Queue(order, key)
            for job_id in self._snapshot.lines.line(queue, order, key):
                self._add(known, self._snapshot.jobs[job_id])
        return known.ranks

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
                self._remove(*before)
            if now is not None and now.queue in self._queues and job_id not in self._jobs:
                self._add(self._queues[now.queue], now)

    def _add(self, queue: _Queue, job: Job) -> None:
        # A job that changed while the snapshot was taken may have come without its roles.
        if job.state is JobState.QUEUED and job.roles:
            kind = Kind(job.user, self._likes.of(job), job.backoff_until)
            self._jobs[job.id] = job, kind
            if kind not in queue.ranks:
                queue.ranks[kind] = Line(queue.key, ())
            queue.ranks[kind].add(job)

    def _remove(self, job: Job, kind: Kind) -> None:
        del self._jobs[job.id]
        ranks = self._queues[job.queue].ranks
        ranks[kind].remove(job)
        if not len(ranks[kind]):
            del ranks[kind]


def ranks_of(snapshot: Snapshot, likes: Likes) -> Ranks:
    """The ranks of the jobs that wait now."""
    known = snapshot.limits_memo.get(Ranks)
    if not isinstance(known, Ranks):
        known = snapshot.limits_memo[Ranks] = Ranks(snapshot, likes)
    known.follow()
    return known
