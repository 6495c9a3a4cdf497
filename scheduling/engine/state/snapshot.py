"""One cycle's view of the world: fleet, flavors, quota, queues, jobs and what live tasks hold.

Parts that no simulation changes are plain objects; the mutable part (usage of nodes, cards and
quota, and the set of allocations) is kept in books, which go through `take` and `give_back` and write
an undo log while a statement is open.

A cycle may look at two moments: now, and later, when everything that was told to leave has left. Each has
books of its own, so that going from one to the other costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Set
from dataclasses import dataclass, replace

from foundation.core.quantities import Resource
from quotas.tree import Branch, NodeLimits, QuotaTree
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
    Queue,
    QuotaNode,
    UserUsage,
)
from scheduling.engine.state.books import Books, SnapshotError
from scheduling.engine.state.changes import Changes
from scheduling.engine.state.charges import summed
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
    LossPut,
    NodeGone,
    NodePut,
    QueuePut,
    QuotaPut,
    UsagePut,
)
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.lines import Lines
from scheduling.engine.state.statement import Mark, Statement, StatementError
from scheduling.engine.state.watch import Watch

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


class Snapshot:
    """Build it from parts in any order; equal parts give equal snapshots.

    Usage of nodes, cards and quota leaves comes with the nodes and quota nodes and includes what
    `allocations` hold. `memo` keeps what others worked out from nodes, flavors, queues and limits alone;
    it is emptied when one of them changes. `limits_memo` does not depend on nodes and outlives their
    changes. `job_memo` is for what is kept job by job and follows the jobs. `lost_ppm` is how much of the GPU
    time of the cell preemption threw away lately, in millionths.

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
    ) -> None:
        self.lost_ppm = lost_ppm
        self.flavors = {flavor.id: flavor for flavor in sorted(flavors, key=lambda flavor: flavor.id)}
        self.queues = {queue.id: queue for queue in sorted(queues, key=lambda queue: queue.id)}
        self.jobs = {job.id: job for job in jobs}
        self.claims = {claim.job: claim for claim in sorted(claims, key=lambda claim: claim.job)}
        self.usage = {(u.queue, u.user): u for u in sorted(usage, key=lambda u: (u.queue, u.user))}
        self.memo: dict[Hashable, object] = {}
        self.limits_memo: dict[Hashable, object] = {}
        self.job_memo: dict[Hashable, object] = {}
        self._leavers = {key: None for key, job in self.jobs.items() if job.state is JobState.LEAVING}
        # What others keep of jobs and of what they hold, from cycle to cycle, following `changes`.
        self.kept: dict[Hashable, object] = {}
        self.changes = Changes()
        self.lines = Lines(self.jobs.values())
        self.watch = Watch(self.jobs.values())
        # How many changes were applied: equal numbers of one snapshot mean the same state.
        self.version = 0
        self._depth = 0
        self._now = self._books = Books(
            Fleet(nodes),
            self._planted({node.id: node for node in quota_nodes}),
            allocations,
            jobs=self.jobs,
            queues=self.queues,
            flavors=self.flavors,
        )
        self._later: Books | None = None
        # The depth of statements at which both moments are kept in step; 0 while there is one only.
        self._joined = 0

    # Reading

    @property
    def fleet(self) -> Fleet:
        """The nodes and their cards, with what is free."""
        return self._books.fleet

    @property
    def quota(self) -> QuotaTree[FlavorResource]:
        """The quota tree, with what is used."""
        return self._books.quota

    @property
    def allocations(self) -> dict[str, Allocation]:
        """What every task holds, by its id."""
        return self._books.allocations

    def holds(self, job_id: str) -> int:
        """How many tasks of a job hold something."""
        return self._books.holds(job_id)

    def holding(self) -> Set[str]:
        """The ids of all jobs of which tasks hold something."""
        return self._books.holding()

    def held(self, job_id: str) -> tuple[Allocation, ...]:
        """What a job's tasks hold, by id."""
        return self._books.held(job_id)

    def charged(self, job_id: str) -> dict[FlavorResource, int]:
        """What a job's tasks hold of each quota, together."""
        return summed(charge for held in self._books.held(job_id) for charge in held.charges)

    def holders(self, queue_id: str) -> tuple[str, ...]:
        """The ids of the jobs that hold something of a queue's quota, sorted."""
        return self._books.holders(queue_id)

    def tasks_on(self, node_id: str, queue_id: str) -> int:
        """How many tasks on a node hold a queue's quota."""
        return self._books.tasks_on(node_id, queue_id)

    def short(self) -> list[str]:
        """The ids of live jobs that hold places for fewer tasks than they want, in no particular order."""
        return self._books.short(self.watch.tasks)

    def leaving(self) -> tuple[str, ...]:
        """The ids of the allocations that were told to leave, themselves or with their job, sorted."""
        jobs = (held.id for job_id in self._leavers for held in self._books.held(job_id))
        return tuple(sorted({*self._books.leaving, *jobs}))

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
            lost_ppm=self.lost_ppm,
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
            lost_ppm=data.lost_ppm,
        )

    # What-if

    def statement(self) -> Statement:
        """Begin a what-if: `with snapshot.statement() as statement: …`."""
        return Statement(self)

    def open_statement(self) -> Mark:
        """For `Statement` only."""
        self._depth += 1
        return self.mark()

    def close_statement(self, mark: Mark, *, kept: bool) -> None:
        """For `Statement` only: the end of the statement that began at the mark."""
        if self._depth == self._joined:
            self._part(kept=kept)
        if not kept:
            self._undo(mark)
        self._depth -= 1
        if self._joined and self._depth == self._joined:
            self._other.repeat(self._books.log[mark:], logged=True)
        if self._depth == 0:
            self._books.end()

    def mark(self) -> Mark:
        """For `Statement` only: the present end of the undo log."""
        return Mark(len(self._books.log))

    def undo_to(self, mark: Mark) -> None:
        """For `Statement` only: take back everything after the mark.

        Raises:
            StatementError: at the level where two moments are kept in step.
        """
        if self._joined and self._depth == self._joined:
            raise StatementError("what both moments share is taken back at the end only")
        self._undo(mark)

    def _undo(self, mark: Mark) -> None:
        for _, allocation in self._books.log[mark:]:
            self.changes.note(allocation.job)
        self._books.undo_to(mark)

    def take(self, allocation: Allocation) -> None:
        """Let a task hold its node, cards and quota.

        Raises:
            SnapshotError: when the task already holds something.
        """
        self._books.put(allocation, logged=self._depth > 0)
        self.changes.note(allocation.job)
        self._follow(added=True, allocation=allocation)

    def give_back(self, allocation_id: str) -> Allocation:
        """Take back what a task holds; returns what it was.

        Raises:
            SnapshotError: when there is no such allocation.
        """
        allocation = self.allocations.get(allocation_id)
        if allocation is None:
            raise SnapshotError(f"there is no allocation {allocation_id}")
        self._books.drop(allocation, logged=self._depth > 0)
        self.changes.note(allocation.job)
        self._follow(added=False, allocation=allocation)
        return allocation

    # Two moments

    def join(self) -> None:
        """Keep a later moment beside the present one until the open statement ends.

        What this statement does from now on, itself or by inner ones that are committed, holds for both.

        Raises:
            StatementError: outside of a statement.
        """
        if not self._depth:
            raise StatementError("two moments are kept inside a statement only")
        self.show(later=False)
        if self._later is None:
            self._later = self._now.copy()
        else:
            self._later.undo_to(0)
            self._later.repeat(self._now.log, logged=True)
        self._joined = self._depth

    def leave(self, allocation_ids: Iterable[str]) -> None:
        """These, too, are gone later. Nothing happens to those that are gone there already."""
        later = self._later
        if later is None or not self._joined:
            raise StatementError("there is no later moment")
        for key in allocation_ids:
            held = later.allocations.get(key)
            if held is not None:
                later.drop(held, logged=True)

    def show(self, *, later: bool) -> None:
        """Let everything that is read and done be of one moment.

        Raises:
            StatementError: where there is no later moment, or inside a statement that began since.
        """
        books = self._later if later and self._joined else None if later else self._now
        if books is self._books:
            return
        if books is None or self._depth != self._joined:
            raise StatementError("the other moment cannot be shown here")
        self._books = books

    def state(self) -> tuple[object, ...]:
        """Equal for two moments of one cycle between which nothing was taken or given back."""
        fleet = self.fleet
        return (fleet, fleet.epoch, len(fleet.touched), self.mark())

    def standing(self, allocation_id: str) -> Allocation | None:
        """What a task holds now, whatever is shown."""
        return self._now.allocations.get(allocation_id)

    @property
    def _other(self) -> Books:
        """The books that are not shown."""
        other = self._later if self._books is self._now else self._now
        assert other is not None  # noqa: S101 - asked only while there are two moments
        return other

    def _follow(self, *, added: bool, allocation: Allocation) -> None:
        """Keep the moment that is not shown in step."""
        if self._later is None or self._depth != self._joined:
            return
        self._other.repeat(((added, allocation),), logged=self._depth > 0)

    def _part(self, *, kept: bool) -> None:
        """The end of the statement that had two moments: the later one is as the snapshot was before."""
        assert self._later is not None  # noqa: S101 - two moments were joined
        self._joined = 0
        self._books = self._now
        if kept:
            self._later = None
        else:
            self._later.undo_to(0)

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
        self.version += len(delta.changes)
        for change in delta.changes:
            match change:
                case NodePut(node):
                    # A node that keeps its size is updated where it stands; others wait for one rebuild.
                    if node.id in stocking or not self._put_node(node):
                        stocking[node.id] = node
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
        self.quota.settle()

    def _apply(self, change: Change) -> None:
        match change:
            case JobPut(job):
                self.changes.note(job.id)
                before = self.jobs.get(job.id)
                self.lines.put(before, job)
                self.watch.put(before, job)
                self.jobs[job.id] = job
                self._note_leaver(job.id, job)
                self._reappear(job.id)
            case JobGone(job_id):
                self.changes.note(job_id)
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
                self.memo.clear()
                self._plant({node.id: node for node in self.quota_nodes()})
            case QueuePut(queue):
                self.queues[queue.id] = queue
                self._plant({node.id: node for node in self.quota_nodes()})
            case QuotaPut(quota_node):
                self._plant({**{node.id: node for node in self.quota_nodes()}, quota_node.id: quota_node})
            case ClaimPut() | ClaimGone() | UsagePut() | LossPut():
                self._note(change)

    def _note_leaver(self, job_id: str, job: Job | None) -> None:
        if job is not None and job.state is JobState.LEAVING:
            self._leavers[job_id] = None
        else:
            self._leavers.pop(job_id, None)

    def _note(self, change: ClaimPut | ClaimGone | UsagePut | LossPut) -> None:
        match change:
            case ClaimPut(claim):
                self.claims[claim.job] = claim
            case ClaimGone(job_id):
                self.claims.pop(job_id, None)
            case UsagePut(usage):
                self.usage[usage.queue, usage.user] = usage
            case LossPut(lost_ppm):
                self.lost_ppm = lost_ppm

    def _both(self) -> Iterator[Books]:
        yield self._now
        if self._later is not None:
            yield self._later

    def _put_node(self, node: Node) -> bool:
        """Update a node where it stands; False where a new fleet has to be made."""
        known = [books.fleet.put(node) for books in self._both()]
        self.memo.clear()
        return all(known)

    def _restock(self, changed: dict[str, Node | None]) -> None:
        kept = {**{node.id: node for node in self.nodes()}, **changed}
        self._later = None
        self._now.restock(Fleet(node for node in kept.values() if node is not None))
        self.memo.clear()

    def _reappear(self, job_id: str) -> None:
        for books in self._both():
            books.reappear(job_id)

    # Quota

    def _plant(self, quota_nodes: dict[str, QuotaNode]) -> None:
        self._now.replant(self._planted(quota_nodes))
        self._later = None

    def _planted(self, quota_nodes: dict[str, QuotaNode]) -> QuotaTree[FlavorResource]:
        self.memo.clear()
        self.limits_memo.clear()
        self._quota_nodes = {key: _sorted(quota_nodes[key]) for key in sorted(quota_nodes)}
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
                raise SnapshotError(f"queue {queue.id} stands at {queue.quota_node}, which has children")
        for node in self._quota_nodes.values():
            for charge in node.usage:
                tree.add_usage(node.id, charge.key, charge.amount)
        return tree

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


def _sorted(node: QuotaNode) -> QuotaNode:
    quotas = tuple(sorted(node.quotas, key=lambda quota: quota.key))
    return replace(node, quotas=quotas, usage=tuple(sorted(charge for charge in node.usage if charge.amount)))
