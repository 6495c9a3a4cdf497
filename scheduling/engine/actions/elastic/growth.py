"""This module grows running gangs that lack tasks into idle capacity."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.bounds import SlotBounds
from scheduling.engine.gang.task_counts import find_missing_tasks, find_surplus_tasks, is_gang_complete
from scheduling.engine.model import Allocation, Decision, DecisionKind, Job, JobState, Reason, StopPolicy
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.session import Session

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


def _group_growable_jobs(session: Session) -> Iterator[list[GrowableJob]]:
    """Yield the running jobs that lack tasks, in groups.

    The jobs of one group lack the same tasks in the same flavors, so there are slots for all of them or for
    none.
    """
    snapshot, groups = session.snapshot, defaultdict[Hashable, list[GrowableJob]](list)
    for job_id in snapshot.find_incomplete_jobs():
        job, held = snapshot.jobs[job_id], snapshot.allocations_of(job_id)
        if not any(task.queue == job.queue for task in held):
            continue
        growable = _growable_job(job, held)
        if growable is not None:
            queue, needs = snapshot.queues[job.queue], tuple(growable.missing.items())
            key = session.equivalence.class_of(job), needs, queue.flavors, queue.resource_groups
            groups[key].append(growable)
    yield from groups.values()


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
        past_waiting = session.config.elastic.grow_past_waiting
        self._reserved_flavors = frozenset[str]() if past_waiting else _wanted_flavors(session)
        self._grown: dict[str, list[Allocation]] = {}

    def grow_jobs(self) -> None:
        """Grow all jobs that can, in their order, up to the number of tasks that a cycle may add."""
        session, snapshot = self._session, self._session.snapshot
        heap = [(growable.rank, growable) for growable in self._candidates() if self._may_grow(growable)]
        heapq.heapify(heap)
        most = session.config.elastic.max_growth_per_cycle
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
        alone = ([growable] for growable in found if growable is not None)
        for group in (*_group_growable_jobs(session), *alone):
            if self._has_slots(group[0]):
                yield from group

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
