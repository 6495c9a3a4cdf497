"""The state that all parts of one search for victims share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quotas.tree import QuotaTree, is_at_least
from scheduling.engine.model import AllocationMode, EvictRule, FlavorResource, Job, Queue
from scheduling.engine.model.options import PreemptionOptions
from scheduling.engine.preemption.candidates.candidates import CandidateIndex, VictimCandidate
from scheduling.engine.preemption.candidates.eviction_cost import count_cards
from scheduling.engine.preemption.candidates.policy import PreemptPolicy, max_victim_priority, may_preempt
from scheduling.engine.preemption.trials.slot_counts import FreeSlotCounter
from scheduling.engine.preemption.trials.targets import PlacementCheck, Preemptor
from scheduling.engine.preemption.trials.trial import Removal, RemovalTrial
from scheduling.engine.quota.shortage import may_borrow


@dataclass(slots=True, eq=False, kw_only=True)
class Victim:
    """A candidate that was removed in a search.

    `rule` is the rule by which it was taken, `removal` its allocations and charges. `is_justified` returns
    whether the rule still allows the eviction, with the victim's own charges restored.
    """

    candidate: VictimCandidate
    rule: EvictRule
    removal: Removal
    is_justified: Callable[[], bool]


@dataclass(slots=True, eq=False)
class VictimSearchBudget:
    """The number of fit checks that a search has made, `steps`, and the limit."""

    budget: int
    steps: int = 0
    exhausted: bool = False

    def lower_to(self, steps: int) -> None:
        """Allow at most `steps` further checks."""
        self.budget = min(self.budget, self.steps + steps)

    def spend_step(self) -> bool:
        """Count one check; return False if the budget is exhausted."""
        if self.steps >= self.budget:
            self.exhausted = True
            return False
        self.steps += 1
        return True


@dataclass(slots=True, eq=False, kw_only=True)
class PreemptionContext:
    """One search for victims: the preemptor, the candidates, and the limits of the search.

    `policies` holds the queues that may contain victims with the policy for each. `reordered_queues` are the
    queues whose candidates a second choice sorts by cost per gain. `excluded` are ids of candidates that
    proved unjustified, `protected` ids of candidates that only their guaranteed run time protects;
    `ignore_protection` searches without guaranteed run times. `protection_deadline` is the time until which
    the protection of borrowed use counts. With `slot_counter` free slots are counted, and `placement_check`
    is not called. `any_victims` accepts any victims instead of those with the least loss. `only_jobs`
    restricts the search to these jobs. `max_loss_s` bounds the loss that one borrower may cause another
    (`PreemptionOptions`). `charged` says that the tree counts the preemptor's usage.
    """

    index: CandidateIndex
    preemptor: Preemptor
    trial: RemovalTrial
    search_budget: VictimSearchBudget
    placement_check: PlacementCheck | None = None
    slot_counter: FreeSlotCounter | None = None
    policies: Mapping[str, PreemptPolicy] = field(default_factory=dict)
    excluded: set[str] = field(default_factory=set)
    protected: set[str] = field(default_factory=set)
    ignore_protection: bool = False
    protection_deadline: float = float("inf")
    any_victims: bool = False
    only_jobs: frozenset[str] | None = None
    max_loss_s: float = float("inf")
    charged: bool = False
    reordered_queues: frozenset[str] | None = None
    _queue_inside_nominal: dict[str, bool] = field(default_factory=dict)
    _max_losses: dict[str, float] = field(default_factory=dict)
    _missing_key: FlavorResource | None = None

    @property
    def tree(self) -> QuotaTree[FlavorResource]:
        """The quota tree, without the usage that the search removed."""
        return self.index.snapshot.quota

    @property
    def leaf(self) -> str:
        """The preemptor's leaf in the quota tree."""
        return self.preemptor.queue.quota_node

    @property
    def protects_borrowed_use(self) -> bool:
        """True if guaranteed run times of borrowed use count for the preemptor now."""
        return not self.ignore_protection and self.protection_deadline > self.index.now

    @property
    def borrowing_allowed(self) -> bool:
        """True if the preemptor's queue may use more than its own nominal with the preemptor admitted.

        A job that must not borrow may start above the nominal beside preemptible jobs: it is those that
        borrow then.
        """
        return may_exceed_nominal(self.preemptor.queue, self.preemptor.job, self.index.options)

    def quota_fits(self, *, borrow: bool) -> bool:
        """Return whether quota admits the preemptor now."""
        # The quota that was missing at the last check is most likely missing still.
        if self._missing_key is not None and not self._key_fits(self._missing_key, borrow=borrow):
            return False
        self._missing_key = next(
            (key for key in self.preemptor.usage if not self._key_fits(key, borrow=borrow)), None
        )
        return self._missing_key is None

    def _key_fits(self, key: FlavorResource, *, borrow: bool) -> bool:
        amount = self.preemptor.usage[key]
        # A charge lowers what is available by its amount: once charged, it fits if nothing is overdrawn.
        asked = 0 if self.charged else amount
        if not borrow and self.tree.borrows(self.leaf, key, asked):
            return False
        return not amount or is_at_least(self.tree.available(self.leaf, key), asked)

    def placement_fits(self) -> bool:
        """Return whether the preemptor's tasks can be placed now; True without a placement check."""
        if self.slot_counter is not None:
            return self.slot_counter.fits
        if self.placement_check is None:
            return True
        if not self.charged:
            return self.placement_check()
        self.release_preemptor()
        try:
            return self.placement_check()
        finally:
            self.charge_preemptor()

    def preemptor_fits(self, *, borrow: bool) -> bool:
        """Return whether both quota and placement admit the preemptor now."""
        if self.slot_counter is not None and not self.slot_counter.fits:
            return False
        return self.quota_fits(borrow=borrow) and self.placement_fits()

    def fits_without(self, victim: Victim, *, borrow: bool) -> bool:
        """Return whether the preemptor fits with a victim restored, and leave it restored if so."""
        self.trial.restore_removal(victim.removal)
        self.search_budget.steps += 1
        if self.preemptor_fits(borrow=borrow):
            return True
        self.trial.remove_again(victim.removal)
        return False

    @property
    def checks_placement_cheaply(self) -> bool:
        """True if checking placement after every step is free and no restored victim creates room."""
        return self.placement_check is None or self.slot_counter is not None

    def charge_preemptor(self) -> None:
        """Charge the preemptor's usage to the tree, so that shares include it."""
        self.tree.add_usages(self.leaf, self.preemptor.usage)
        self.charged = True

    def release_preemptor(self) -> None:
        """Undo `charge_preemptor`."""
        self.tree.remove_usages(self.leaf, self.preemptor.usage)
        self.charged = False

    def eligible_candidates(
        self, queue: str, segment: int, policy: PreemptPolicy
    ) -> Iterator[VictimCandidate]:
        """Yield the candidates of one segment of a queue that may be evicted, in order."""
        if not self._is_reclaimable(queue):
            return
        limit = max_victim_priority(self.preemptor.job, policy)
        for candidate in self.index.queue_segments(queue)[segment]:
            if candidate.job.priority > limit and self.index.sorts_by_priority:
                return
            if self.is_eligible(candidate, policy):
                yield candidate
            elif not candidate.leaving and self._max_losses.get(queue) == 0:
                return  # No work of this queue may be lost; later ones run.

    def is_eligible(self, candidate: VictimCandidate, policy: PreemptPolicy) -> bool:
        """Return whether a candidate has a contested allocation left, and its job may be preempted."""
        preemptor = self.preemptor
        return (
            not preemptor.contested.isdisjoint(candidate.charges)
            and may_preempt(preemptor.job, candidate.job, policy)
            and self._still_allocated(candidate)
            and (self.only_jobs is None or candidate.job.id in self.only_jobs)
            and (not self.excluded or candidate.id not in self.excluded)
            and candidate.job.id != preemptor.job.id
            and self._is_reclaimable(candidate.queue)
            and not self.exceeds_max_loss(candidate)
            and not self._is_protected(candidate)
        )

    def borrows_nothing(self, node: str) -> bool:
        """Return whether nothing is borrowed below a node; sliced cards are no part of a share."""
        return self.tree.share(node).zero and self.tree.inside(node, self.preemptor.contested)

    def max_loss(self, queue: str) -> float:
        """Return the loss that a job of a queue may suffer for each of its cards, in seconds.

        The bound is infinite in the preemptor's own queue. It is infinite, too, while the preemptor's queue,
        or a part of the tree around it up to the other queue's rival, stays inside its quota: that a wider
        part borrows is due to other queues in it, which the same search may preempt.
        """
        known = self._max_losses.get(queue)
        if known is None:
            known = self._max_losses[queue] = self.max_loss_s if self._borrows_from(queue) else float("inf")
        return known

    def max_losses(self, queues: Sequence[str]) -> list[float]:
        """Return `max_loss` of several queues; queues with the same rival share one computation."""
        known, sides = self._max_losses, dict[str, float]()
        for queue in queues:
            if queue not in known:
                side = self._preemptor_side(queue)
                if side not in sides:
                    sides[side] = self.max_loss(queue)
                known[queue] = sides[side]
        return [known[queue] for queue in queues]

    def exceeds_max_loss(self, candidate: VictimCandidate) -> bool:
        """Return whether the eviction costs more work than one borrower may take from another."""
        max_loss = self.max_loss(candidate.queue)
        if max_loss == float("inf") or candidate.leaving:
            return False
        return not max_loss or candidate.weighted_loss > max_loss * count_cards(candidate.charges)

    def _borrows_from(self, queue: str) -> bool:
        mine = self._preemptor_side(queue)
        if not mine:
            return False
        if self.charged:
            return not self._is_inside_up_to(mine)
        self.charge_preemptor()
        try:
            return not self._is_inside_up_to(mine)
        finally:
            self.release_preemptor()

    def _is_inside_up_to(self, top: str) -> bool:
        """Return whether the preemptor's leaf, or a node above it up to `top`, stays inside its quota."""
        path = tuple(self.tree.path(self.leaf))
        return any(self.tree.inside(node, self.preemptor.contested) for node in path[: path.index(top) + 1])

    def _preemptor_side(self, queue: str) -> str:
        """Return the child of the common ancestor on the preemptor's side; empty without a bound."""
        if queue == self.preemptor.queue.id or self.max_loss_s == float("inf"):
            return ""
        mine, _ = self.tree.rivals(self.leaf, self.index.snapshot.queues[queue].quota_node)
        return mine

    def _is_reclaimable(self, queue: str) -> bool:
        """Return whether a queue is the preemptor's own, or was above its nominal when the cycle began."""
        own = self.preemptor.queue.id
        return queue == own or self.index.was_above_nominal(queue, self.preemptor.contested)

    def protected_until(self, candidate: VictimCandidate) -> float:
        """Return the end of a candidate's guaranteed run time, by its queue's present usage."""
        leaf = self.index.snapshot.queues[candidate.queue].quota_node
        return self._protection_end(candidate, inside=self.tree.inside(leaf, self.preemptor.contested))

    def _is_protected(self, candidate: VictimCandidate) -> bool:
        if candidate.protected_until <= self.index.now or self.ignore_protection:
            return False
        inside = self._queue_inside_nominal.get(candidate.queue)
        if inside is None:
            leaf = self.index.snapshot.queues[candidate.queue].quota_node
            inside = self._queue_inside_nominal[candidate.queue] = self.tree.inside(
                leaf, self.preemptor.contested
            )
        if self._protection_end(candidate, inside=inside) <= self.index.now:
            return False
        self.protected.add(candidate.id)
        return True

    def _protection_end(self, candidate: VictimCandidate, *, inside: bool) -> float:
        return (
            candidate.protected_until
            if inside
            else min(candidate.protected_until_borrowing, self.protection_deadline)
        )

    def _still_allocated(self, candidate: VictimCandidate) -> bool:
        snapshot = self.index.snapshot
        if candidate.whole:
            return snapshot.count_tasks(candidate.job.id) > 0
        return candidate.tasks[0].id in snapshot.allocations


def may_exceed_nominal(queue: Queue, job: Job, options: PreemptionOptions) -> bool:
    """Return whether a job may raise its queue's usage above the nominal."""
    if not job.preemptible and options.nominal_counts_non_preemptible_only:
        return queue.allocation_mode is AllocationMode.DYNAMIC
    return may_borrow(queue, job, options.eviction_cap)
