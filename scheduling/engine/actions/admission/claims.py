"""This module processes the claims of earlier cycles, before any other job is evaluated.

A claim whose awaited tasks have all ended is ready: the job starts, at the claimed placement if that is still
free. One that still waits keeps its quota and its nodes booked against all jobs but those of the same queue
that come before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from quotas.tree import is_at_least
from scheduling.engine.actions.admission.nominated_job import claim_outcome
from scheduling.engine.model import Allocation, Claim, Job, JobOutcome, JobState, Queue, StopPolicy
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import sum_charges
from scheduling.engine.state.snapshot import Snapshot


class ActiveClaims:
    """The claims of one cycle that count: unexpired, of pending jobs in open queues."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._booked: dict[str, Claim] = {}

    def ready_claims(self) -> list[tuple[Claim, Job, Queue]]:
        """Return the claims that wait for no task any more, in the order of their jobs."""
        counted = [found for found in self._active() if not self._awaited(found[0])]
        return sorted(counted, key=lambda found: self._order(found[1], found[2]))

    def allocate_pending(self) -> list[JobOutcome]:
        """Allocate what the other claims hold, and return the outcomes of their jobs."""
        outcomes = []
        waiting = [found for found in self._active() if self._awaited(found[0])]
        for claim, job, _ in sorted(waiting, key=lambda found: self._order(found[1], found[2])):
            for allocation in claim.allocations:
                self._snapshot.add_allocation(allocation)
            self._booked[job.id] = claim
            awaited = self._awaited(claim)
            jobs = {self._snapshot.allocations[key].job for key in awaited}
            outcomes.append(claim_outcome(job, len(awaited), len(jobs)))
        return outcomes

    def __bool__(self) -> bool:
        """Return whether a claim is booked."""
        return bool(self._booked)

    def claims_behind(self, queue: Queue, job: Job) -> tuple[str, ...]:
        """Return the jobs with booked claims of the same queue that come after a job."""
        own = self._order(job, queue)
        return tuple(
            holder
            for holder in self._booked
            if self._snapshot.count_tasks(holder)
            and self._snapshot.jobs[holder].queue == queue.id
            and own < self._order(self._snapshot.jobs[holder], queue)
        )

    @contextmanager
    def without_claims(self, holders: tuple[str, ...]) -> Iterator[None]:
        """Remove some booked claims from the snapshot until the block ends; then book what still fits."""
        for holder in holders:
            for allocation in self._booked[holder].allocations:
                self._snapshot.remove_allocation(allocation.id)
        try:
            yield
        finally:
            for holder in holders:
                self._rebook(holder)

    def lost_claims(self) -> tuple[str, ...]:
        """Return the jobs whose booked claims were taken over."""
        return tuple(sorted(job for job in self._booked if not self._snapshot.count_tasks(job)))

    def _rebook(self, holder: str) -> None:
        claim = self._booked[holder]
        released = frozenset(self._awaited(claim))
        if can_hold(self._snapshot, claim.allocations, without=released):
            for allocation in claim.allocations:
                self._snapshot.add_allocation(allocation)

    def _active(self) -> Iterator[tuple[Claim, Job, Queue]]:
        for job_id in sorted(self._snapshot.claims):
            claim = self._snapshot.claims[job_id]
            job = self._snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.QUEUED or claim.until <= self._session.now:
                continue
            queue = self._snapshot.queues.get(job.queue)
            opened = queue is not None and queue.stop_policy is StopPolicy.NONE
            if queue is not None and opened and not self._snapshot.count_tasks(job_id):
                yield claim, job, queue

    def _awaited(self, claim: Claim) -> tuple[str, ...]:
        """Return the tasks that the claim waits for. A task that was placed again is not one of them."""
        found = ((key, self._snapshot.allocations.get(key)) for key in claim.leaving)
        return tuple(key for key, task in found if task is not None and self._is_terminating(task))

    def _is_terminating(self, task: Allocation) -> bool:
        job = self._snapshot.jobs.get(task.job)
        return task.leaving or job is None or job.state is JobState.LEAVING

    def _order(self, job: Job, queue: Queue) -> tuple[object, ...]:
        return (*self._session.job_key(queue)(job),)


def can_hold(
    snapshot: Snapshot, allocations: tuple[Allocation, ...], without: frozenset[str] = frozenset()
) -> bool:
    """Return whether these allocations fit in quota and on nodes with others released; nothing changes."""
    with snapshot.statement() as statement:
        for key in sorted(without):
            statement.release(key)
        if not _quota_suffices(snapshot, allocations):
            return False
        for allocation in allocations:
            if allocation.node and allocation.node not in snapshot.fleet.row:
                return False
            statement.allocate(allocation)
        rows = sorted({snapshot.fleet.row[a.node] for a in allocations if a.node})
        return all(_row_suffices(snapshot, row) for row in rows)


def _quota_suffices(snapshot: Snapshot, allocations: tuple[Allocation, ...]) -> bool:
    if not allocations:
        return True
    leaf = snapshot.queues[allocations[0].queue].quota_node
    asked = sum_charges(charge for allocation in allocations for charge in allocation.charges)
    return all(is_at_least(snapshot.quota.available(leaf, key), amount) for key, amount in asked.items())


def _row_suffices(snapshot: Snapshot, row: int) -> bool:
    fleet = snapshot.fleet
    if not (fleet.ready[row] and fleet.schedulable[row]):
        return False
    if fleet.cpu_free[row] < 0 or fleet.memory_free[row] < 0:
        return False
    cards = (fleet.cores_free[row] >= 0) & (fleet.card_memory_free[row] >= 0)
    alone = ~fleet.exclusive[row] | (fleet.holders[row] <= 1)
    return bool(np.all((cards & alone & fleet.healthy[row]) | (fleet.holders[row] == 0)))
