"""The queues in which a search could find victims, from the quota tree alone.

Most waiting jobs wait because every queue uses no more than its own quota. A few sums for whole subtrees show
that no queue exceeds its nominal, or that fair sharing would refuse every victim; a search would have to list
and sort all running jobs first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

from quotas.tree import DominantResourceShare, is_at_least
from scheduling.engine.model import FlavorResource
from scheduling.engine.model.options import FairSharing, ShareStrategy
from scheduling.engine.preemption.candidates.freeable_quota import FreeableQuota
from scheduling.engine.preemption.candidates.policy import (
    PreemptPolicy,
    allows_any_victim,
    max_victim_priority,
)
from scheduling.engine.preemption.strategies.fair import strategy_accepts
from scheduling.engine.preemption.trials.context import PreemptionContext


@dataclass(slots=True)
class PreemptibleQueues:
    """The queues in which a search could find victims, with the policy for each.

    `freeable` maps each node on the preemptor's path to an upper bound of what its queues could release, by
    quota.
    """

    policies: dict[str, PreemptPolicy] = field(default_factory=dict)
    freeable: dict[str, dict[FlavorResource, int]] = field(default_factory=dict)

    def is_infeasible(self, context: PreemptionContext) -> bool:
        """Return whether the request would not fit even with all candidates evicted."""
        tree, leaf = context.tree, context.leaf
        for key, amount in context.preemptor.usage.items():
            if not amount:
                continue
            freed = {node: amounts.get(key, 0) for node, amounts in self.freeable.items()}
            if not is_at_least(tree.available(leaf, key, freed), amount):
                return True
            if not context.borrowing_allowed and tree.borrows(leaf, key, amount - freed[leaf]):
                return True
        return False


def find_preemptible_queues(
    context: PreemptionContext, fair: FairSharing | None, reach: FreeableQuota
) -> PreemptibleQueues:
    """Return the queues that may contain victims: no other queue can, and those returned need not."""
    if fair is None:
        return _QueueSurvey(context, None, reach).run()
    context.charge_preemptor()
    try:
        return _QueueSurvey(context, fair, reach).run()
    finally:
        context.release_preemptor()


class _QueueSurvey:
    """A walk up the preemptor's path, and down into the subtrees beside it."""

    def __init__(self, context: PreemptionContext, fair: FairSharing | None, reach: FreeableQuota) -> None:
        self._context, self._fair, self._reach = context, fair, reach
        self._tree, self._contested = context.tree, context.preemptor.contested
        inside = self._tree.inside(context.leaf, self._contested)
        self._reclaims_nominal = fair is not None and fair.preempt_within_nominal and inside
        # LESS_OR_EQUAL_FINAL_SHARE accepts every queue that the other strategy accepts.
        strategies = fair.strategies if fair is not None else ()
        equal = tuple(each for each in strategies if each is ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE)
        self._widest_strategies = equal[:1] or strategies[:1]
        self._found = PreemptibleQueues()
        self._sum: dict[FlavorResource, int] = {}

    def run(self) -> PreemptibleQueues:
        preemptor, leaf = self._context.preemptor, self._context.leaf
        rules = preemptor.queue.preemption
        if allows_any_victim(rules.within_queue):
            self._add((preemptor.queue.id,), rules.within_queue)
        self._found.freeable[leaf] = dict(self._sum)
        reclaims, below = allows_any_victim(rules.reclaim), leaf
        for node in self._tree.path(leaf):
            if node == leaf:
                continue
            if reclaims:
                mine = None if self._reclaims_nominal or self._fair is None else self._lowest_share(below)
                found: list[str] = []
                loss_bound = _LossBound(self._context, self._found.freeable, below)
                for rival in self._tree.children(node):
                    if rival != below and (mine is None or self._may_yield(rival, mine)):
                        found.extend(loss_bound.filter_queues(rival, self._cached_borrowers(rival)))
                self._add(found, rules.reclaim)
            self._found.freeable[node] = dict(self._sum)
            below = node
        return self._found

    def _add(self, queues: Sequence[str], policy: PreemptPolicy) -> None:
        self._found.policies.update(dict.fromkeys(queues, policy))
        limit = max_victim_priority(self._context.preemptor.job, policy)
        for key, amount in self._reach.freeable_amounts(queues, limit).items():
            self._sum[key] = self._sum.get(key, 0) + amount

    def _lowest_share(self, node: str) -> DominantResourceShare:
        """Return the lowest share that the preemptor's side could reach by evictions of its own."""
        return self._tree.share(node, {key: -amount for key, amount in self._sum.items()})

    def _may_yield(self, rival: str, mine: DominantResourceShare) -> bool:
        """Return whether a strategy could accept a victim below `rival`, whose share evictions only lower."""
        theirs = self._tree.share(rival)
        # No strategy takes anything from who borrows nothing, unless the preemptor borrows nothing either.
        if theirs.zero and not mine.zero:
            return False
        return any(strategy_accepts(strategy, mine, theirs, theirs) for strategy in self._widest_strategies)

    def _cached_borrowers(self, node: str) -> Sequence[str]:
        """Return the borrowers below a node off the preemptor's path, which its charge does not change."""
        return self._reach.cached_borrowers(self._tree, node, self._contested, lambda: self._borrowers(node))

    def _borrowers(self, node: str) -> Iterator[str]:
        """Yield queues below a node that use more than their nominal of a contested quota.

        Fair sharing skips every subtree that borrows nothing.
        """
        tree, wanted = self._tree, self._fair is not None
        if wanted and self._context.borrows_nothing(node):
            return
        index = self._context.index
        above_nominal = index.leaves_above_nominal(self._contested)
        for leaf in tree.leaves_above(node, self._contested):
            if leaf in above_nominal and not (wanted and self._is_cut_off(leaf, node)):
                yield from index.queues_at(leaf)

    def _is_cut_off(self, leaf: str, node: str) -> bool:
        """Return whether a subtree between a borrowing leaf and a node above it borrows nothing."""
        if leaf == node or self._tree.parent(leaf) == node:
            return False
        between = takewhile(lambda above: above != node, self._tree.path(leaf))
        return any(map(self._context.borrows_nothing, between))


