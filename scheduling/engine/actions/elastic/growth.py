"""This module grows running gangs that lack tasks into idle capacity."""

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

# Capacity does not help jobs with these reasons, so they keep no job from growing.
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

    `size` distinguishes gangs below their minimum from those at it and those above; `flavors` are those of
    its tasks.
    """

    job: Job
    missing: dict[str, int]
    size: int
    flavors: frozenset[str]

    @staticmethod
    def of_job(job: Job, held: Sequence[Allocation]) -> GrowableJob | None:
        """Return the job with its missing tasks, or None for a job of full size."""
        more = find_missing_tasks(job, held)
        if not more:
            return None
        size = (
            (LARGER if find_surplus_tasks(job, held) else SMALLEST) if is_gang_complete(job, held) else BROKEN
        )
        return GrowableJob(job, more, size, frozenset(task.flavor for task in held))

    @property
    def rank(self) -> tuple[int, int, float, str]:
        """The order of growth: higher priority first, then the smaller gangs, then the older."""
        return (-self.job.priority, self.size, self.job.submitted_at, self.job.id)


class GrowableJobIndex:
    """The running jobs of a snapshot that lack tasks, kept from cycle to cycle.

    They are grouped: jobs of one group lack the same tasks in the same flavors, so there are slots for all of
    them or for none.
    """

    def __init__(self, equivalence: EquivalenceClasses, queues: Sequence[Queue]) -> None:
        self._equivalence, self._queues = equivalence, queues
        self._groups: dict[Hashable, dict[str, GrowableJob]] = {}
        self._group_of_job: dict[str, Hashable] = {}
        self._seen = -1

    def is_stale(self, equivalence: EquivalenceClasses, queues: Sequence[Queue]) -> bool:
        """Return whether equivalence classes were numbered anew since, or queues changed."""
        return equivalence is not self._equivalence or queues != self._queues

    def follow_changes(self, snapshot: Snapshot) -> list[Sequence[GrowableJob]]:
        """Return all groups as the snapshot shows them now."""
        changed = None if self._seen < 0 else snapshot.job_changes.jobs_since(self._seen)
        self._seen = snapshot.job_changes.number
        if changed is None:
            self._groups.clear()
            self._group_of_job.clear()
            changed = snapshot.find_incomplete_jobs()
        for job_id in changed:
            self._drop(job_id)
            job = snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.LIVE:
                continue
            held = snapshot.allocations_of(job_id)
            growable = _growable_job(job, held) if any(task.queue == job.queue for task in held) else None
            if growable is not None:
                self._add(growable, snapshot.queues[job.queue])
        return [tuple(group_key.values()) for group_key in self._groups.values()]

    def _add(self, growable: GrowableJob, queue: Queue) -> None:
        needs = (self._equivalence.class_of(growable.job), *growable.missing.items())
        group_key = (needs, queue.flavors, queue.resource_groups)
        self._groups.setdefault(group_key, {})[growable.job.id] = growable
        self._group_of_job[growable.job.id] = group_key

    def _drop(self, job_id: str) -> None:
        group_key = self._group_of_job.pop(job_id, None)
        if group_key is not None:
            del self._groups[group_key][job_id]
            if not self._groups[group_key]:
                del self._groups[group_key]


def _growable_index_of(session: Session) -> GrowableJobIndex:
    queues, snapshot = list(session.snapshot.queues.values()), session.snapshot
    known = snapshot.job_caches.get(GrowableJobIndex)
    if not isinstance(known, GrowableJobIndex) or known.is_stale(session.equivalence, queues):
        known = snapshot.job_caches[GrowableJobIndex] = GrowableJobIndex(session.equivalence, queues)
    return known


def _growable_job(job: Job, held: Sequence[Allocation]) -> GrowableJob | None:
    """Return the job with its missing tasks; None also while a task of the job is terminating, while its
    cards are idle, and for a job whose kind does not grow."""
    if job.idle_since is not None or not job.grows:
        return None
    full = len(held) + sum(role.ended for role in job.roles) >= sum(role.replicas for role in job.roles)
    return None if full or any(task.leaving for task in held) else GrowableJob.of_job(job, held)


class JobGrowth:
    """Grows running jobs into idle capacity, one task or step at a time."""

    def __init__(self, session: Session, attempt: StartAttempt, bounds: SlotBounds) -> None:
        self._session, self._attempt, self._bounds = session, attempt, bounds
        past_waiting = session.config.housekeeping.grow_past_waiting
        self._reserved_flavors = frozenset[str]() if past_waiting else _wanted_flavors(session)
        self._grown: dict[str, list[Allocation]] = {}

    def grow_jobs(self) -> None:
        """Grow all jobs that can, in their order, up to the number of tasks that a cycle may add."""
        session, snapshot = self._session, self._session.snapshot
        heap = [(growable.rank, growable) for growable in self._candidates() if self._may_grow(growable)]
        heapq.heapify(heap)
        most = session.config.housekeeping.max_growth_per_cycle
        while heap and (most is None or sum(map(len, self._grown.values())) < most):
            _, growable = heapq.heappop(heap)
            if not self._grow_step(growable):
                continue
            next_step = GrowableJob.of_job(growable.job, snapshot.allocations_of(growable.job.id))
            if next_step is not None and self._reserved_flavors.isdisjoint(next_step.flavors):
                heapq.heappush(heap, (next_step.rank, next_step))
        for job_id, placed in self._grown.items():
            session.counters["grown"] += len(placed)
            session.decisions.append(Decision(kind=DecisionKind.GROW, job=job_id, allocations=tuple(placed)))

    def _candidates(self) -> Iterator[GrowableJob]:
        """Yield jobs that run or were admitted in this cycle, have no terminating tasks, and lack tasks for
        which there are slots.

        Growth only takes slots, so a job without slots at first has none later.
        """
        session, snapshot = self._session, self._session.snapshot
        admitted = (decision.job for decision in session.decisions if decision.kind is DecisionKind.ADMIT)
        found = (
            _growable_job(session.get_job(job_id), snapshot.allocations_of(job_id)) for job_id in admitted
        )
        all_groups = _growable_index_of(session).follow_changes(snapshot)
        for group_key in (*all_groups, *((growable,) for growable in found if growable is not None)):
            if self._has_slots(group_key[0]):
                yield from group_key

    def _may_grow(self, growable: GrowableJob) -> bool:
        """Return whether no pending job comes first and the job's pause is over; a gang below its minimum
        waits for neither."""
        if growable.size == BROKEN:
            return True
        after = growable.job.grow_after
        rested = after is None or after <= self._session.now
        return rested and self._reserved_flavors.isdisjoint(growable.flavors)

    def _has_slots(self, growable: GrowableJob) -> bool:
        queue = self._session.snapshot.queues[growable.job.queue]
        _, wanted = self._bounds.locate_missing(queue, growable.job, growable.missing)
        return wanted is None or self._bounds.fits_now(wanted)

    def _grow_step(self, growable: GrowableJob) -> bool:
        """Grow one job by one step, and return whether it grew."""
        queue = self._session.snapshot.queues[growable.job.queue]
        if not self._has_slots(growable):
            return False
        with self._session.snapshot.statement() as statement:
            allocations = self._attempt.start_job(statement, queue, growable.job, growable.missing)
            if isinstance(allocations, Refusal) or not allocations:
                return False
            statement.commit()
        self._grown.setdefault(growable.job.id, []).extend(allocations)
        return True


def _wanted_flavors(session: Session) -> frozenset[str]:
    """Return the flavors that pending jobs could be given."""
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
            flavors.update(name for group in queue.effective_groups for name in group.flavors)
            break
    return frozenset(flavors)
