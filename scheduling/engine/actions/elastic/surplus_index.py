"""This module indexes the surplus of elastic jobs by queue, kept from cycle to cycle.

Only queues in which an elastic job changed are examined again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from scheduling.engine.gang.bounds import FreedAmounts
from scheduling.engine.gang.task_counts import find_surplus_tasks, is_gang_complete
from scheduling.engine.model import Allocation, FlavorResource, Job
from scheduling.engine.preemption.eviction_cost import sum_charges
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.snapshot import Snapshot

SurplusByJob = list[tuple[Job, Sequence[Allocation]]]


class SurplusTasks:
    """Surplus tasks in the order in which they would end, and the capacity that they would free."""

    def __init__(self, fleet: Fleet, tasks: Sequence[Allocation]) -> None:
        self.tasks, self.freed = tasks, FreedAmounts.of_tasks(fleet, tasks)

    @cached_property
    def charged(self) -> Mapping[FlavorResource, int]:
        """The charges of all these tasks."""
        return sum_charges(self.tasks)


class SurplusIndex:
    """The surplus of a snapshot's queues."""

    def __init__(self) -> None:
        self._jobs_by_queue: dict[str, SurplusByJob] = {}
        self._surplus: dict[str, dict[int, SurplusTasks]] = {}
        self._queues: dict[str, str] = {}
        self._surplus_by_job: dict[str, Sequence[Allocation]] = {}
        self._rows: Mapping[str, int] | None = None
        self._seen = -1

    def follow_changes(self, snapshot: Snapshot) -> None:
        """Drop what has changed since the last call."""
        changed = (
            None if self._rows is not snapshot.fleet.row else snapshot.job_changes.jobs_since(self._seen)
        )
        self._seen, self._rows = snapshot.job_changes.number, snapshot.fleet.row
        if changed is None:
            for known in (self._jobs_by_queue, self._surplus, self._queues, self._surplus_by_job):
                known.clear()
            return
        for job_id in changed:
            self._surplus_by_job.pop(job_id, None)
            self._forget(self._queues.pop(job_id, None))
            job = snapshot.jobs.get(job_id)
            if job is not None and job_id in snapshot.live_jobs.elastic[job.queue]:
                self._forget(job.queue)

    def find_surplus(self, snapshot: Snapshot, queue_id: str, priority: int) -> SurplusTasks:
        """Return the surplus of a queue's jobs that a pending job of this priority may take.

        Jobs of lower priority release first, then the newest.
        """
        known = self._surplus.setdefault(queue_id, {})
        found = known.get(priority)
        if found is None:
            owners = self._jobs_by_queue.get(queue_id)
            if owners is None:
                owners = self._jobs_by_queue[queue_id] = self._list_jobs(snapshot, queue_id)
            tasks = [
                task
                for owner, surplus_tasks in owners
                if owner.priority <= priority
                for task in surplus_tasks
            ]
            found = known[priority] = SurplusTasks(snapshot.fleet, tasks)
        return found

    def _forget(self, queue_id: str | None) -> None:
        if queue_id is not None:
            self._jobs_by_queue.pop(queue_id, None)
            self._surplus.pop(queue_id, None)

    def _list_jobs(self, snapshot: Snapshot, queue_id: str) -> SurplusByJob:
        found: SurplusByJob = []
        for job_id in snapshot.live_jobs.elastic[queue_id]:
            job = snapshot.jobs[job_id]
            if job.preemptible and (surplus_tasks := self._surplus_of_job(job, snapshot)):
                found.append((job, surplus_tasks))
                self._queues[job_id] = queue_id
        return sorted(found, key=lambda pair: (pair[0].priority, -pair[0].submitted_at, pair[0].id))

    def _surplus_of_job(self, job: Job, snapshot: Snapshot) -> Sequence[Allocation]:
        known = self._surplus_by_job.get(job.id)
        if known is None:
            held = snapshot.allocations_of(job.id)
            known = self._surplus_by_job[job.id] = (
                find_surplus_tasks(job, held) if held and is_gang_complete(job, held) else ()
            )
        return known


def surplus_index_of(snapshot: Snapshot) -> SurplusIndex:
    """Return the up-to-date surplus of a snapshot."""
    known = snapshot.job_caches.get(SurplusIndex)
    if not isinstance(known, SurplusIndex):
        known = snapshot.job_caches[SurplusIndex] = SurplusIndex()
    known.follow_changes(snapshot)
    return known
