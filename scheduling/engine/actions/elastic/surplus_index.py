"""This module lists the surplus of elastic jobs by queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from scheduling.engine.gang.bounds import FreedAmounts
from scheduling.engine.gang.task_counts import find_surplus_tasks, is_gang_complete
from scheduling.engine.model import Allocation, FlavorResource, Job
from scheduling.engine.state.charges import sum_task_charges
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
        return sum_task_charges(self.tasks)


class SurplusIndex:
    """The surplus of a snapshot's queues at one moment; that of a queue is looked up at its first use."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._jobs_by_queue: dict[str, SurplusByJob] = {}
        self._surplus: dict[tuple[str, int], SurplusTasks] = {}

    def find_surplus(self, queue_id: str, priority: int) -> SurplusTasks:
        """Return the surplus of a queue's jobs that a pending job of this priority may take.

        Jobs of lower priority release first, then the newest.
        """
        known = self._surplus.get((queue_id, priority))
        if known is None:
            if queue_id not in self._jobs_by_queue:
                self._jobs_by_queue[queue_id] = self._list_jobs(queue_id)
            tasks = [
                task
                for owner, surplus_tasks in self._jobs_by_queue[queue_id]
                if owner.priority <= priority
                for task in surplus_tasks
            ]
            known = self._surplus[queue_id, priority] = SurplusTasks(self._snapshot.fleet, tasks)
        return known

    def _list_jobs(self, queue_id: str) -> SurplusByJob:
        snapshot, found = self._snapshot, list[tuple[Job, Sequence[Allocation]]]()
        for job_id in snapshot.live_jobs.elastic[queue_id]:
            job, held = snapshot.jobs[job_id], snapshot.allocations_of(job_id)
            if job.preemptible and held and is_gang_complete(job, held):
                found.append((job, find_surplus_tasks(job, held)))
        return sorted(found, key=lambda pair: (pair[0].priority, -pair[0].submitted_at, pair[0].id))
