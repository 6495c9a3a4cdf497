"""One search in progress: who wants what, who may be asked, and whether it fits yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quotas.tree import QuotaTree, is_at_least
from scheduling.engine.model import AllocationMode, EvictRule, FlavorResource, Job, Queue
from scheduling.engine.model.options import PreemptionOptions
from scheduling.engine.preemption.candidates import Candidate, Roster
from scheduling.engine.preemption.loss import gpus
from scheduling.engine.preemption.policy import Policy, highest_priority, satisfies
from scheduling.engine.preemption.seats import Seats
from scheduling.engine.preemption.targets import Preemptor, Room
from scheduling.engine.preemption.trial import Removal, Trial
from scheduling.engine.quota.verdict import may_borrow


@dataclass(slots=True, eq=False, kw_only=True)
class Victim:
    """A candidate that was taken, by which rule, and what that removed.

    `justified` says whether the rule would still allow it now, with the victim's own charges put back.
    """

    candidate: Candidate
    rule: EvictRule
    removal: Removal
    justified: Callable[[], bool]


@dataclass(slots=True, eq=False)
class Effort:
    """How many times a search looked whether it fits, and the most that it may."""

    budget: int
    steps: int = 0
    exhausted: bool = False

    def limit(self, steps: int) -> None:
        """No more than so many further looks."""
        self.budget = min(self.budget, self.steps + steps)

    def spend(self) -> bool:
        """Count one look; False when the budget is gone."""
        if self.steps >= self.budget:
            self.exhausted = True
            return False
        self.steps += 1
        return True


@dataclass(slots=True, eq=False, kw_only=True)
class Contest:
    """What every way of searching shares.

    `policies` names the queues that may be asked, `weighed` those whose candidates a second choice
    arranges anew. `banned` are candidates that turned out not to be allowed in the end; `guarded` collects
    those that only their guaranteed run time protected, unless `ignore_guard` asks what would be possible
    without. `patience` is until when that of borrowed use is heeded. With `seats` places are counted and
    `room` is not called. `whether` asks for any victims at all, not for those that lose least;
    of `only` some jobs, where these are named.
    `share_loss_s` bounds what a borrower may cost another one (`PreemptionOptions`).
    """

    roster: Roster
    preemptor: Preemptor
    trial: Trial
    effort: Effort
    room: Room | None = None
    seats: Seats | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict)
    banned: set[str] = field(default_factory=set)
    guarded: set[str] = field(default_factory=set)
    ignore_guard: bool = False
    patience: float = float("inf")
    whether: bool = False
    only: frozenset[str] | None = None
    share_loss_s: float = float("inf")
    charged: bool = False
    weighed: frozenset[str] | None = None
    _inside: dict[str, bool] = field(default_factory=dict)
    _bearable: dict[str, float] = field(default_factory=dict)
    _tight: FlavorResource | None = None

    @property
    def tree(self) -> QuotaTree[FlavorResource]:
        """The quota tree, with everything that the trial removed."""
        return self.roster.snapshot.quota

    @property
    def leaf(self) -> str:
        """Where the preemptor's queue stands in the tree."""
        return self.preemptor.queue.quota_node

    @property
    def guards_borrowed_use(self) -> bool:
        """Whether guaranteed run times of borrowed use count for the preemptor now."""
        return not self.ignore_guard and self.patience > self.roster.now

    @property
    def borrowing_allowed(self) -> bool:
        """Whether the preemptor's queue may use more than its own nominal once it is in.

        Where a job that may not borrow stands beside preemptible ones, it is these that borrow.
        """
        return may_go_above(self.preemptor.queue, self.preemptor.job, self.roster.options)

    def quota_fits(self, *, borrow: bool) -> bool:
        """Whether quota lets the preemptor in now."""
        # What was short a moment ago is most likely short still.
        if self._tight is not None and not self._key_fits(self._tight, borrow=borrow):
            return False
        self._tight = next(
            (key for key in self.preemptor.usage if not self._key_fits(key, borrow=borrow)), None
        )
        return self._tight is None

    def _key_fits(self, key: FlavorResource, *, borrow: bool) -> bool:
        amount = self.preemptor.usage[key]
        # What is available falls by exactly what is added: a charged amount fits if nothing is overdrawn.
        asked = 0 if self.charged else amount
        if not borrow and self.tree.borrows(self.leaf, key, asked):
            return False
        return not amount or is_at_least(self.tree.available(self.leaf, key), asked)

    def room_fits(self) -> bool:
        """Whether the preemptor finds its places now; true where nobody asks."""
        if self.seats is not None:
            return self.seats.fit
        if self.room is None:
            return True
        self._uncharge()
        try:
            return self.room()
        finally:
            self._recharge()

    def fits(self, *, borrow: bool) -> bool:
        """Both."""
        if self.seats is not None and not self.seats.fit:
            return False
        return self.quota_fits(borrow=borrow) and self.room_fits()

    @property
    def looks_cheaply(self) -> bool:
        """Whether it costs nothing to ask for room after every step, and no return ever makes room."""
        return self.room is None or self.seats is not None

    def charge(self) -> None:
        """Count the preemptor's usage as if it were in, so that shares include it."""
        self.tree.add_usages(self.leaf, self.preemptor.usage)
        self.charged = True

    def uncharge(self) -> None:
        """The inverse of `charge`."""
        self.tree.remove_usages(self.leaf, self.preemptor.usage)
        self.charged = False

    def stream(self, queue: str, segment: int, policy: Policy) -> Iterator[Candidate]:
        """The candidates of one segment of a queue that may be asked to leave, in order."""
        if not self._lends(queue):
            return
        limit = highest_priority(self.preemptor.job, policy)
        for candidate in self.roster.of(queue)[segment]:
            if candidate.job.priority > limit and self.roster.by_priority:
                return
            if self.may_ask(candidate, policy):
                yield candidate
            elif not candidate.leaving and self._bearable.get(queue) == 0:
                return  # Nothing of this queue may be thrown away, and whoever comes next is not leaving.

    def may_ask(self, candidate: Candidate, policy: Policy) -> bool:
        """Whether a candidate still holds something that is needed, and its job may be pushed out."""
        preemptor = self.preemptor
        return (
            not preemptor.contested.isdisjoint(candidate.charges)
            and satisfies(preemptor.job, candidate.job, policy)
            and self._holds(candidate)
            and (self.only is None or candidate.job.id in self.only)
            and (not self.banned or candidate.id not in self.banned)
            and candidate.job.id != preemptor.job.id
            and self._lends(candidate.queue)
            and not self.too_dear(candidate)
            and not self._guards(candidate)
        )

    def owns_all(self, node: str) -> bool:
        """Whether nothing is borrowed below a node; of sliced cards the number is no part of the share."""
        return self.tree.share(node).zero and self.tree.inside(node, self.preemptor.contested)

    def bearable(self, queue: str) -> float:
        """What a job of a queue may lose at most for each of its cards, in seconds.

        There is no bound in its own queue, and none where the preemptor's queue stays inside what it owns, or
        a part of the tree around it, up to the one that is the other queue's rival. That a wider part
        borrows is the doing of others in it, who may well be pushed out in the same search.
        """
        known = self._bearable.get(queue)
        if known is None:
            known = self._bearable[queue] = self.share_loss_s if self._borrows_from(queue) else float("inf")
        return known

    def bearables(self, queues: Sequence[str]) -> list[float]:
        """`bearable` of several queues at one moment: the same for all that have one rival on this side."""
        known, sides = self._bearable, dict[str, float]()
        for queue in queues:
            if queue not in known:
                side = self._side(queue)
                if side not in sides:
                    sides[side] = self.bearable(queue)
                known[queue] = sides[side]
        return [known[queue] for queue in queues]

    def too_dear(self, candidate: Candidate) -> bool:
        """Whether a borrower would throw away more of a candidate's work than one may of another's."""
        bearable = self.bearable(candidate.queue)
        if bearable == float("inf") or candidate.leaving:
            return False
        return not bearable or candidate.work > bearable * gpus(candidate.charges)

    def _borrows_from(self, queue: str) -> bool:
        mine = self._side(queue)
        if not mine:
            return False
        if self.charged:
            return not self._owns_up_to(mine)
        self.charge()
        try:
            return not self._owns_up_to(mine)
        finally:
            self.uncharge()

    def _owns_up_to(self, top: str) -> bool:
        """Whether the preemptor's leaf, or one above it up to `top`, stays inside what it owns."""
        path = tuple(self.tree.path(self.leaf))
        return any(self.tree.inside(node, self.preemptor.contested) for node in path[: path.index(top) + 1])

    def _side(self, queue: str) -> str:
        """The preemptor's side, as a queue's rival sees it; empty where no bound holds between them."""
        if queue == self.preemptor.queue.id or self.share_loss_s == float("inf"):
            return ""
        mine, _ = self.tree.rivals(self.leaf, self.roster.snapshot.queues[queue].quota_node)
        return mine

    def _lends(self, queue: str) -> bool:
        """Whether a queue is the preemptor's own, or stood above its nominal when the cycle began."""
        own = self.preemptor.queue.id
        return queue == own or self.roster.stood_above(queue, self.preemptor.contested)

    def until(self, candidate: Candidate) -> float:
        """Until when its guaranteed run time protects a candidate, by what its queue uses now."""
        leaf = self.roster.snapshot.queues[candidate.queue].quota_node
        return self._end(candidate, inside=self.tree.inside(leaf, self.preemptor.contested))

    def _guards(self, candidate: Candidate) -> bool:
        if candidate.guarded <= self.roster.now or self.ignore_guard:
            return False
        inside = self._inside.get(candidate.queue)
        if inside is None:
            leaf = self.roster.snapshot.queues[candidate.queue].quota_node
            inside = self._inside[candidate.queue] = self.tree.inside(leaf, self.preemptor.contested)
        if self._end(candidate, inside=inside) <= self.roster.now:
            return False
        self.guarded.add(candidate.id)
        return True

    def _end(self, candidate: Candidate, *, inside: bool) -> float:
        return candidate.guarded if inside else min(candidate.guarded_borrowing, self.patience)

    def _holds(self, candidate: Candidate) -> bool:
        snapshot = self.roster.snapshot
        if candidate.whole:
            return snapshot.holds(candidate.job.id) > 0
        return candidate.tasks[0].id in snapshot.allocations

    def _uncharge(self) -> None:
        if self.charged:
            self.tree.remove_usages(self.leaf, self.preemptor.usage)

    def _recharge(self) -> None:
        if self.charged:
            self.tree.add_usages(self.leaf, self.preemptor.usage)


def may_go_above(queue: Queue, job: Job, options: PreemptionOptions) -> bool:
    """Whether a job may lift its queue's use above the nominal."""
    if not job.preemptible and options.beside_preemptible:
        return queue.allocation_mode is AllocationMode.DYNAMIC
    return may_borrow(queue, job, options.eviction_cap)
