"""Whom a preemptor could ask at all: told by the quota tree alone, before a single job is looked at.

Most waiting jobs wait because everybody holds what is theirs. That nobody stands above what he owns, or
that fairness would let no victim go, is seen from a few numbers for whole subtrees at once, while a search
would first list and sort all that run there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from quotas.tree import DominantResourceShare, is_at_least
from scheduling.engine.model import FlavorResource
from scheduling.engine.model.options import FairSharing, ShareStrategy
from scheduling.engine.preemption.contest import Contest
from scheduling.engine.preemption.fair import just
from scheduling.engine.preemption.policy import Policy, highest_priority, may_push_anyone
from scheduling.engine.preemption.reach import Reach


@dataclass(slots=True)
class Askable:
    """The queues of which a search could take somebody, with the policy for each.

    `freed` is, for the nodes above the preemptor and for each quota, the most that they could give.
    """

    policies: dict[str, Policy] = field(default_factory=dict)
    freed: dict[str, dict[FlavorResource, int]] = field(default_factory=dict)

    def hopeless(self, contest: Contest) -> bool:
        """Whether the request would not fit with everybody gone who might be asked."""
        tree, leaf = contest.tree, contest.leaf
        for key, amount in contest.preemptor.usage.items():
            if not amount:
                continue
            freed = {node: amounts.get(key, 0) for node, amounts in self.freed.items()}
            if not is_at_least(tree.available(leaf, key, freed), amount):
                return True
            if not contest.borrowing_allowed and tree.borrows(leaf, key, amount - freed[leaf]):
                return True
        return False


def askable(contest: Contest, fair: FairSharing | None, reach: Reach) -> Askable:
    """Whom to ask. No queue that is left out could give anybody; those named are no promise."""
    if fair is None:
        return _Survey(contest, None, reach).run()
    contest.charge()
    try:
        return _Survey(contest, fair, reach).run()
    finally:
        contest.uncharge()


class _Survey:
    """Goes up from the preemptor, and down into what stands beside its path."""

    def __init__(self, contest: Contest, fair: FairSharing | None, reach: Reach) -> None:
        self._contest, self._fair, self._reach = contest, fair, reach
        self._tree, self._contested = contest.tree, contest.preemptor.contested
        inside = self._tree.inside(contest.leaf, self._contested)
        self._within = fair is not None and fair.preempt_within_nominal and inside
        # Where equal shares will do, the other strategy accepts nobody else.
        strategies = fair.strategies if fair is not None else ()
        equal = tuple(each for each in strategies if each is ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE)
        self._mildest = equal[:1] or strategies[:1]
        self._found = Askable()
        self._sum: dict[FlavorResource, int] = {}

    def run(self) -> Askable:
        preemptor, leaf = self._contest.preemptor, self._contest.leaf
        rules = preemptor.queue.preemption
        if may_push_anyone(rules.within_queue):
            self._add((preemptor.queue.id,), rules.within_queue)
        self._found.freed[leaf] = dict(self._sum)
        reclaims, below = may_push_anyone(rules.reclaim), leaf
        for node in self._tree.path(leaf):
            if node == leaf:
                continue
            if reclaims:
                mine = None if self._within or self._fair is None else self._lowest(below)
                found: list[str] = []
                for rival in self._tree.children(node):
                    if rival != below and (mine is None or self._yields(rival, mine)):
                        found.extend(self._known_borrowers(rival))
                self._add(found, rules.reclaim)
            self._found.freed[node] = dict(self._sum)
            below = node
        return self._found

    def _add(self, queues: Sequence[str], policy: Policy) -> None:
        self._found.policies.update(dict.fromkeys(queues, policy))
        limit = highest_priority(self._contest.preemptor.job, policy)
        for key, amount in self._reach.upto(queues, limit).items():
            self._sum[key] = self._sum.get(key, 0) + amount

    def _lowest(self, node: str) -> DominantResourceShare:
        """The least that the preemptor's side could come to by giving up all that it could."""
        return self._tree.share(node, {key: -amount for key, amount in self._sum.items()})

    def _yields(self, rival: str, mine: DominantResourceShare) -> bool:
        """Whether a strategy would accept a victim below: the other side's share can only fall."""
        theirs = self._tree.share(rival)
        return any(just(strategy, mine, theirs, theirs) for strategy in self._mildest)

    def _known_borrowers(self, node: str) -> Sequence[str]:
        """Beside the preemptor's path: what it asks for is charged elsewhere."""
        return self._reach.borrowers(self._tree, node, self._contested, lambda: self._borrowers(node))

    def _borrowers(self, node: str) -> Iterator[str]:
        """Queues below that use more than their nominal of something that is needed.

        Fair sharing goes into no subtree that takes nothing which others could have.
        """
        tree, wanted = self._tree, self._fair is not None
        if wanted and self._contest.owns_all(node):
            return
        roster = self._contest.roster
        stood = roster.above(self._contested)
        for leaf in tree.leaves_above(node, self._contested):
            if leaf in stood and not (wanted and self._shut_off(leaf, node)):
                yield from roster.queues_at(leaf)

    def _shut_off(self, leaf: str, node: str) -> bool:
        """Whether a subtree between a leaf that borrows and a node above takes nothing of others."""
        if leaf == node or self._tree.parent(leaf) == node:
            return False
        between = takewhile(lambda above: above != node, self._tree.path(leaf))
        return any(map(self._contest.owns_all, between))
