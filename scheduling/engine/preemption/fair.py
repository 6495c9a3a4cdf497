"""Fair preemption: take from whoever has the largest share, as long as that does not turn the tables.

With the preemptor's usage counted, the search goes down from the root into the child with the highest
dominant resource share, over and over, and takes the first candidate of the queue it comes to that a
strategy accepts. Shares are compared at the two children of the lowest node that both queues share.
Source: Kueue's fair sharing preemption, as stated in the quota reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from itertools import chain

from quotas.tree import DominantResourceShare
from scheduling.engine.model import EvictRule, FlavorResource
from scheduling.engine.model.options import FairSharing, ShareStrategy
from scheduling.engine.preemption.candidates import Candidate, across
from scheduling.engine.preemption.contest import Contest, Victim
from scheduling.engine.preemption.policy import Policy
from scheduling.engine.preemption.trial import Removal

Reorder = Callable[[str, Iterator[Candidate]], Iterator[Candidate]]


class Pile:
    """The candidates of one queue, the next one on top; nobody is looked for before he is asked for."""

    def __init__(self, queue: str, waiting: Iterator[Candidate]) -> None:
        self.queue = queue
        self._waiting = waiting
        self._top: Candidate | None = None
        self._looked = False

    @property
    def top(self) -> Candidate | None:
        """The next candidate; None when there is none left."""
        if not self._looked:
            self._top, self._looked = next(self._waiting, None), True
        return self._top

    def pop(self) -> Candidate | None:
        """Take the top candidate."""
        top, self._looked = self.top, False
        return top


@dataclass(slots=True, eq=False)
class Descent:
    """One pass over the tree: which nodes still lead to candidates.

    `piles` maps leaves to candidates. Nodes are pruned for good: a share never rises while others leave.
    """

    contest: Contest
    piles: dict[str, Pile]
    _open: set[str] = field(default_factory=set)
    _path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        tree = self.contest.tree
        self._path = tuple(tree.path(self.contest.leaf))
        self._open = {node for leaf in self.piles for node in tree.path(leaf)}

    def next(self) -> Pile | None:
        """The pile to take from now; None when nobody is left."""
        root = self._path[-1]
        while root in self._open:
            pile = self._into(root)
            if pile is not None:
                return pile
        return None

    def drop(self, pile: Pile) -> None:
        """Ask this queue no more."""
        self._open.discard(self._leaf(pile))

    def _into(self, node: str) -> Pile | None:
        if node in self.piles:
            return self._leaf_at(node)
        best = ""
        for child in self.contest.tree.children(node):
            if child in self._open and self._leads_on(child) and (not best or self._before(child, best)):
                best = child
        if not best:
            self._open.discard(node)
            return None
        return self._into(best)

    def _leaf_at(self, node: str) -> Pile | None:
        pile = self.piles[node]
        if pile.top is None:
            self._open.discard(node)
            return None
        return pile

    def _leads_on(self, node: str) -> bool:
        if node not in self._path and self.contest.owns_all(node):
            self._open.discard(node)
            return False
        return True

    def _before(self, node: str, other: str) -> bool:
        """A higher share first; then inner nodes before leaves; then the better first candidate."""
        mine, theirs = self.contest.tree.share(node), self.contest.tree.share(other)
        if mine != theirs:
            return mine > theirs
        if (node in self.piles) != (other in self.piles):
            return node not in self.piles
        first, second = self._first(node), self._first(other)
        if first is None or second is None:
            return False
        own = self.contest.preemptor.queue.id
        return across(first, own) < across(second, own)

    def _first(self, node: str) -> Candidate | None:
        return self.piles[node].top if node in self.piles else None

    def _leaf(self, pile: Pile) -> str:
        return self.contest.roster.snapshot.queues[pile.queue].quota_node


class FairField:
    """The candidates of one contest, and the order in which fairness lets them be taken."""

    def __init__(
        self,
        contest: Contest,
        fair: FairSharing,
        reorder: Reorder | None = None,
    ) -> None:
        """`reorder` arranges each queue's line anew. Usage must be charged before anybody is taken."""
        self.contest = contest
        self.fair = fair
        self._reorder = reorder
        self._own = contest.preemptor.queue.id
        self._above = frozenset(contest.tree.path(contest.leaf))
        self._is_within: bool | None = None

    @property
    def within(self) -> bool:
        """Whether the preemptor takes back what is its own, whatever the shares; told when first asked."""
        if self._is_within is None:
            self._is_within = self.fair.preempt_within_nominal and self._within_nominal()
        return self._is_within

    def open(self, queue: str, strategy: ShareStrategy) -> bool:
        """Whether anybody of a queue could be taken out of turn as things stand."""
        if queue == self._own:
            return True
        tree, leaf = self.contest.tree, self._leaf(queue)
        if tree.inside(leaf, self.contest.preemptor.contested):
            return False
        if any(self.contest.owns_all(node) for node in tree.path(leaf) if node not in self._above):
            return False
        return self.accepts(queue, strategy)

    def accepts(self, queue: str, strategy: ShareStrategy) -> bool:
        """Whether the shares as they are now would let somebody of a queue go."""
        if self.within or queue == self._own:
            return True
        mine, theirs = self._rivals(queue)
        before = self.contest.tree.share(theirs)
        return just(strategy, self.contest.tree.share(mine), before, before)

    def accepting(self, queues: Iterable[str], strategy: ShareStrategy) -> set[str]:
        """The queues of which `accepts` is true; told once for all that stand in one part of the tree."""
        queues = set(queues)
        if self.within:
            return queues
        parts: dict[tuple[str, str], set[str]] = {}
        for queue in queues - {self._own}:
            parts.setdefault(self._rivals(queue), set()).add(queue)
        share, found = self.contest.tree.share, queues & {self._own}
        for (mine, theirs), those in parts.items():
            before = share(theirs)
            if just(strategy, share(mine), before, before):
                found |= those
        return found

    def take_one(self, candidate: Candidate, strategy: ShareStrategy) -> Victim | None:
        """Remove a candidate of an open queue out of turn, if the strategy allows it."""
        if candidate.queue == self._own:
            return self._take(candidate, EvictRule.IN_QUEUE_PRIORITY)
        if self.within:
            return self._take(candidate, EvictRule.RECLAIM_NOMINAL)
        mine, theirs = self._rivals(candidate.queue)
        tree = self.contest.tree
        preemptor, before = tree.share(mine), tree.share(theirs)
        victim = self._take(candidate, EvictRule.FAIR_SHARE)
        if just(strategy, preemptor, before, tree.share(theirs)):
            return victim
        self.contest.trial.restore(victim.removal)
        return None

    def take(self) -> Iterator[Victim]:
        """Remove candidates one by one, as far as the strategies allow."""
        within = self.within
        descent = Descent(self.contest, self._piles())
        retry: dict[str, Candidate] = {}
        while (pile := descent.next()) is not None:
            if pile.queue == self._own:
                yield self._take(pile.pop(), EvictRule.IN_QUEUE_PRIORITY)
            elif within:
                yield self._take(pile.pop(), EvictRule.RECLAIM_NOMINAL)
            else:
                victim = self._first_that_passes(descent, pile, retry)
                if victim is not None:
                    yield victim
        if len(self.fair.strategies) > 1:
            yield from self._second_pass(retry)

    def _first_that_passes(self, descent: Descent, pile: Pile, retry: dict[str, Candidate]) -> Victim | None:
        """Scan one queue with the first strategy. `retry` keeps the first that it refuses."""
        mine, theirs = self._rivals(pile.queue)
        tree = self.contest.tree
        preemptor, before = tree.share(mine), tree.share(theirs)
        # The other side's share can only fall: what does not pass at its present share never does.
        if pile.top is not None and not just(self.fair.strategies[0], preemptor, before, before):
            retry.setdefault(pile.queue, pile.top)
            descent.drop(pile)
            return None
        refused: set[frozenset[tuple[FlavorResource, int]]] = set()
        while (candidate := pile.pop()) is not None:
            like = frozenset(candidate.charges.items())
            if like in refused and not self.contest.trial.touches(candidate):
                # While nothing leaves, what gives back the same comes out the same.
                retry.setdefault(pile.queue, candidate)
                continue
            removal = self.contest.trial.remove(candidate)
            if just(self.fair.strategies[0], preemptor, before, tree.share(theirs)):
                return self._victim(candidate, removal, EvictRule.FAIR_SHARE)
            self.contest.trial.restore(removal)
            if removal.charges is candidate.charges:
                refused.add(like)
            retry.setdefault(pile.queue, candidate)
        return None

    def _second_pass(self, retry: Mapping[str, Candidate]) -> Iterator[Victim]:
        """The rule on shares before the eviction, for one candidate of each queue."""
        piles = {self._leaf(queue): Pile(queue, iter((first,))) for queue, first in retry.items()}
        descent = Descent(self.contest, piles)
        while (pile := descent.next()) is not None:
            mine, theirs = self._rivals(pile.queue)
            if self.contest.tree.share(mine) < self.contest.tree.share(theirs):
                yield self._take(pile.pop(), EvictRule.FAIR_SHARE)
            descent.drop(pile)

    def _take(self, candidate: Candidate | None, rule: EvictRule) -> Victim:
        if candidate is None:
            raise AssertionError("a pile without candidates leads nowhere")
        removal = self.contest.trial.remove(candidate)
        return self._victim(candidate, removal, rule)

    def _victim(self, candidate: Candidate, removal: Removal, rule: EvictRule) -> Victim:
        justified = partial(self._justified, candidate, removal, rule)
        return Victim(candidate=candidate, rule=rule, removal=removal, justified=justified)

    def _justified(self, candidate: Candidate, removal: Removal, rule: EvictRule) -> bool:
        """Whether the rule holds in the end; called with the candidate's charges put back."""
        if rule is EvictRule.IN_QUEUE_PRIORITY:
            return True
        tree = self.contest.tree
        if tree.inside(self._leaf(candidate.queue), self.contest.preemptor.contested):
            return False
        if rule is EvictRule.RECLAIM_NOMINAL:
            return self._within_nominal()
        mine, theirs = self._rivals(candidate.queue)
        preemptor, before = tree.share(mine), tree.share(theirs)
        self.contest.trial.uncharge(removal)
        after = tree.share(theirs)
        self.contest.trial.charge(removal)
        return any(just(strategy, preemptor, before, after) for strategy in self.fair.strategies)

    def _within_nominal(self) -> bool:
        return self.contest.tree.inside(self.contest.leaf, self.contest.preemptor.contested)

    def _rivals(self, queue: str) -> tuple[str, str]:
        """The children of the lowest common node above the preemptor's queue and another one."""
        return self.contest.tree.rivals(self.contest.leaf, self._leaf(queue))

    def _piles(self) -> dict[str, Pile]:
        asked = self.contest.policies
        return {self._leaf(queue): self._pile(queue, policy) for queue, policy in asked.items()}

    def _pile(self, queue: str, policy: Policy) -> Pile:
        lines = [self.contest.stream(queue, segment, policy) for segment in range(3)]
        # Without users' loads the segments follow one another in rank.
        by_load = merge(*lines, key=lambda c: (not c.leaving, -(c.load or 0.0), c.rank))
        line = chain.from_iterable(lines) if self.contest.roster.by_priority else by_load
        return Pile(queue, line if self._reorder is None else self._reorder(queue, line))

    def _leaf(self, queue: str) -> str:
        return self.contest.roster.snapshot.queues[queue].quota_node


def just(
    strategy: ShareStrategy,
    preemptor: DominantResourceShare,
    before: DominantResourceShare,
    after: DominantResourceShare,
) -> bool:
    """Whether a strategy accepts an eviction: the preemptor's share with the new job against the other
    side's before and after it."""
    if strategy is ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE:
        return preemptor <= after
    return preemptor < before
