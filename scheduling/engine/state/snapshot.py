"""The snapshot of one cell for one cycle: fleet, flavors, quota, queues, jobs and allocations.

Parts that no simulation changes are plain objects. The mutable part (the allocations and the usage of nodes,
cards and quota) is an `AllocationLedger`, which writes an undo log while a statement is open.

A cycle may read two views: the present one, and the future one, in which all terminations that are under way
have ended. Each view has its own ledger, so that a switch between them costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Set
from dataclasses import dataclass, fields, replace

from foundation.core.quantities import Resource
from quotas.tree import Branch, NodeLimits, QuotaTree
from scheduling.engine.model import (
    EMPTY_WORKLOAD,
    Allocation,
    Charge,
    Claim,
    Flavor,
    FlavorResource,
    GpuMode,
    Job,
    JobState,
    Node,
    Queue,
    QuotaNode,
    TaskWorkload,
    UserUsage,
)
from scheduling.engine.state.allocation_ledger import AllocationLedger, LedgerStep, SnapshotError
from scheduling.engine.state.charges import sum_task_charges
from scheduling.engine.state.codec import CodecError, decode, to_canonical_json
from scheduling.engine.state.delta import (
    AllocationPut,
    AllocationRemoved,
    Change,
    ClaimPut,
    ClaimRemoved,
    Delta,
    FlavorPut,
    JobPut,
    JobRemoved,
    LossPut,
    NodePut,
    NodeRemoved,
    QueuePut,
    QuotaPut,
    UsagePut,
    WorkloadPut,
)
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.job_changes import JobChanges
from scheduling.engine.state.live_jobs import LiveJobIndex
from scheduling.engine.state.pending_jobs import PendingJobs
from scheduling.engine.state.statement import Mark, Statement, StatementError

FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotData:
    """The serialised form: every part, sorted by id."""

    format: int
    nodes: tuple[Node, ...]
    flavors: tuple[Flavor, ...]
    quota_nodes: tuple[QuotaNode, ...]
    queues: tuple[Queue, ...]
    jobs: tuple[Job, ...]
    allocations: tuple[Allocation, ...]
    claims: tuple[Claim, ...] = ()
    usage: tuple[UserUsage, ...] = ()
    lost_ppm: int = 0
    workload: TaskWorkload = EMPTY_WORKLOAD


class Snapshot:
    """A snapshot is built from parts in any order; equal parts give equal snapshots.

    Usage of nodes, cards and quota leaves comes with the nodes and quota nodes and includes the
    `allocations`. `memo` caches what follows from nodes, flavors, queues and limits alone; it is cleared when
    one of them changes. `limits_memo` does not depend on nodes and is not cleared when they change.
    `job_memo` holds caches by job, `job_caches` those of jobs and their allocations that follow
    `job_changes`. `lost_ppm` is the share of the cell's GPU time that preemption lost within `LOSS_WINDOW_S`,
    in millionths, `workload` the mix from which placement policies learn; while it is empty, they learn from
    the jobs of the snapshot.

    Raises:
        SnapshotError: when a queue names a quota node that does not exist, or a node of the tree
            that has children.
        TreeError: when the quota nodes do not form a tree.
    """

    def __init__(
        self,
        *,
        nodes: Iterable[Node] = (),
        flavors: Iterable[Flavor] = (),
        quota_nodes: Iterable[QuotaNode] = (),
        queues: Iterable[Queue] = (),
        jobs: Iterable[Job] = (),
        allocations: Iterable[Allocation] = (),
        claims: Iterable[Claim] = (),
        usage: Iterable[UserUsage] = (),
        lost_ppm: int = 0,
        workload: TaskWorkload = EMPTY_WORKLOAD,
    ) -> None:
        self.lost_ppm = lost_ppm
        self.workload = workload
        self.flavors = {flavor.id: flavor for flavor in sorted(flavors, key=lambda flavor: flavor.id)}
        self.queues = {queue.id: queue for queue in sorted(queues, key=lambda queue: queue.id)}
        self.jobs = {job.id: job for job in jobs}
        self.claims = {claim.job: claim for claim in sorted(claims, key=lambda claim: claim.job)}
        self.usage = {(u.queue, u.user): u for u in sorted(usage, key=lambda u: (u.queue, u.user))}
        self.memo: dict[Hashable, object] = {}
        self.limits_memo: dict[Hashable, object] = {}
        self.job_memo: dict[Hashable, object] = {}
        self._leaving_jobs = {key: None for key, job in self.jobs.items() if job.state is JobState.LEAVING}
        self.job_caches: dict[Hashable, object] = {}
        self.job_changes = JobChanges()
        self.pending_jobs = PendingJobs(self.jobs.values())
        self.live_jobs = LiveJobIndex(self.jobs.values())
        # The jobs that lack tasks, as they were after so many changes of jobs.
        self._incomplete: dict[str, None] = {}
        self._incomplete_at = -1
        # The number of applied changes: equal numbers of one snapshot mean the same state.
        self.version = 0
        self._depth = 0
        self._present = self._ledger = AllocationLedger(
            Fleet(nodes),
            self._build_quota_tree({node.id: node for node in quota_nodes}),
            allocations,
            jobs=self.jobs,
            queues=self.queues,
            flavors=self.flavors,
        )
        self._future: AllocationLedger | None = None
        # The depth of statements at which changes go to both views; 0 while there is only the present one.
        self._future_depth = 0

    # Reading

    @property
    def fleet(self) -> Fleet:
        """The nodes and their cards, with their free amounts."""
        return self._ledger.fleet

    @property
    def quota(self) -> QuotaTree[FlavorResource]:
        """The quota tree, with its usage."""
        return self._ledger.quota

    @property
    def future_quota(self) -> QuotaTree[FlavorResource]:
        """The quota tree of the future view, which is the present one while that view is not open."""
        open_view = self._future if self._future_depth else None
        return (open_view or self._present).quota

    @property
    def allocations(self) -> dict[str, Allocation]:
        """The allocations by id."""
        return self._ledger.allocations

    def count_tasks(self, job_id: str) -> int:
        """Return how many tasks of a job have an allocation."""
        return self._ledger.count_tasks(job_id)

    def jobs_with_allocations(self) -> Set[str]:
        """Return the ids of all jobs with an allocation."""
        return self._ledger.jobs_with_allocations()

    def allocations_of(self, job_id: str) -> tuple[Allocation, ...]:
        """Return the allocations of a job, sorted by id."""
        return self._ledger.allocations_of(job_id)

    def charges_of(self, job_id: str) -> dict[FlavorResource, int]:
        """Return the sum of the charges of a job's tasks, by flavor and resource."""
        return sum_task_charges(self._ledger.allocations_of(job_id))

    def jobs_charged_to(self, queue_id: str) -> tuple[str, ...]:
        """Return the ids of the jobs that are charged to a queue, sorted."""
        return self._ledger.jobs_charged_to(queue_id)

    def count_tasks_on(self, node_id: str, queue_id: str) -> int:
        """Return how many tasks on a node are charged to a queue."""
        return self._ledger.count_tasks_on(node_id, queue_id)

    def find_incomplete_jobs(self) -> list[str]:
        """Return the ids of live jobs with fewer present allocations than unfinished tasks, unordered."""
        changed, wanted = self.job_changes.jobs_since(self._incomplete_at), self.live_jobs.wanted_tasks
        self._incomplete_at = self.job_changes.number
        if changed is None:
            changed = [*self._incomplete, *self._present.jobs_with_allocations()]
        for job_id in changed:
            if 0 < self._present.count_tasks(job_id) < wanted.get(job_id, 0):
                self._incomplete[job_id] = None
            else:
                self._incomplete.pop(job_id, None)
        return list(self._incomplete)

    def leaving_allocations(self) -> tuple[str, ...]:
        """Return the ids of the allocations that are leaving, by themselves or with their job, sorted."""
        jobs = (held.id for job_id in self._leaving_jobs for held in self._ledger.allocations_of(job_id))
        return tuple(sorted({*self._ledger.leaving, *jobs}))

    def export_nodes(self) -> tuple[Node, ...]:
        """Return all nodes by id, with their present usage."""
        exported = (self.fleet.export_node(row) for row in range(len(self.fleet)))
        return tuple(sorted(exported, key=lambda node: node.id))

    def export_quota_nodes(self) -> tuple[QuotaNode, ...]:
        """Return all quota nodes by id, with the present usage of the leaves."""
        return tuple(self._export_quota_node(key) for key in sorted(self._quota_nodes))

    def to_json(self) -> str:
        """Return the snapshot as canonical JSON: equal snapshots give equal text."""
        data = SnapshotData(
            format=FORMAT,
            nodes=self.export_nodes(),
            flavors=tuple(self.flavors[key] for key in sorted(self.flavors)),
            quota_nodes=self.export_quota_nodes(),
            queues=tuple(self.queues[key] for key in sorted(self.queues)),
            jobs=tuple(self.jobs[key] for key in sorted(self.jobs)),
            allocations=tuple(self.allocations[key] for key in sorted(self.allocations)),
            claims=tuple(self.claims[key] for key in sorted(self.claims)),
            usage=tuple(self.usage[key] for key in sorted(self.usage)),
            lost_ppm=self.lost_ppm,
            workload=self.workload,
        )
        return to_canonical_json(data)

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Rebuild a snapshot from `to_json`.

        Raises:
            SnapshotError: when the text is not a snapshot of this format.
        """
        try:
            data = decode(SnapshotData, json.loads(text))
        except (CodecError, json.JSONDecodeError) as error:
            raise SnapshotError(f"this is not a snapshot: {error}") from error
        if data.format != FORMAT:
            raise SnapshotError(f"snapshot format {data.format} is not {FORMAT}")
        return cls(**{item.name: getattr(data, item.name) for item in fields(data) if item.name != "format"})

    # Simulation

    def statement(self) -> Statement:
        """Begin a simulation that can be undone: `with snapshot.statement() as statement: …`."""
        return Statement(self)

    def open_statement(self) -> Mark:
        """Open the undo log for a `Statement`, its only caller."""
        self._depth += 1
        return self.current_mark()

    def close_statement(self, mark: Mark, *, committed: bool) -> None:
        """Close the statement that began at the mark; `Statement` is the only caller."""
        if self._depth == self._future_depth:
            self._close_future(committed=committed)
        if not committed:
            self._undo(mark)
        elif self._depth == 1:
            # It lacks what was changed while it was not open.
            self._future = None
        self._depth -= 1
        if self._future_depth and self._depth == self._future_depth:
            self._other_ledger.replay_steps(self._ledger.log[mark:], logged=True)
        if self._depth == 0:
            # Nothing of the outermost statement can be undone any more.
            self._ledger.log.clear()

    def current_mark(self) -> Mark:
        """Return the present end of the undo log; `Statement` is the only caller."""
        return Mark(len(self._ledger.log))

    def undo_to(self, mark: Mark) -> None:
        """Undo everything after the mark; `Statement` is the only caller.

        Raises:
            StatementError: at the level whose changes go to both views.
        """
        if self._future_depth and self._depth == self._future_depth:
            raise StatementError("changes of both views are undone only at the end of their statement")
        self._undo(mark)

    def _undo(self, mark: Mark) -> None:
        for _, entry in self._ledger.log[mark:]:
            self.job_changes.record_job(entry.allocation.job)
        self._ledger.undo_to(mark)

    def add_allocation(self, allocation: Allocation) -> None:
        """Allocate node, cards and quota to a task.

        Raises:
            SnapshotError: when the task already has an allocation.
        """
        step = self._ledger.add_allocation(allocation, logged=self._depth > 0)
        self.job_changes.record_job(allocation.job)
        self._replay_in_other(step)

    def remove_allocation(self, allocation_id: str) -> Allocation:
        """Release the allocation of a task, and return it.

        Raises:
            SnapshotError: when there is no such allocation.
        """
        allocation = self.allocations.get(allocation_id)
        if allocation is None:
            raise SnapshotError(f"there is no allocation {allocation_id}")
        step = self._ledger.remove_allocation(allocation, logged=self._depth > 0)
        self.job_changes.record_job(allocation.job)
        self._replay_in_other(step)
        return allocation

    # The future view

    def open_future(self) -> None:
        """Open the future view until the open statement ends.

        Changes of this statement from now on, its own or those of committed inner ones, go to both views.

        Raises:
            StatementError: outside of a statement.
        """
        if not self._depth:
            raise StatementError("the future view exists inside a statement only")
        self.select_view(future=False)
        if self._future is None:
            self._future = self._present.copy()
        else:
            self._future.undo_to(0)
            self._future.replay_steps(self._present.log, logged=True)
        self._future_depth = self._depth

    @property
    def has_future(self) -> bool:
        """True if the future view is open."""
        return bool(self._future_depth)

    def release_in_future(self, allocation_ids: Iterable[str]) -> None:
        """Release these allocations in the future view; those that are released there already are skipped."""
        later = self._future
        if later is None or not self._future_depth:
            raise StatementError("the future view is not open")
        for key in allocation_ids:
            held = later.allocations.get(key)
            if held is not None:
                later.remove_allocation(held, logged=True)

    def select_view(self, *, future: bool) -> None:
        """Select the view that reads and changes refer to.

        Raises:
            StatementError: when the future view is not open, or inside a statement that began since.
        """
        ledger = self._future if future and self._future_depth else None if future else self._present
        if ledger is self._ledger:
            return
        if ledger is None or self._depth != self._future_depth:
            raise StatementError("the view cannot be changed here")
        self._ledger = ledger

    def usage_version(self) -> tuple[object, ...]:
        """Return a value that is equal at two moments of a cycle only if no allocation changed between."""
        fleet = self.fleet
        return (fleet, fleet.epoch, len(fleet.changed_rows), self.current_mark())

    def find_present_allocation(self, allocation_id: str) -> Allocation | None:
        """Return the present allocation of a task, whichever view is selected, or None."""
        return self._present.allocations.get(allocation_id)

    @property
    def _other_ledger(self) -> AllocationLedger:
        """The ledger of the view that is not selected."""
        other = self._future if self._ledger is self._present else self._present
        assert other is not None  # noqa: S101 - read only while the future view is open
        return other

    def _replay_in_other(self, step: LedgerStep) -> None:
        """Make a change in the view that is not selected, too, at the level whose changes go to both."""
        if self._future is None or self._depth != self._future_depth:
            return
        self._other_ledger.replay_steps((step,), logged=self._depth > 0)

    def _close_future(self, *, committed: bool) -> None:
        """Close the future view; after an undone statement its ledger is reused by the next one."""
        assert self._future is not None  # noqa: S101 - the future view is open
        self._future_depth = 0
        self._ledger = self._present
        if committed:
            self._future = None
        else:
            self._future.undo_to(0)

    # Changes between cycles

    def apply_delta(self, delta: Delta) -> None:
        """Apply changes; the result equals a snapshot that is built from the changed parts.

        Raises:
            StatementError: inside a statement.
            SnapshotError: when a change contradicts the snapshot, which is then unusable.
        """
        if self._depth:
            raise StatementError("changes are not applied inside a statement")
        replaced_nodes: dict[str, Node | None] = {}
        self.version += len(delta.changes)
        for change in delta.changes:
            match change:
                case NodePut(node):
                    # A node of the same size is updated in place; for others the fleet is built once.
                    if node.id in replaced_nodes or not self._update_node(node):
                        replaced_nodes[node.id] = node
                case NodeRemoved(node_id):
                    replaced_nodes[node_id] = None
                case AllocationPut() | AllocationRemoved() if replaced_nodes:
                    self._replace_fleet(replaced_nodes)
                    replaced_nodes = {}
                    self._apply(change)
                case _:
                    self._apply(change)
        if replaced_nodes:
            self._replace_fleet(replaced_nodes)
        self.quota.settle()

    def _apply(self, change: Change) -> None:
        match change:
            case JobPut(job):
                self.job_changes.record_job(job.id)
                before = self.jobs.get(job.id)
                self.pending_jobs.update_job(before, job)
                self.live_jobs.update_job(before, job)
                self.jobs[job.id] = job
                self._update_leaving(job.id, job)
                self._update_pods_of(job.id)
            case JobRemoved(job_id):
                self.job_changes.record_job(job_id)
                before = self.jobs.pop(job_id, None)
                self.pending_jobs.update_job(before, None)
                self.live_jobs.update_job(before, None)
                self._update_leaving(job_id, None)
                self._update_pods_of(job_id)
            case AllocationPut(allocation):
                self.add_allocation(allocation)
            case AllocationRemoved(allocation_id):
                self.remove_allocation(allocation_id)
            case FlavorPut(flavor):
                self.flavors[flavor.id] = flavor
                self.fleet.memo.clear()
                self.memo.clear()
                self._replace_quota({node.id: node for node in self.export_quota_nodes()})
            case QueuePut(queue):
                self.queues[queue.id] = queue
                self._replace_quota({node.id: node for node in self.export_quota_nodes()})
            case QuotaPut(quota_node):
                self._replace_quota(
                    {**{node.id: node for node in self.export_quota_nodes()}, quota_node.id: quota_node}
                )
            case ClaimPut() | ClaimRemoved() | UsagePut() | LossPut() | WorkloadPut():
                self._apply_fact(change)

    def _update_leaving(self, job_id: str, job: Job | None) -> None:
        if job is not None and job.state is JobState.LEAVING:
            self._leaving_jobs[job_id] = None
        else:
            self._leaving_jobs.pop(job_id, None)

    def _apply_fact(self, change: ClaimPut | ClaimRemoved | UsagePut | LossPut | WorkloadPut) -> None:
        match change:
            case ClaimPut(claim):
                self.claims[claim.job] = claim
            case ClaimRemoved(job_id):
                self.claims.pop(job_id, None)
            case UsagePut(usage):
                self.usage[usage.queue, usage.user] = usage
            case LossPut(lost_ppm):
                self.lost_ppm = lost_ppm
            case WorkloadPut(workload):
                self.workload = workload

    def _ledgers(self) -> Iterator[AllocationLedger]:
        yield self._present
        if self._future is not None:
            yield self._future

    def _update_node(self, node: Node) -> bool:
        """Update a node in place, and return whether that was possible; else a new fleet is needed."""
        known = [ledger.fleet.update_node(node) for ledger in self._ledgers()]
        self.memo.clear()
        return all(known)

    def _replace_fleet(self, changed: dict[str, Node | None]) -> None:
        nodes = {**{node.id: node for node in self.export_nodes()}, **changed}
        self._future = None
        self._present.replace_fleet(Fleet(node for node in nodes.values() if node is not None))
        self.memo.clear()

    def _update_pods_of(self, job_id: str) -> None:
        for ledger in self._ledgers():
            ledger.update_pods_of(job_id)

    # Quota

    def _replace_quota(self, quota_nodes: dict[str, QuotaNode]) -> None:
        self._present.replace_quota(self._build_quota_tree(quota_nodes))
        self._future = None

    def _build_quota_tree(self, quota_nodes: dict[str, QuotaNode]) -> QuotaTree[FlavorResource]:
        self.memo.clear()
        self.limits_memo.clear()
        self._quota_nodes = {key: _sort_parts(quota_nodes[key]) for key in sorted(quota_nodes)}
        tree: QuotaTree[FlavorResource] = QuotaTree(
            (
                Branch(
                    node.id,
                    node.parent,
                    {
                        q.key: NodeLimits(q.own_nominal, q.borrowing_limit, q.lending_limit)
                        for q in node.quotas
                    },
                    node.weight_milli,
                )
                for node in self._quota_nodes.values()
            ),
            self._shared_resource,
        )
        for queue in self.queues.values():
            if queue.quota_node not in tree:
                raise SnapshotError(f"queue {queue.id} has no quota node {queue.quota_node}")
            if tree.height(queue.quota_node):
                raise SnapshotError(f"queue {queue.id} belongs to {queue.quota_node}, which has children")
        for node in self._quota_nodes.values():
            for charge in node.usage:
                tree.add_usage(node.id, charge.key, charge.amount)
        return tree

    def _shared_resource(self, key: FlavorResource) -> str | None:
        # The number of sliced cards is only a cap: it does not measure how much of them is used.
        flavor = self.flavors.get(key.flavor)
        sliced = flavor is not None and flavor.mode is GpuMode.SLICE
        return None if sliced and key.resource == Resource.GPU_CARDS else key.resource

    def _export_quota_node(self, key: str) -> QuotaNode:
        node = self._quota_nodes[key]
        if self.quota.height(key):
            return node
        used = self.quota.usages(key)
        charges = sorted(Charge(fr.flavor, fr.resource, amount) for fr, amount in used.items())
        return replace(node, usage=tuple(charges))


def _sort_parts(node: QuotaNode) -> QuotaNode:
    quotas = tuple(sorted(node.quotas, key=lambda quota: quota.key))
    return replace(node, quotas=quotas, usage=tuple(sorted(charge for charge in node.usage if charge.amount)))
