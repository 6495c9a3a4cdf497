"""What is held at one moment: of nodes, cards and quota, and by whom.

Booking and giving back are exact inverses, so that a simulation can be undone step by step from `log`
where a copy of everything would cost milliseconds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from quotas.tree import QuotaTree
from scheduling.engine.model import Allocation, Charge, Flavor, FlavorResource, Job, PlacementRules, Queue
from scheduling.engine.state.charges import priced
from scheduling.engine.state.fleet import Fleet, Hold
from scheduling.engine.state.presence import Presence, presence_of


class SnapshotError(ValueError):
    """Parts of a snapshot that contradict each other; the message names them."""


@dataclass(frozen=True, slots=True)
class Booking:
    """What one allocation means to the fleet and to the quota tree, worked out once.

    `row` is None, and `hold` and `presence` with it, for tasks that stand on no known node.
    """

    allocation: Allocation
    leaf: str
    usage: Mapping[FlavorResource, int]
    row: int | None = None
    hold: Hold | None = None
    presence: Presence | None = None


class Books:
    """The mutable part of a snapshot. `jobs`, `queues` and `flavors` are the snapshot's own, live mappings.

    Usage of the fleet and of the quota tree includes what the allocations hold. `log` has every booking
    (True) and every return (False) since the outermost statement began; outside of one nothing is logged.
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
        self.log: list[tuple[bool, Allocation]] = []
        self.leaving: dict[str, None] = {}
        self._jobs, self._queues, self._flavors = jobs, queues, flavors
        self._bookings: dict[str, Booking] = {}
        # Tasks that were tried, or left for good. What was tried may be taken in the same statement.
        self._gone: list[str] = []
        self._held: defaultdict[str, dict[str, Allocation]] = defaultdict(dict)
        self._sorted: dict[str, tuple[Allocation, ...]] = {}
        # The tasks of a gang share their charges, and to hash these takes longer than to book them.
        self._price: tuple[tuple[Charge, ...], Mapping[FlavorResource, int]] = ((), {})
        self._holders: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._tasks_on: Counter[tuple[str, str]] = Counter()
        for key in sorted(self.allocations):
            self._index(key, self.allocations[key])
        self._settle()

    def copy(self) -> Books:
        """The same books once more, which then go their own way."""
        twin = object.__new__(Books)
        twin._jobs, twin._queues, twin._flavors = self._jobs, self._queues, self._flavors
        twin.fleet, twin.quota = self.fleet.copy(), self.quota.copy()
        twin.allocations, twin.log = dict(self.allocations), list(self.log)
        twin._bookings, twin._gone, twin._price = self._bookings, self._gone, self._price
        twin.leaving, twin._sorted = dict(self.leaving), dict(self._sorted)
        twin._held = defaultdict(dict, {job: dict(held) for job, held in self._held.items()})
        twin._holders = defaultdict(dict, {queue: dict(jobs) for queue, jobs in self._holders.items()})
        twin._tasks_on = self._tasks_on.copy()
        return twin

    # Reading

    def holds(self, job_id: str) -> int:
        """How many tasks of a job hold something."""
        held = self._held.get(job_id)
        return 0 if held is None else len(held)

    def holding(self) -> Set[str]:
        """The ids of all jobs of which tasks hold something."""
        return self._held.keys()

    def short(self, wanted: Mapping[str, int]) -> list[str]:
        """The ids of jobs that hold something, but for fewer tasks than they want, in no particular order."""
        return [job_id for job_id, held in self._held.items() if len(held) < wanted.get(job_id, 0)]

    def held(self, job_id: str) -> tuple[Allocation, ...]:
        """What a job's tasks hold, by id."""
        known = self._sorted.get(job_id)
        if known is None:
            held = self._held.get(job_id)
            if held is None:
                return ()
            order = map(held.__getitem__, sorted(held)) if len(held) > 1 else held.values()
            known = self._sorted[job_id] = tuple(order)
        return known

    def holders(self, queue_id: str) -> tuple[str, ...]:
        """The ids of the jobs that hold something of a queue's quota, sorted."""
        return tuple(sorted(self._holders.get(queue_id, ())))

    def tasks_on(self, node_id: str, queue_id: str) -> int:
        """How many tasks on a node hold a queue's quota."""
        return self._tasks_on[node_id, queue_id]

    # Booking

    def put(self, allocation: Allocation, *, logged: bool) -> None:
        """Let a task hold its node, cards and quota.

        Raises:
            SnapshotError: when the task already holds something, or its queue is gone.
        """
        task = allocation.id
        if task in self.allocations:
            raise SnapshotError(f"{task} already holds something")
        booking = self._booking(task, allocation)
        self.allocations[task] = allocation
        self._index(task, allocation)
        if booking.row is not None and booking.hold is not None:
            self.fleet.hold(booking.row, booking.hold)
            if booking.presence is not None:
                self.fleet.presences.put(task, booking.row, booking.presence)
        self.quota.defer_usage(booking.leaf, booking.usage, 1)
        if logged:
            self.log.append((True, allocation))

    def drop(self, allocation: Allocation, *, logged: bool) -> None:
        """Take back what a task holds."""
        task = allocation.id
        booking = self._booking(task, allocation)
        del self.allocations[task]
        self._unindex(task, allocation)
        if booking.row is not None and booking.hold is not None:
            self.fleet.release(booking.row, booking.hold)
            self.fleet.presences.drop(task)
        self.quota.defer_usage(booking.leaf, booking.usage, -1)
        if logged:
            self.log.append((False, allocation))
        else:
            self._gone.append(task)

    def undo_to(self, mark: int) -> None:
        """Take back everything that was logged after the first `mark` steps."""
        while len(self.log) > mark:
            added, allocation = self.log.pop()
            if added:
                self.drop(allocation, logged=False)
            else:
                self.put(allocation, logged=False)

    def end(self) -> None:
        """The outermost statement has ended: nothing of it will be taken back."""
        self.log.clear()
        for task in self._gone:
            if task not in self.allocations:
                self._bookings.pop(task, None)
        self._gone.clear()

    def repeat(self, steps: Iterable[tuple[bool, Allocation]], *, logged: bool) -> None:
        """Do what other books did, as far as it is not so already."""
        for added, allocation in steps:
            known = self.allocations.get(allocation.id)
            if added and known is None:
                self.put(allocation, logged=logged)
            elif not added and known is not None:
                self.drop(known, logged=logged)

    # Advancing

    def restock(self, fleet: Fleet) -> None:
        """Stand on other nodes. Their usage comes with them."""
        self.fleet = fleet
        self._bookings.clear()
        self._settle()

    def replant(self, quota: QuotaTree[FlavorResource]) -> None:
        """Count against another tree. Its usage comes with it."""
        self.quota = quota
        self._bookings.clear()

    def reappear(self, job_id: str) -> None:
        """A job came, changed or left while its tasks hold something: others may meet them differently."""
        for allocation in self.held(job_id):
            self._bookings.pop(allocation.id, None)
            self.fleet.presences.drop(allocation.id)
            self._appear(allocation)

    def _settle(self) -> None:
        """Tell a new fleet who stands where; the amounts came with the nodes."""
        for allocation in self.allocations.values():
            row = self.fleet.row.get(allocation.node)
            if row is not None and allocation.slices:
                self.fleet.settle(row, self._hold(row, allocation))
            self._appear(allocation)

    def _booking(self, task: str, allocation: Allocation) -> Booking:
        known = self._bookings.get(task)
        if known is not None and known.allocation is allocation:
            return known
        leaf, usage = self._leaf(allocation), self._priced(allocation.charges)
        row = self.fleet.row.get(allocation.node)
        if row is None:
            booking = Booking(allocation, leaf, usage)
        else:
            presence = self._presence(allocation)
            booking = Booking(allocation, leaf, usage, row, self._hold(row, allocation), presence)
        self._bookings[task] = booking
        return booking

    def _priced(self, charges: tuple[Charge, ...]) -> Mapping[FlavorResource, int]:
        if self._price[0] is not charges:
            self._price = charges, priced(charges)
        return self._price[1]

    def _hold(self, row: int, allocation: Allocation) -> Hold:
        return self.fleet.hold_of(
            row,
            allocation.cpu,
            allocation.memory,
            allocation.slices,
            allocation.extended,
            allocation.zones,
        )

    def _appear(self, allocation: Allocation) -> None:
        row = self.fleet.row.get(allocation.node)
        presence = None if row is None else self._presence(allocation)
        if row is not None and presence is not None:
            self.fleet.presences.put(allocation.id, row, presence)

    def _presence(self, allocation: Allocation) -> Presence | None:
        rules = allocation.rules or self._rules_of(allocation)
        return None if rules is None else presence_of(rules)

    def _rules_of(self, allocation: Allocation) -> PlacementRules | None:
        job = self._jobs.get(allocation.job)
        if job is None:
            return None
        own = next((role.rules for role in job.roles if role.name == allocation.role), None)
        return job.rules if own is None else own

    def _index(self, task: str, allocation: Allocation) -> None:
        if allocation.leaving:
            self.leaving[task] = None
        self._sorted.pop(allocation.job, None)
        self._held[allocation.job][task] = allocation
        self._holders[allocation.queue][allocation.job] = None
        self._tasks_on[allocation.node, allocation.queue] += 1

    def _unindex(self, task: str, allocation: Allocation) -> None:
        self.leaving.pop(task, None)
        self._sorted.pop(allocation.job, None)
        here = (allocation.node, allocation.queue)
        self._tasks_on[here] -= 1
        if not self._tasks_on[here]:
            del self._tasks_on[here]
        held = self._held[allocation.job]
        del held[task]
        if not held:
            del self._held[allocation.job]
            del self._holders[allocation.queue][allocation.job]

    def _leaf(self, allocation: Allocation) -> str:
        queue = self._queues.get(allocation.queue)
        if queue is None:
            raise SnapshotError(f"{allocation.id} is charged to the queue {allocation.queue}, which is gone")
        return queue.quota_node
