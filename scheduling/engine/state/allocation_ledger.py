"""The allocations at one moment, with the usage of nodes, cards and quota that follows from them.

To add and to remove an allocation are exact inverses, so that a simulation is undone step by step from `log`,
where a copy of everything would cost milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import NamedTuple

from quotas.tree import QuotaTree
from scheduling.engine.model import Allocation, FlavorResource, Job, Queue
from scheduling.engine.state.allocation_index import AllocationIndex, Step
from scheduling.engine.state.charges import sum_charges_cached
from scheduling.engine.state.fleet import Fleet, TaskUsage
from scheduling.engine.state.pod_index import PodInfo, find_pod_info

# The entries that are kept beside those of present allocations.
MAX_CACHED = 1024


class SnapshotError(ValueError):
    """Parts of a snapshot contradict each other; the message names them."""


class AllocationEntry(NamedTuple):
    """The usage of fleet and quota tree by one allocation of a job, computed once.

    `leaf` is the quota node that is charged. `row` and `node_usage` are None if the node is not known.
    """

    allocation: Allocation
    job: Job | None
    leaf: str
    quota_usage: Mapping[FlavorResource, int]
    row: int | None
    node_usage: TaskUsage | None
    pod: PodInfo | None


class AllocationLedger:
    """The mutable part of a snapshot. `jobs` and `queues` are the snapshot's own, live mappings.

    Usage of the fleet and of the quota tree includes the allocations. `log` has every added (True) and every
    removed (False) allocation since the outermost statement began; outside of a statement nothing is logged.
    """

    def __init__(
        self,
        fleet: Fleet,
        quota: QuotaTree[FlavorResource],
        allocations: Iterable[Allocation],
        *,
        jobs: Mapping[str, Job],
        queues: Mapping[str, Queue],
    ) -> None:
        self.fleet = fleet
        self.quota = quota
        self.allocations = {allocation.id: allocation for allocation in allocations}
        self.index = AllocationIndex(self.allocations[key] for key in sorted(self.allocations))
        self.log: list[Step] = []
        self._jobs, self._queues = jobs, queues
        self._entries: dict[str, AllocationEntry] = {}
        self._register_tasks()

    def copy(self) -> AllocationLedger:
        """Return an independent copy."""
        twin = copy(self)
        twin.fleet, twin.quota, twin.index = self.fleet.copy(), self.quota.copy(), self.index.copy()
        twin.allocations, twin.log = dict(self.allocations), list(self.log)
        return twin

    # Changes of allocations

    def add_allocation(self, allocation: Allocation, *, logged: bool) -> None:
        """Allocate node, cards and quota to a task.

        Raises:
            SnapshotError: when the task already has an allocation, or its queue does not exist.
        """
        if allocation.id in self.allocations:
            raise SnapshotError(f"{allocation.id} already has an allocation")
        self._take_step((True, allocation), logged=logged)

    def remove_allocation(self, allocation: Allocation, *, logged: bool) -> None:
        """Release what a task is allocated."""
        self._take_step((False, allocation), logged=logged)

    def undo_to(self, mark: int) -> None:
        """Undo every step that was logged after the first `mark` steps."""
        while len(self.log) > mark:
            step = added, allocation = self.log.pop()
            self._change_usage(allocation, added=not added)
            self.index.undo_step(step)

    def forget_undone(self) -> None:
        """Clear the log when the outermost statement has ended, after which nothing of it can be undone."""
        self.log.clear()
        if len(self._entries) > MAX_CACHED + 2 * len(self.allocations):
            self._entries.clear()

    def replay_steps(self, steps: Iterable[Step], *, logged: bool) -> None:
        """Repeat the steps of another ledger, except those whose result is there already."""
        for added, allocation in steps:
            known = self.allocations.get(allocation.id)
            if added and known is None:
                self.add_allocation(allocation, logged=logged)
            elif not added and known is not None:
                self.remove_allocation(known, logged=logged)

    def _take_step(self, step: Step, *, logged: bool) -> None:
        self._change_usage(step[1], added=step[0])
        self.index.record_step(step)
        if logged:
            self.log.append(step)

    def _change_usage(self, allocation: Allocation, *, added: bool) -> None:
        """Add or remove an allocation with its usage of fleet and quota."""
        task = allocation.id
        _, _, leaf, quota_usage, row, node_usage, pod = self._entry_of(task, allocation)
        sign = 1 if added else -1
        self.quota.defer_usage(leaf, quota_usage, sign)
        if row is not None and node_usage is not None:
            self.fleet.add_usage(row, node_usage, sign)
        if added:
            self.allocations[task] = allocation
        else:
            del self.allocations[task]
        if pod is not None and row is not None:
            pods = self.fleet.pod_index
            pods.add_pod(task, row, pod) if added else pods.remove_pod(task)

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
        for allocation in self.index.allocations_of(job_id):
            self.fleet.pod_index.remove_pod(allocation.id)
            self._add_pod(allocation)

    def _register_tasks(self) -> None:
        """Register the placed tasks in a new fleet, whose amounts include them already."""
        for allocation in self.allocations.values():
            row = self.fleet.row.get(allocation.node)
            if row is not None:
                self.fleet.count_task_class(row, self._usage_of(row, allocation))
            self._add_pod(allocation)

    def _entry_of(self, task: str, allocation: Allocation) -> AllocationEntry:
        known, job = self._entries.get(task), self._jobs.get(allocation.job)
        if known is not None and known.allocation is allocation and known.job is job:
            return known
        leaf, usage = self._leaf_of(allocation), sum_charges_cached(allocation.charges)
        row, pod = self.fleet.row.get(allocation.node), self._find_pod_info(allocation)
        node_usage = None if row is None else self._usage_of(row, allocation)
        known = self._entries[task] = AllocationEntry(allocation, job, leaf, usage, row, node_usage, pod)
        return known

    def _usage_of(self, row: int, allocation: Allocation) -> TaskUsage:
        return self.fleet.usage_of(
            row,
            allocation.cpu,
            allocation.memory,
            allocation.slices,
            allocation.extended,
            allocation.zones,
        )

    def _add_pod(self, allocation: Allocation) -> None:
        row, pod = self.fleet.row.get(allocation.node), self._find_pod_info(allocation)
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

    def _leaf_of(self, allocation: Allocation) -> str:
        queue = self._queues.get(allocation.queue)
        if queue is None:
            raise SnapshotError(
                f"{allocation.id} is charged to the queue {allocation.queue}, which does not exist"
            )
        return queue.quota_node
