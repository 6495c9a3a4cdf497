"""One cycle's view of the world: fleet, flavors, quota, queues, jobs and what live tasks hold.

Parts that no simulation changes are plain objects; the mutable part (usage of nodes, cards and
quota, and the set of allocations) goes through `take` and `give_back`, which write an undo log while
a statement is open.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from foundation.quantities import Resource
from quotas.tree import Branch, Limits, QuotaTree
from scheduling.engine.model import (
    Allocation,
    Charge,
    Claim,
    Flavor,
    FlavorResource,
    GpuMode,
    Job,
    JobState,
    Node,
    PlacementRules,
    Queue,
    QuotaNode,
    UserUsage,
)
from scheduling.engine.quota.charges import summed
from scheduling.engine.state.codec import CodecError, canonical, decode
from scheduling.engine.state.delta import (
    AllocationGone,
    AllocationPut,
    Change,
    ClaimGone,
    ClaimPut,
    Delta,
    FlavorPut,
    JobGone,
    JobPut,
    NodeGone,
    NodePut,
    QueuePut,
    QuotaPut,
    UsagePut,
)
from scheduling.engine.state.fleet import Fleet, Hold
from scheduling.engine.state.grounds import Grounds
from scheduling.engine.state.lines import Lines
from scheduling.engine.state.presence import presence_of
from scheduling.engine.state.statement import Mark, Statement, StatementError
from scheduling.engine.state.watch import Watch

FORMAT = 2


class SnapshotError(ValueError):
    """Parts of a snapshot that contradict each other; the message names them."""


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


class Snapshot:
    """Build it from parts in any order; equal parts give equal snapshots.

    Usage of nodes, cards and quota leaves comes with the nodes and quota nodes and includes what
    `allocations` hold. `memo` keeps what others worked out from nodes, flavors, queues and limits alone;
    it is emptied when one of them changes.

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
    ) -> None:
        self.fleet = Fleet(nodes)
        self.flavors = {flavor.id: flavor for flavor in sorted(flavors, key=lambda flavor: flavor.id)}
        self.queues = {queue.id: queue for queue in sorted(queues, key=lambda queue: queue.id)}
        self.jobs = {job.id: job for job in jobs}
        self.allocations = {allocation.id: allocation for allocation in allocations}
        self.claims = {claim.job: claim for claim in sorted(claims, key=lambda claim: claim.job)}
        self.usage = {(u.queue, u.user): u for u in sorted(usage, key=lambda u: (u.queue, u.user))}
        self.memo: dict[Hashable, object] = {}
        self._leaving: dict[str, None] = {}
        self._leavers = {key: None for key, job in self.jobs.items() if job.state is JobState.LEAVING}
        self._held: defaultdict[str, dict[str, Allocation]] = defaultdict(dict)
        self._sorted: dict[str, tuple[Allocation, ...]] = {}
        # Facts that follow from one job and what it holds, beside the tuple of `held` they were made of.
        self.derived: dict[str, tuple[tuple[Allocation, ...], object]] = {}
        self._holders: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for key in sorted(self.allocations):
            self._index(self.allocations[key])
        self._settle()
        self._survey()
        self.lines = Lines(self.jobs)
        self.watch = Watch(self.jobs.values())
        self._undo: list[tuple[bool, Allocation]] = []
        self._depth = 0
        self._plant({node.id: node for node in quota_nodes})

    # Reading

    def holds(self, job_id: str) -> int:
        """How many tasks of a job hold something."""
        held = self._held.get(job_id)
        return 0 if held is None else len(held)

    def held(self, job_id: str) -> tuple[Allocation, ...]:
        """What a job's tasks hold, by id."""
        known = self._sorted.get(job_id)
        if known is None:
            held = self._held.get(job_id)
            if held is None:
                return ()
            known = self._sorted[job_id] = tuple(held[key] for key in sorted(held))
        return known

    def charged(self, job_id: str) -> dict[FlavorResource, int]:
        """What a job's tasks hold of each quota, together."""
        held = self._held.get(job_id)
        return {} if held is None else summed(charge for a in held.values() for charge in a.charges)

    def holders(self, queue_id: str) -> tuple[str, ...]:
        """The ids of the jobs that hold something of a queue's quota, sorted."""
        return tuple(sorted(self._holders.get(queue_id, ())))

    def short(self) -> list[str]:
        """The ids of live jobs that hold places for fewer tasks than they want, in no particular order."""
        wanted = self.watch.tasks
        return [job_id for job_id, held in self._held.items() if len(held) < wanted.get(job_id, 0)]

    def leaving(self) -> tuple[str, ...]:
        """The ids of the allocations that were told to leave, themselves or with their job, sorted."""
        jobs = (held for job_id in self._leavers for held in self._held.get(job_id, ()))
        return tuple(sorted({*self._leaving, *jobs}))

    def nodes(self) -> tuple[Node, ...]:
        """All nodes by id, with their usage as it is now."""
        exported = (self.fleet.export(row) for row in range(len(self.fleet)))
        return tuple(sorted(exported, key=lambda node: node.id))

    def quota_nodes(self) -> tuple[QuotaNode, ...]:
        """All quota nodes by id, with the usage of the leaves as it is now."""
        return tuple(self._exported(key) for key in sorted(self._quota_nodes))

    def to_json(self) -> str:
        """The snapshot as canonical JSON: equal snapshots give equal text."""
        data = SnapshotData(
            format=FORMAT,
            nodes=self.nodes(),
            flavors=tuple(self.flavors[key] for key in sorted(self.flavors)),
            quota_nodes=self.quota_nodes(),
            queues=tuple(self.queues[key] for key in sorted(self.queues)),
            jobs=tuple(self.jobs[key] for key in sorted(self.jobs)),
            allocations=tuple(self.allocations[key] for key in sorted(self.allocations)),
            claims=tuple(self.claims[key] for key in sorted(self.claims)),
            usage=tuple(self.usage[key] for key in sorted(self.usage)),
        )
        return canonical(data)

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
        return cls(
            nodes=data.nodes,
            flavors=data.flavors,
            quota_nodes=data.quota_nodes,
            queues=data.queues,
            jobs=data.jobs,
            allocations=data.allocations,
            claims=data.claims,
            usage=data.usage,
        )

    # What-if

    def statement(self) -> Statement:
        """Begin a what-if: `with snapshot.statement() as statement: …`."""
        return Statement(self)

    def open_statement(self) -> Mark:
        """For `Statement` only."""
        self._depth += 1
        return self.mark()

    def close_statement(self) -> None:
        """For `Statement` only."""
        self._depth -= 1
        if self._depth == 0:
            self._undo.clear()

    def mark(self) -> Mark:
        """For `Statement` only: the present end of the undo log."""
        return Mark(len(self._undo))

    def undo_to(self, mark: Mark) -> None:
        """For `Statement` only: take back everything after the mark."""
        while len(self._undo) > mark:
            added, allocation = self._undo.pop()
            if added:
                self._drop(allocation)
            else:
                self._put(allocation)

    def take(self, allocation: Allocation) -> None:
        """Let a task hold its node, cards and quota.

        Raises:
            SnapshotError: when the task already holds something.
        """
        self._put(allocation)
        if self._depth:
            self._undo.append((True, allocation))

    def give_back(self, allocation_id: str) -> Allocation:
        """Take back what a task holds; returns what it was.

        Raises:
            SnapshotError: when there is no such allocation.
        """
        allocation = self.allocations.get(allocation_id)
        if allocation is None:
            raise SnapshotError(f"there is no allocation {allocation_id}")
        self._drop(allocation)
        if self._depth:
            self._undo.append((False, allocation))
        return allocation

    # Advancing

    def apply(self, delta: Delta) -> None:
        """Advance to a later state; the result equals a snapshot built afresh.

        Raises:
            StatementError: inside a statement.
            SnapshotError: when a change contradicts the snapshot, which is then unusable.
        """
        if self._depth:
            raise StatementError("a snapshot does not advance inside a statement")
        stocking: dict[str, Node | None] = {}
        for change in delta.changes:
            match change:
                case NodePut(node):
                    # A node that keeps its size is updated where it stands; others wait for one rebuild.
                    if node.id in stocking or not self.fleet.put(node):
                        stocking[node.id] = node
                    self._survey()
                case NodeGone(node_id):
                    stocking[node_id] = None
                case AllocationPut() | AllocationGone() if stocking:
                    self._restock(stocking)
                    stocking = {}
                    self._apply(change)
                case _:
                    self._apply(change)
        if stocking:
            self._restock(stocking)

    def _apply(self, change: Change) -> None:
        match change:
            case JobPut(job):
                self.derived.pop(job.id, None)
                before = self.jobs.get(job.id)
                self.lines.put(before, job)
                self.watch.put(before, job)
                self.jobs[job.id] = job
                self._note_leaver(job.id, job)
                self._reappear(job.id)
            case JobGone(job_id):
                self.derived.pop(job_id, None)
                before = self.jobs.pop(job_id, None)
                self.lines.put(before, None)
                self.watch.put(before, None)
                self._note_leaver(job_id, None)
                self._reappear(job_id)
            case AllocationPut(allocation):
                self.take(allocation)
            case AllocationGone(allocation_id):
                self.give_back(allocation_id)
            case FlavorPut(flavor):
                self.flavors[flavor.id] = flavor
                self.fleet.memo.clear()
                self._survey()
                self._plant({node.id: node for node in self.quota_nodes()})
            case QueuePut(queue):
                self.queues[queue.id] = queue
                self._plant({node.id: node for node in self.quota_nodes()})
            case QuotaPut(quota_node):
                self._plant({**{node.id: node for node in self.quota_nodes()}, quota_node.id: quota_node})
            case ClaimPut() | ClaimGone() | UsagePut():
                self._note(change)

    def _note_leaver(self, job_id: str, job: Job | None) -> None:
        if job is not None and job.state is JobState.LEAVING:
            self._leavers[job_id] = None
        else:
            self._leavers.pop(job_id, None)

    def _note(self, change: ClaimPut | ClaimGone | UsagePut) -> None:
        match change:
            case ClaimPut(claim):
                self.claims[claim.job] = claim
            case ClaimGone(job_id):
                self.claims.pop(job_id, None)
            case UsagePut(usage):
                self.usage[usage.queue, usage.user] = usage

    def _restock(self, changed: dict[str, Node | None]) -> None:
        kept = {**{node.id: node for node in self.nodes()}, **changed}
        self.fleet = Fleet(node for node in kept.values() if node is not None)
        self._settle()
        self._survey()

    # Quota

    def _plant(self, quota_nodes: dict[str, QuotaNode]) -> None:
        self.memo.clear()
        self._quota_nodes = {key: _sorted(quota_nodes[key]) for key in sorted(quota_nodes)}
        self.quota: QuotaTree[FlavorResource] = QuotaTree(
            (
                Branch(
                    node.id,
                    node.parent,
                    {q.key: Limits(q.nominal, q.borrowing_limit, q.lending_limit) for q in node.quotas},
                    node.weight_milli,
                )
                for node in self._quota_nodes.values()
            ),
            self._shared_resource,
        )
        for queue in self.queues.values():
            if queue.quota_node not in self.quota:
                raise SnapshotError(f"queue {queue.id} has no quota node {queue.quota_node}")
            if self.quota.height(queue.quota_node):
                raise SnapshotError(f"queue {queue.id} stands at {queue.quota_node}, which has children")
        for node in self._quota_nodes.values():
            for charge in node.usage:
                self.quota.add_usage(node.id, charge.key, charge.amount)

    def _shared_resource(self, key: FlavorResource) -> str | None:
        # Where cards are sliced their number is a cap only: it says nothing of how much is held.
        flavor = self.flavors.get(key.flavor)
        sliced = flavor is not None and flavor.mode is GpuMode.SLICE
        return None if sliced and key.resource == Resource.GPU_CARDS else key.resource

    def _exported(self, key: str) -> QuotaNode:
        node = self._quota_nodes[key]
        if self.quota.height(key):
            return node
        used = self.quota.usages(key)
        charges = sorted(Charge(fr.flavor, fr.resource, amount) for fr, amount in used.items())
        return replace(node, usage=tuple(charges))

    # Booking

    def _put(self, allocation: Allocation) -> None:
        if allocation.id in self.allocations:
            raise SnapshotError(f"{allocation.id} already holds something")
        self.allocations[allocation.id] = allocation
        self._index(allocation)
        self.grounds.put(allocation)
        row = self.fleet.row.get(allocation.node)
        if row is not None:
            self.fleet.hold(row, self._taken(row, allocation))
            self._appear(row, allocation)
        self.quota.add_charges(self._leaf(allocation), allocation.charges)

    def _drop(self, allocation: Allocation) -> None:
        del self.allocations[allocation.id]
        self._unindex(allocation)
        self.grounds.put(allocation, -1)
        row = self.fleet.row.get(allocation.node)
        if row is not None:
            self.fleet.release(row, self._taken(row, allocation))
            self.fleet.presences.drop(allocation.id)
        self.quota.add_charges(self._leaf(allocation), allocation.charges, -1)

    def _taken(self, row: int, allocation: Allocation) -> Hold:
        return self.fleet.hold_of(
            row,
            allocation.cpu,
            allocation.memory,
            allocation.slices,
            allocation.extended,
            allocation.zones,
        )

    def _survey(self) -> None:
        """Forget what was built over other nodes or flavors."""
        self.memo.clear()
        self.grounds = Grounds(self.flavors, self.fleet.nodes, self.allocations)

    def _settle(self) -> None:
        """Tell a new fleet who stands where; the amounts came with the nodes."""
        for allocation in self.allocations.values():
            row = self.fleet.row.get(allocation.node)
            if row is not None:
                if allocation.slices:
                    self.fleet.settle(row, self._taken(row, allocation))
                self._appear(row, allocation)

    def _appear(self, row: int, allocation: Allocation) -> None:
        rules = allocation.rules or self._rules_of(allocation)
        presence = None if rules is None else presence_of(rules)
        if presence is not None:
            self.fleet.presences.put(allocation.id, row, presence)

    def _rules_of(self, allocation: Allocation) -> PlacementRules | None:
        job = self.jobs.get(allocation.job)
        if job is None:
            return None
        own = next((role.rules for role in job.roles if role.name == allocation.role), None)
        return job.rules if own is None else own

    def _reappear(self, job_id: str) -> None:
        """A job came, changed or left while its tasks hold something: others may meet them differently."""
        for allocation in self.held(job_id):
            self.fleet.presences.drop(allocation.id)
            row = self.fleet.row.get(allocation.node)
            if row is not None:
                self._appear(row, allocation)

    def _index(self, allocation: Allocation) -> None:
        if allocation.leaving:
            self._leaving[allocation.id] = None
        self._sorted.pop(allocation.job, None)
        self._held[allocation.job][allocation.id] = allocation
        self._holders[allocation.queue][allocation.job] = None

    def _unindex(self, allocation: Allocation) -> None:
        self._leaving.pop(allocation.id, None)
        self._sorted.pop(allocation.job, None)
        held = self._held[allocation.job]
        del held[allocation.id]
        if not held:
            del self._held[allocation.job]
            del self._holders[allocation.queue][allocation.job]

    def _leaf(self, allocation: Allocation) -> str:
        queue = self.queues.get(allocation.queue)
        if queue is None:
            raise SnapshotError(f"{allocation.id} is charged to the queue {allocation.queue}, which is gone")
        return queue.quota_node


def _sorted(node: QuotaNode) -> QuotaNode:
    quotas = tuple(sorted(node.quotas, key=lambda quota: quota.key))
    return replace(node, quotas=quotas, usage=tuple(sorted(charge for charge in node.usage if charge.amount)))
