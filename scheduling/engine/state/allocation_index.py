"""Allocations by job, by queue and by node.

A cycle makes thousands of changes and undoes them, while the tasks of nodes and queues are read rarely. These
follow the changes when they are read; a change that is undone before costs them nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Set
from typing import TypeVar

from scheduling.engine.model import Allocation

K = TypeVar("K", bound=Hashable)
Step = tuple[bool, Allocation]
"""An allocation that was added (True) or removed (False)."""


class AllocationIndex:
    """The index of the allocations of one ledger."""

    def __init__(self, allocations: Iterable[Allocation]) -> None:
        self._by_job: dict[str, dict[str, Allocation]] = {}
        self._sorted: dict[str, tuple[Allocation, ...]] = {}
        # Changes that the parts below lack.
        self._unread: list[Step] = []
        self._leaving: dict[str, None] = {}
        self._jobs_by_queue: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._task_counts: dict[tuple[str, str], int] = {}
        for allocation in allocations:
            self.record_step((True, allocation))

    def copy(self) -> AllocationIndex:
        """Return an independent copy."""
        twin = AllocationIndex(())
        twin._by_job = {job: dict(held) for job, held in self._by_job.items()}
        twin._unread, twin._sorted = list(self._unread), dict(self._sorted)
        twin._leaving, twin._task_counts = dict(self._leaving), dict(self._task_counts)
        twin._jobs_by_queue.update((queue, dict(jobs)) for queue, jobs in self._jobs_by_queue.items())
        return twin

    # Changes

    def record_step(self, step: Step) -> None:
        """Record a change."""
        self._follow_job(*step)
        self._unread.append(step)

    def undo_step(self, step: Step) -> None:
        """Record that a change was undone; `step` is the object that was recorded."""
        added, allocation = step
        self._follow_job(not added, allocation)
        if self._unread and self._unread[-1] is step:
            self._unread.pop()
        else:
            self._unread.append((not added, allocation))

    # Reading

    def count_tasks(self, job_id: str) -> int:
        """Return how many tasks of a job have an allocation."""
        return len(self._by_job.get(job_id, ()))

    def jobs_with_allocations(self) -> Set[str]:
        """Return the ids of all jobs with an allocation."""
        return self._by_job.keys()

    def allocations_of(self, job_id: str) -> tuple[Allocation, ...]:
        """Return the allocations of a job, sorted by id."""
        known = self._sorted.get(job_id)
        if known is None:
            held = self._by_job.get(job_id)
            if held is None:
                return ()
            order = map(held.__getitem__, sorted(held)) if len(held) > 1 else held.values()
            known = self._sorted[job_id] = tuple(order)
        return known

    def jobs_charged_to(self, queue_id: str) -> tuple[str, ...]:
        """Return the ids of the jobs that are charged to a queue, sorted."""
        if self._unread:
            self._read_changes()
        return tuple(sorted(self._jobs_by_queue.get(queue_id, ())))

    def count_tasks_on(self, node_id: str, queue_id: str) -> int:
        """Return how many tasks on a node are charged to a queue."""
        if self._unread:
            self._read_changes()
        return self._task_counts.get((node_id, queue_id), 0)

    def leaving_ids(self) -> Set[str]:
        """Return the ids of the allocations that are leaving by themselves."""
        if self._unread:
            self._read_changes()
        return self._leaving.keys()

    def _follow_job(self, added: bool, allocation: Allocation) -> None:
        job_id = allocation.job
        self._sorted.pop(job_id, None)
        held = self._by_job.get(job_id)
        if added:
            if held is None:
                self._by_job[job_id] = {allocation.id: allocation}
            else:
                held[allocation.id] = allocation
        elif held is not None:
            del held[allocation.id]
            if not held:
                del self._by_job[job_id]

    def _read_changes(self) -> None:
        unread, self._unread = self._unread, []
        for added, allocation in unread:
            _count(self._task_counts, (allocation.node, allocation.queue), added=added)
            _count(self._jobs_by_queue[allocation.queue], allocation.job, added=added)
            if allocation.leaving and added:
                self._leaving[allocation.id] = None
            elif allocation.leaving:
                self._leaving.pop(allocation.id, None)


def _count(counts: dict[K, int], key: K, *, added: bool) -> None:
    count = counts.get(key, 0) + (1 if added else -1)
    if count:
        counts[key] = count
    else:
        del counts[key]