class _LossBound:
    """Decides whether `PreemptionContext.max_loss` bounds the loss of the queues beside one node of the
    preemptor's path.

    The bound of a queue holds from the moment when its candidates are first examined: it may be lifted if
    victims on the preemptor's side were removed before and that side then fits in its quota.
    """

    def __init__(
        self, context: PreemptionContext, freeable: Mapping[str, Mapping[FlavorResource, int]], side: str
    ) -> None:
        """`side` is the node of the path, `freeable` what could be released below it and the nodes before."""
        self._context, self._tree, self._side = context, context.tree, side
        above = self._tree.parent(side)
        self._path = list(takewhile(lambda node: node != above, self._tree.path(context.leaf)))
        self._freeable = freeable
        self._applies = context.max_loss_s != float("inf") and not self._fits_inside({})

    def filter_queues(self, rival: str, queues: Sequence[str]) -> Sequence[str]:
        """Return the queues below a rival of the side that may have candidates within the bound."""
        if not self._applies or not queues:
            return queues
        index, limit = self._context.index, self._context.max_loss_s
        within = [name for name in queues if index.min_loss_per_card(name) <= limit]
        if self._never_lifted or (not within and self._is_examined_first(rival)):
            return within
        return queues

    @cached_property
    def _never_lifted(self) -> bool:
        return not self._fits_inside(self._freeable)

    def _is_examined_first(self, rival: str) -> bool:
        """Return whether fair sharing examines all queues of a rival before any victim below the side."""
        return self._tree.share(rival) > self._tree.share(self._side)

    def _fits_inside(self, freed: Mapping[str, Mapping[FlavorResource, int]]) -> bool:
        """Return whether any node of the side fits in its quota without what is freed below it."""
        contested = self._context.preemptor.contested
        return any(
            not any(self._tree.borrows(node, key, -freed.get(node, {}).get(key, 0)) for key in contested)
            for node in self._path
        )
