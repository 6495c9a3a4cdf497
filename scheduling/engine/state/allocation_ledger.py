"""The allocations at one moment, with the usage of nodes, cards and quota that follows from them.

To add and to remove an allocation are exact inverses, so that a simulation is undone step by step from `log`,
where a copy of everything would cost milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from quotas.tree import QuotaTree
from scheduling.engine.model import Allocation, Flavor, FlavorResource, Job, Queue
from scheduling.engine.state.charges import sum_charges_cached
from scheduling.engine.state.fleet import CardUsages, Fleet
from scheduling.engine.state.pod_index import PodInfo, find_pod_info


class SnapshotError(ValueError):
    """Parts of a snapshot contradict each other; the message names them."""


class AllocationEntry(NamedTuple):
    """The usage of fleet and quota tree by one allocation, computed once.

    `leaf` is the quota node that is charged. `row` is None if the node is not known.
    """

    allocation: Allocation
    leaf: str
    quota_usage: Mapping[FlavorResource, int]
    row: int | None = None
    cards: CardUsages = ()
    pod: PodInfo | None = None


LedgerStep = tuple[bool, AllocationEntry]
"""An allocation that was added (True) or removed (False)."""


class AllocationLedger:
    """The mutable part of a snapshot. `jobs`, `queues` and `flavors` are the snapshot's own, live mappings.

    Usage of the fleet and of the quota tree includes the allocations. `log` has the steps since the outermost
    statement began; outside of a statement nothing is logged.
    """

    def __init__(
        self,
        fleet: Fleet,
        quota: QuotaTree[FlavorResource],
        allocations: Iterable[Allocation],
        *,
        jobs: Mapping[str, Job],
        queues: Mapping[str, Queue],
        flavors: Mapping[str, Flavor],
    ) -> None:
        self.fleet = fleet
        self.quota = quota
        self.allocations = {allocation.id: allocation for allocation in allocations}
        self.log: list[LedgerStep] = []
        self.leaving: dict[str, None] = {}
        self._jobs, self._queues, self._flavors = jobs, queues, flavors
        # The entries of allocations that were added or removed, as long as they are there.
        self._entries: dict[str, AllocationEntry] = {}
        self._allocations_by_job: defaultdict[str, dict[str, Allocation]] = defaultdict(dict)
        self._sorted: dict[str, tuple[Allocation, ...]] = {}
        self._jobs_by_queue: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._task_counts: dict[tuple[str, str], int] = {}
        for key in sorted(self.allocations):
            self._index(key, self.allocations[key])
        self._register_tasks()

    def copy(self) -> AllocationLedger:
        """Return an independent copy."""
        twin = object.__new__(AllocationLedger)
        twin._jobs, twin._queues, twin._flavors = self._jobs, self._queues, self._flavors
        twin.fleet, twin.quota = self.fleet.copy(), self.quota.copy()
        twin.allocations, twin.log = dict(self.allocations), list(self.log)
        twin._entries = dict(self._entries)
        twin.leaving, twin._sorted = dict(self.leaving), dict(self._sorted)
        twin._allocations_by_job = defaultdict(
            dict, {job: dict(held) for job, held in self._allocations_by_job.items()}
        )
        twin._jobs_by_queue = defaultdict(
            dict, {queue: dict(jobs) for queue, jobs in self._jobs_by_queue.items()}
        )
        twin._task_counts = self._task_counts.copy()
        return twin

    # Reading

    def count_tasks(self, job_id: str) -> int:
        """Return how many tasks of a job have an allocation."""
        held = self._allocations_by_job.get(job_id)
        return 0 if held is None else len(held)

    def jobs_with_allocations(self) -> Set[str]:
        """Return the ids of all jobs with an allocation."""
        return self._allocations_by_job.keys()

    def allocations_of(self, job_id: str) -> tuple[Allocation, ...]:
        """Return the allocations of a job, sorted by id."""
        known = self._sorted.get(job_id)
        if known is None:
            held = self._allocations_by_job.get(job_id)
            if held is None:
                return ()
            order = map(held.__getitem__, sorted(held)) if len(held) > 1 else held.values()
            known = self._sorted[job_id] = tuple(order)
        return known

    def jobs_charged_to(self, queue_id: str) -> tuple[str, ...]:
        """Return the ids of the jobs that are charged to a queue, sorted."""
        return tuple(sorted(self._jobs_by_queue.get(queue_id, ())))

    def count_tasks_on(self, node_id: str, queue_id: str) -> int:
        """Return how many tasks on a node are charged to a queue."""
        return self._task_counts.get((node_id, queue_id), 0)

    # Changes of allocations

    def add_allocation(self, allocation: Allocation, *, logged: bool) -> LedgerStep:
        """Allocate node, cards and quota to a task.

        Raises:
            SnapshotError: when the task already has an allocation, or its queue does not exist.
        """
        if allocation.id in self.allocations:
            raise SnapshotError(f"{allocation.id} already has an allocation")
        step = True, self._create_entry(allocation)
        self._take(step, logged=logged)
        return step

    def remove_allocation(self, allocation: Allocation, *, logged: bool) -> LedgerStep:
        """Release what a task is allocated."""
        step = False, self._entries.get(allocation.id) or self._create_entry(allocation)
        self._take(step, logged=logged)
        return step

    def undo_to(self, mark: int) -> None:
        """Undo every step that was logged after the first `mark` steps."""
        while len(self.log) > mark:
            added, entry = self.log.pop()
            (self._remove if added else self._add)(entry)

    def replay_steps(self, steps: Iterable[LedgerStep], *, logged: bool) -> None:
        """Repeat the steps of another ledger of the same nodes and quota nodes, except those whose result is
        there already."""
        for added, entry in steps:
            known = self.allocations.get(entry.allocation.id)
            if added and known is None:
                self._take((added, entry), logged=logged)
            elif not added and known is not None:
                self.remove_allocation(known, logged=logged)

    def _take(self, step: LedgerStep, *, logged: bool) -> None:
        added, entry = step
        (self._add if added else self._remove)(entry)
        if logged:
            self.log.append(step)

    def _add(self, entry: AllocationEntry) -> None:
        allocation = entry.allocation
        task = allocation.id
        self._entries[task] = entry
        self.allocations[task] = allocation
        self._index(task, allocation)
        if entry.row is not None:
            self.fleet.change_usage(
                entry.row, allocation.cpu, allocation.memory, entry.cards, allocation.extended
            )
            if entry.pod is not None:
                self.fleet.pod_index.add_pod(task, entry.row, entry.pod)
        self.quota.defer_usage(entry.leaf, entry.quota_usage, 1)

    def _remove(self, entry: AllocationEntry) -> None:
        allocation = entry.allocation
        task = allocation.id
        self._entries.pop(task, None)
        del self.allocations[task]
        self._unindex(task, allocation)
        if entry.row is not None:
            self.fleet.change_usage(
                entry.row, allocation.cpu, allocation.memory, entry.cards, allocation.extended, -1
            )
            if entry.pod is not None:
                self.fleet.pod_index.remove_pod(task)
        self.quota.defer_usage(entry.leaf, entry.quota_usage, -1)

    # Changes of nodes, quota and jobs

    def replace_fleet(self, fleet: Fleet) -> None:
        """Use another fleet, whose usage includes the allocations."""
        self.fleet = fleet
        self._entries.clear()
        self._register_tasks()

    def replace_quota(self, quota: QuotaTree[FlavorResource]) -> None:
        """Use another quota tree, whose usage includes the allocations."""
        self.quota = quota
        self._entries.clear()

    def update_pods_of(self, job_id: str) -> None:
        """Update the facts of a job's placed tasks that affect other tasks, after a change of the job."""
        for allocation in self.allocations_of(job_id):
            self._entries.pop(allocation.id, None)
            self.fleet.pod_index.remove_pod(allocation.id)
            self._add_pod(allocation)

    def _register_tasks(self) -> None:
        """Register the placed tasks in a new fleet, whose amounts include them already."""
        for allocation in self.allocations.values():
            row = self.fleet.row.get(allocation.node)
            if row is not None and allocation.slices:
                self.fleet.count_task_class(row, self.fleet.find_card_usages(row, allocation.slices))
            self._add_pod(allocation)

    def _create_entry(self, allocation: Allocation) -> AllocationEntry:
        leaf, usage = self._leaf_of(allocation), sum_charges_cached(allocation.charges)
        row = self.fleet.row.get(allocation.node)
        if row is None:
            return AllocationEntry(allocation, leaf, usage)
        cards = self.fleet.find_card_usages(row, allocation.slices)
        return AllocationEntry(allocation, leaf, usage, row, cards, self._find_pod_info(allocation))

    def _add_pod(self, allocation: Allocation) -> None:
        row = self.fleet.row.get(allocation.node)
        pod = None if row is None else self._find_pod_info(allocation)
        if row is not None and pod is not None:
            self.fleet.pod_index.add_pod(allocation.id, row, pod)

    def _find_pod_info(self, allocation: Allocation) -> PodInfo | None:
        rules, job = allocation.rules, self._jobs.get(allocation.job)
        if rules is None and job is not None:
            rules = job.rules
            for role in job.roles:
                if role.rules is not None and role.name == allocation.role:
                    rules = role.rules
        return None if rules is None else find_pod_info(rules)

    def _index(self, task: str, allocation: Allocation) -> None:
        if allocation.leaving:
            self.leaving[task] = None
        self._sorted.pop(allocation.job, None)
        self._allocations_by_job[allocation.job][task] = allocation
        self._jobs_by_queue[allocation.queue][allocation.job] = None
        here = (allocation.node, allocation.queue)
        self._task_counts[here] = self._task_counts.get(here, 0) + 1

    def _unindex(self, task: str, allocation: Allocation) -> None:
        if allocation.leaving:
            self.leaving.pop(task, None)
        self._sorted.pop(allocation.job, None)
        here = (allocation.node, allocation.queue)
        others = self._task_counts[here] - 1
        if others:
            self._task_counts[here] = others
        else:
            del self._task_counts[here]
        held = self._allocations_by_job[allocation.job]
        del held[task]
        if not held:
            del self._allocations_by_job[allocation.job]
            del self._jobs_by_queue[allocation.queue][allocation.job]

    def _leaf_of(self, allocation: Allocation) -> str:
        queue = self._queues.get(allocation.queue)
        if queue is None:
            raise SnapshotError(
                f"{allocation.id} is charged to the queue {allocation.queue}, which does not exist"
            )
        return queue.quota_node
