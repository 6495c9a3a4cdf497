"""Running gangs that lack tasks, and how they grow into idle room."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.bounds import SlotBounds
from scheduling.engine.gang.task_counts import find_missing_tasks, find_surplus_tasks, is_gang_complete
from scheduling.engine.model import (
    Allocation,
    Decision,
    DecisionKind,
    Job,
    JobState,
    Queue,
    Reason,
    StopPolicy,
)
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.equivalence import EquivalenceClasses
from scheduling.engine.session.session import Session
from scheduling.engine.state.snapshot import Snapshot

# Nothing that others give up would help these, so they keep nobody from growing.
REASONS_ROOM_NEVER_HELPS = (
    Reason.NEVER_FITS,
    Reason.EXCEEDS_MAX_QUOTA,
    Reason.POLICY_DENIED,
    Reason.QUEUE_STOPPED,
    Reason.SUSPENDED,
)
BROKEN, SMALLEST, LARGER = range(3)


class GrowableJob(NamedTuple):
    """A job that lacks tasks: `missing` of each role, to its minimum or the next step.

    `size` tells gangs below their minimum from those at it and those above; `flavors` are those of its
    tasks.
    """

    job: Job
    missing: dict[str, int]
    size: int
    flavors: frozenset[str]

    @staticmethod
    def of_job(job: Job, held: Sequence[Allocation]) -> GrowableJob | None:
        """None for a job that is full."""
        more = find_missing_tasks(job, held)
        if not more:
            return None
        size = (
            (LARGER if find_surplus_tasks(job, held) else SMALLEST) if is_gang_complete(job, held) else BROKEN
        )
        return GrowableJob(job, more, size, frozenset(task.flavor for task in held))

    @property
    def rank(self) -> tuple[int, int, float, str]:
        """Higher priority first; then the smaller gangs; then the older."""
        return (-self.job.priority, self.size, self.job.submitted_at, self.job.id)


class GrowableJobIndex:
    """The running jobs of a snapshot that lack tasks, kept from cycle to cycle.

    They are kept by kind: those of one kind lack the same in the same flavors, so there is room for all of
    them or for none.
    """

    def __init__(self, likes: EquivalenceClasses, queues: Sequence[Queue]) -> None:
        self._likes, self._queues = likes, queues
        self._kinds: dict[Hashable, dict[str, GrowableJob]] = {}
        self._kind: dict[str, Hashable] = {}
        self._seen = -1

    def is_stale(self, likes: EquivalenceClasses, queues: Sequence[Queue]) -> bool:
        """Whether kinds are numbered anew since, or queues were changed."""
        return likes is not self._likes or queues != self._queues

    def follow_changes(self, snapshot: Snapshot) -> list[Sequence[GrowableJob]]:
        """All of them as the snapshot shows them now, those of one kind together."""
        changed = None if self._seen < 0 else snapshot.changes.since(self._seen)
        self._seen = snapshot.changes.number
        if changed is None:
            self._kinds.clear()
            self._kind.clear()
            changed = snapshot.short()
        for job_id in changed:
            self._drop(job_id)
            job = snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.LIVE:
                continue
            held = snapshot.held(job_id)
            grower = _lacking(job, held) if any(task.queue == job.queue for task in held) else None
            if grower is not None:
                self._add(grower, snapshot.queues[job.queue])
        return [tuple(kind.values()) for kind in self._kinds.values()]

    def _add(self, grower: GrowableJob, queue: Queue) -> None:
        lacking = (self._likes.class_of(grower.job), *grower.missing.items())
        kind = (lacking, queue.flavors, queue.resource_groups)
        self._kinds.setdefault(kind, {})[grower.job.id] = grower
        self._kind[grower.job.id] = kind

    def _drop(self, job_id: str) -> None:
        kind = self._kind.pop(job_id, None)
        if kind is not None:
            del self._kinds[kind][job_id]
            if not self._kinds[kind]:
                del self._kinds[kind]


def _growers_of(session: Session) -> GrowableJobIndex:
    queues, snapshot = list(session.snapshot.queues.values()), session.snapshot
    known = snapshot.kept.get(GrowableJobIndex)
    if not isinstance(known, GrowableJobIndex) or known.is_stale(session.equivalence, queues):
        known = snapshot.kept[GrowableJobIndex] = GrowableJobIndex(session.equivalence, queues)
    return known


def _lacking(job: Job, held: Sequence[Allocation]) -> GrowableJob | None:
    """None also while somebody of the job is leaving."""
    full = len(held) + sum(role.ended for role in job.roles) >= sum(role.replicas for role in job.roles)
    return None if full or any(task.leaving for task in held) else GrowableJob.of_job(job, held)


class JobGrowth:
    """Lets jobs that run grow into idle room, one task or step at a time."""

    def __init__(self, session: Session, attempt: StartAttempt, bounds: SlotBounds) -> None:
        self._session, self._attempt, self._bounds = session, attempt, bounds
        past_waiting = session.config.housekeeping.grow_past_waiting
        self._kept = frozenset[str]() if past_waiting else _wanted(session)
        self._grown: dict[str, list[Allocation]] = {}

    def grow_jobs(self) -> None:
        """All who can, in their order, until as many tasks were added as a cycle may add."""
        session, snapshot = self._session, self._session.snapshot
        heap = [(grower.rank, grower) for grower in self._roomy_ones() if self._may(grower)]
        heapq.heapify(heap)
        most = session.config.housekeeping.grown_per_cycle
        while heap and (most is None or sum(map(len, self._grown.values())) < most):
            _, grower = heapq.heappop(heap)
            if not self._grow(grower):
                continue
            larger = GrowableJob.of_job(grower.job, snapshot.held(grower.job.id))
            if larger is not None and self._kept.isdisjoint(larger.flavors):
                heapq.heappush(heap, (larger.rank, larger))
        for job_id, placed in self._grown.items():
            session.counters["grown"] += len(placed)
            session.decisions.append(Decision(kind=DecisionKind.GROW, job=job_id, allocations=tuple(placed)))

    def _roomy_ones(self) -> Iterator[GrowableJob]:
        """Jobs that run or were admitted in this cycle, of which nobody is leaving, and that lack tasks for
        which there is room: growing only makes it less."""
        session, snapshot = self._session, self._session.snapshot
        admitted = (decision.job for decision in session.decisions if decision.kind is DecisionKind.ADMIT)
        found = (_lacking(session.get_job(job_id), snapshot.held(job_id)) for job_id in admitted)
        kinds = _growers_of(session).follow_changes(snapshot)
        for kind in (*kinds, *((grower,) for grower in found if grower is not None)):
            if self._roomy(kind[0]):
                yield from kind

    def _may(self, grower: GrowableJob) -> bool:
        """Whether nobody who waits comes first; a gang below its minimum waits for nobody."""
        return grower.size == BROKEN or self._kept.isdisjoint(grower.flavors)

    def _roomy(self, grower: GrowableJob) -> bool:
        queue = self._session.snapshot.queues[grower.job.queue]
        _, wanted = self._bounds.locate_missing(queue, grower.job, grower.missing)
        return wanted is None or self._bounds.fits_now(wanted)

    def _grow(self, grower: GrowableJob) -> bool:
        """One step of one job."""
        queue = self._session.snapshot.queues[grower.job.queue]
        if not self._roomy(grower):
            return False
        with self._session.snapshot.statement() as statement:
            seats = self._attempt.start_job(statement, queue, grower.job, grower.missing)
            if isinstance(seats, Refusal) or not seats:
                return False
            statement.commit()
        self._grown.setdefault(grower.job.id, []).extend(seats)
        return True


def _wanted(session: Session) -> frozenset[str]:
    """The flavors that a waiting job could be given."""
    flavors: set[str] = set()
    for queue in session.sorted_queues():
        if queue.stop_policy is not StopPolicy.NONE:
            continue
        for job_id in session.pending_jobs(queue):
            known = session.outcomes.get(job_id)
            if session.get_job(job_id).state is not JobState.QUEUED:
                continue
            if known is not None and (known.reason is None or known.reason in REASONS_ROOM_NEVER_HELPS):
                continue
            flavors.update(name for group in queue.groups for name in group.flavors)
            break
    return frozenset(flavors)
