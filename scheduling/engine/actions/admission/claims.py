"""Promises of earlier cycles, looked at before anything else.

A claim whose leavers are gone is kept: the job starts, in the promised place where that still holds. One
that still waits keeps its quota and its places booked against everybody but a job of the same queue that
goes before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from quotas.tree import is_at_least
from scheduling.engine.actions.admission.entry import awaits
from scheduling.engine.model import Allocation, Claim, Job, JobState, Outcome, Queue, StopPolicy
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import summed
from scheduling.engine.state.snapshot import Snapshot


class Claims:
    """The claims of one cycle that count: unexpired, of jobs that wait in open queues."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._booked: dict[str, Claim] = {}

    def due(self) -> list[tuple[Claim, Job, Queue]]:
        """Claims for which nobody is waited for any more, those of higher-ranked jobs first."""
        counted = [found for found in self._counted() if not self._leaving(found[0])]
        return sorted(counted, key=lambda found: self._rank(found[1], found[2]))

    def book(self) -> list[Outcome]:
        """Hold what the others were promised; the outcomes of their jobs."""
        outcomes = []
        waiting = [found for found in self._counted() if self._leaving(found[0])]
        for claim, job, _ in sorted(waiting, key=lambda found: self._rank(found[1], found[2])):
            for allocation in claim.allocations:
                self._snapshot.take(allocation)
            self._booked[job.id] = claim
            leaving = self._leaving(claim)
            jobs = {self._snapshot.allocations[key].job for key in leaving}
            outcomes.append(awaits(job, len(leaving), len(jobs)))
        return outcomes

    def __bool__(self) -> bool:
        """Whether anything is booked."""
        return bool(self._booked)

    def behind(self, queue: Queue, job: Job) -> tuple[str, ...]:
        """The jobs with booked claims of the same queue that a job goes before."""
        own = self._rank(job, queue)
        return tuple(
            holder
            for holder in self._booked
            if self._snapshot.holds(holder)
            and self._snapshot.jobs[holder].queue == queue.id
            and own < self._rank(self._snapshot.jobs[holder], queue)
        )

    @contextmanager
    def without(self, holders: tuple[str, ...]) -> Iterator[None]:
        """The snapshot without some booked claims. Afterwards those that still hold are booked again."""
        for holder in holders:
            for allocation in self._booked[holder].allocations:
                self._snapshot.give_back(allocation.id)
        try:
            yield
        finally:
            for holder in holders:
                self._rebook(holder)

    def lost(self) -> tuple[str, ...]:
        """The jobs whose booked claims were taken over."""
        return tuple(sorted(job for job in self._booked if not self._snapshot.holds(job)))

    def _rebook(self, holder: str) -> None:
        claim = self._booked[holder]
        gone = frozenset(self._leaving(claim))
        if stands(self._snapshot, claim.allocations, without=gone):
            for allocation in claim.allocations:
                self._snapshot.take(allocation)

    def _counted(self) -> Iterator[tuple[Claim, Job, Queue]]:
        for job_id in sorted(self._snapshot.claims):
            claim = self._snapshot.claims[job_id]
            job = self._snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.QUEUED or claim.until <= self._session.now:
                continue
            queue = self._snapshot.queues.get(job.queue)
            opened = queue is not None and queue.stop_policy is StopPolicy.NONE
            if queue is not None and opened and not self._snapshot.holds(job_id):
                yield claim, job, queue

    def _leaving(self, claim: Claim) -> tuple[str, ...]:
        """Those that the claim waits for. A task that came back, here or elsewhere, is not one of them."""
        found = ((key, self._snapshot.allocations.get(key)) for key in claim.leaving)
        return tuple(key for key, task in found if task is not None and self._goes(task))

    def _goes(self, task: Allocation) -> bool:
        job = self._snapshot.jobs.get(task.job)
        return task.leaving or job is None or job.state is JobState.LEAVING

    def _rank(self, job: Job, queue: Queue) -> tuple[object, ...]:
        return (*self._session.job_key(queue)(job),)


def stands(
    snapshot: Snapshot, allocations: tuple[Allocation, ...], without: frozenset[str] = frozenset()
) -> bool:
    """Whether these could be held, quota and places, with some others gone. Changes nothing."""
    with snapshot.statement() as statement:
        for key in sorted(without):
            statement.release(key)
        if not _quota_holds(snapshot, allocations):
            return False
        for allocation in allocations:
            if allocation.node and allocation.node not in snapshot.fleet.row:
                return False
            statement.allocate(allocation)
        rows = sorted({snapshot.fleet.row[a.node] for a in allocations if a.node})
        return all(_row_holds(snapshot, row) for row in rows)


def _quota_holds(snapshot: Snapshot, allocations: tuple[Allocation, ...]) -> bool:
    if not allocations:
        return True
    leaf = snapshot.queues[allocations[0].queue].quota_node
    asked = summed(charge for allocation in allocations for charge in allocation.charges)
    return all(is_at_least(snapshot.quota.available(leaf, key), amount) for key, amount in asked.items())


def _row_holds(snapshot: Snapshot, row: int) -> bool:
    fleet = snapshot.fleet
    if not (fleet.ready[row] and fleet.schedulable[row]):
        return False
    if fleet.cpu_free[row] < 0 or fleet.memory_free[row] < 0:
        return False
    cards = (fleet.cores_free[row] >= 0) & (fleet.card_memory_free[row] >= 0)
    alone = ~fleet.exclusive[row] | (fleet.holders[row] <= 1)
    return bool(np.all((cards & alone & fleet.healthy[row]) | (fleet.holders[row] == 0)))
