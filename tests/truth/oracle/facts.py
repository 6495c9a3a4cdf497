"""The obstacles between one job and its start, by way.

A way assigns a flavor of the queue to each role of the job, all in one cluster. Each way has its obstacle at
the smallest size of the job; a job with a way without an obstacle could start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import product

from scheduling.engine.model import AllocationMode, Flavor, Job, Node, Queue
from tests.truth.oracle.cell import CARD_UNITS, Cell, Key
from tests.truth.oracle.gangs import areas, fit_together
from tests.truth.oracle.nodes import emptied
from tests.truth.oracle.quota import Amount, Tree, holds, least_of
from tests.truth.oracle.tasks import Task, counts_of, task_of, with_lasting_claims

UNCAPPED = 10**12


class Lack(IntEnum):
    """The obstacle of a way, the least serious first."""

    NOTHING = 0
    ROOM = 1
    BORROWED = 2
    QUOTA = 3
    POLICY = 4
    LIMIT = 5
    NODES = 6


@dataclass(frozen=True)
class Spare:
    """The amount that must stay unused beside a borrowing job (`keep`), and what is unused before it starts.

    It starts once other queues have released `missing`, or once it would not borrow any more: when its own
    queue has released, or owns in addition, the amount that it would have `borrowed`.
    """

    keep: int
    unused: int
    borrowed: int
    missing: int

    @property
    def enough(self) -> range:
        """Return the amounts that may be reported as missing: enough from other queues or the own one."""
        return range(min(self.borrowed, self.missing), max(self.borrowed, self.missing) + 1)


@dataclass(frozen=True)
class Way:
    """A flavor for each role, the charges of the job in all, and the obstacle.

    `short` has the quotas that lack, by the same order as `lack`.
    """

    flavors: tuple[Flavor, ...]
    tasks: tuple[Task, ...]
    counts: tuple[int, ...]
    asked: Counter[Key]
    lack: Lack
    short: dict[Key, Lack]
    spare: dict[Key, Spare]


class Facts:
    """The facts about one pending job in one cell."""

    def __init__(self, cell: Cell, job: Job) -> None:
        self.cell, self.job = cell, job
        self.queue: Queue = cell.queues[job.queue]
        self.tree = Tree(cell.quota_nodes, cell.used)
        self.leaf = self.queue.quota_node

    # What the job may have

    @property
    def capped(self) -> bool:
        """Return whether the job was evicted so often that it may not be evicted again."""
        cap = self.cell.rules.eviction_cap
        return cap is not None and self.job.evictions >= cap

    @property
    def borrows(self) -> bool:
        """Return whether it may have more than its queue's own nominal."""
        dynamic = self.queue.allocation_mode is AllocationMode.DYNAMIC
        return dynamic and self.job.preemptible and not self.capped

    def ceiling(self, key: Key) -> Amount:
        """Return the most that it could have if no job used anything."""
        found = self.tree.potential(self.leaf, key)
        return found if self.borrows else least_of(found, self.tree.owned(self.leaf, key))

    def against(self, key: Key) -> int:
        """Return what counts against the nominal of a job that may not borrow: for a job at its eviction cap,
        the holdings of jobs that may not be evicted either; for others all that the queue uses."""
        if not (self.job.preemptible and self.capped):
            return self.tree.usage(self.leaf, key)
        cap = self.cell.rules.eviction_cap
        found = 0
        for name, amounts in self.cell.holds.items():
            other = self.cell.jobs.get(name)
            if other is None or other.queue != self.queue.id:
                continue
            if not other.preemptible or (cap is not None and other.evictions >= cap):
                found += amounts[key]
        return found

    @property
    def beside(self) -> bool:
        """Return whether evictable jobs of its own queue count as borrowers for it. Then it may lack quota
        held by borrowers or by its own queue, and both reports are true."""
        keys = self.cell.used[self.leaf]
        different = any(self.against(key) != self.tree.usage(self.leaf, key) for key in keys)
        return self.capped and self.job.preemptible and different

    def available(self, key: Key, tree: Tree | None = None) -> Amount:
        """Return what it can have now, or with another usage; negative if more is used than allowed."""
        found = (tree or self.tree).available(self.leaf, key)
        owned = self.tree.owned(self.leaf, key)
        if self.borrows or owned is None:
            return found
        return least_of(found, owned - self.against(key))

    def borrowed(self, key: Key, amount: int) -> int:
        """Return by how much its queue would use more than it owns with the job; 0 or less if nothing."""
        owned = self.tree.owned(self.leaf, key)
        return self.tree.usage(self.leaf, key) + amount - owned if amount and owned is not None else 0

    def spare(self, key: Key, amount: int) -> Spare | None:
        """Return the unused amount that it needs if it borrows; None if that stays unused."""
        unit = CARD_UNITS.get(key[1])
        root, borrowed = self.tree.root(self.leaf), self.borrowed(key, amount)
        if borrowed <= 0 or not amount or not self.borrows:
            return None
        if self.job.drained:
            return Spare(0, 0, borrowed, amount)
        whole = self.tree.owned(root, key)
        if unit is None or whole is None:
            return None
        permille = self.cell.rules.spare_permille * self.job.evictions + self.cell.headroom
        keep = whole * permille // (1000 * unit) * unit
        unused = whole - self.tree.usage(root, key)
        missing = keep - (unused - amount)
        return Spare(keep, unused, borrowed, missing) if keep and missing > 0 else None

    # The ways

    @cached_property
    def empty(self) -> tuple[Node, ...]:
        """Return the nodes of the empty cell."""
        return tuple(map(emptied, self.cell.nodes))

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """Return all ways at the smallest size of the job, in the order of the queue's flavors."""
        return tuple(self.ways_at(counts_of(self.job)))

    def ways_at(self, counts: Sequence[int]) -> Iterator[Way]:
        """Yield all ways at a size."""
        known = [self.cell.flavors[name] for name in self.queue.flavors if name in self.cell.flavors]
        for flavors in product(known, repeat=len(self.job.roles)):
            if len({flavor.cluster for flavor in flavors}) == 1:
                yield self._way(flavors, tuple(counts))

    def _way(self, flavors: tuple[Flavor, ...], counts: tuple[int, ...]) -> Way:
        tasks = tuple(task_of(self.job, role, f) for role, f in zip(self.job.roles, flavors, strict=True))
        asked: Counter[Key] = Counter()
        for task, count in zip(tasks, counts, strict=True):
            for name, amount in task.charges().items():
                asked[task.flavor.id, name] += amount * count
        short = {key: lack for key, amount in asked.items() if (lack := self._lack(key, amount))}
        spare = {key: gap for key, amount in asked.items() if (gap := self.spare(key, amount))}
        if not self.empty_holds(tasks, counts):
            return Way(flavors, tasks, counts, asked, Lack.NODES, short, spare)
        gravest = max((*short.values(), *(Lack.BORROWED for _ in spare)), default=Lack.NOTHING)
        if gravest is not Lack.LIMIT and self.denied(flavors, asked):
            gravest = Lack.POLICY
        here = areas(self.job, self.cell.nodes)
        if gravest is Lack.NOTHING and not any(fit_together(tasks, counts, area) for area in here):
            gravest = Lack.ROOM
        return Way(flavors, tasks, counts, asked, gravest, short, spare)

    def denied(self, flavors: Iterable[Flavor], asked: Counter[Key]) -> bool:
        """Return whether a cap of its user or a budget that is used up does not allow it."""
        spent = {item.flavor for item in self.job.barred}
        if any(flavor.id in spent for flavor in flavors):
            return True
        return any(cap.held + self.of(asked, cap.resource) > cap.limit for cap in self.job.allowances)

    def of(self, asked: Counter[Key], resource: str) -> int:
        """Return the request of a resource in all flavors; without a request no cap applies."""
        found = sum(amount for key, amount in asked.items() if key[1] == resource)
        return found or -UNCAPPED

    def empty_holds(self, tasks: Sequence[Task], counts: Sequence[int]) -> bool:
        """Return whether so many tasks of each role fit the empty cell, each role by itself: roles that only
        compete with each other may also be reported as never fitting."""
        known: dict[object, bool] = self.__dict__.setdefault("_held_empty", {})
        for at, (task, count) in enumerate(zip(tasks, counts, strict=True)):
            key = (at, task.flavor.id, count)
            if key not in known:
                known[key] = any(
                    fit_together((with_lasting_claims(task),), (count,), area)
                    for area in areas(self.job, self.empty)
                )
            if not known[key]:
                return False
        return True

    def _lack(self, key: Key, amount: int) -> Lack:
        """Return the obstacle of one quota."""
        if not holds(self.ceiling(key), amount):
            return Lack.LIMIT
        if holds(self.available(key), amount):
            return Lack.NOTHING
        alone = self.available(key, self.tree.without_others(self.leaf))
        return Lack.BORROWED if holds(alone, amount) else Lack.QUOTA

    @cached_property
    def lack(self) -> Lack:
        """Return the obstacle of the job, which is that of its best way."""
        return min((way.lack for way in self.ways), default=Lack.NODES)


def lacks(facts: Facts) -> set[Lack]:
    """Return what a job lacks in the way that lacks least. Roles are placed in order and each takes the best
    for itself, so that the report for a job of several roles may be about another way."""
    either = {Lack.BORROWED, Lack.QUOTA}
    found = {facts.lack}
    if len(facts.job.roles) > 1:
        found |= {way.lack for way in facts.ways if Lack.NOTHING < way.lack < Lack.POLICY}
    return found | either if facts.beside and found & either else found
