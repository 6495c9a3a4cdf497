"""Fair preemption: evict from the queue with the largest share, as long as that does not reverse the order.

With the preemptor's usage charged, the search descends from the root into the child with the highest dominant
resource share, and takes the first candidate of the leaf that a strategy accepts. Shares are compared at the
two children of the lowest common ancestor of both queues. Source: Kueue, KEP-1714 "Fair sharing", section
"Preemption algorithm".
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
from scheduling.engine.preemption.candidates.candidates import VictimCandidate, cross_queue_key
from scheduling.engine.preemption.candidates.policy import PreemptPolicy
from scheduling.engine.preemption.trials.context import PreemptionContext, Victim
from scheduling.engine.preemption.trials.trial import Removal

Reorder = Callable[[str, Iterator[VictimCandidate]], Iterator[VictimCandidate]]


class CandidateStream:
    """The candidates of one queue, fetched one at a time."""

    def __init__(self, queue: str, waiting: Iterator[VictimCandidate]) -> None:
        self.queue = queue
        self._candidates = waiting
        self._first: VictimCandidate | None = None
        self._fetched = False

    @property
    def first(self) -> VictimCandidate | None:
        """The next candidate; None when there is none left."""
        if not self._fetched:
            self._first, self._fetched = next(self._candidates, None), True
        return self._first

    def pop_first(self) -> VictimCandidate | None:
        """Remove and return the next candidate."""
        top, self._fetched = self.first, False
        return top


@dataclass(slots=True, eq=False)
class ShareDescent:
    """One pass over the tree by share.

    `streams` maps leaves to their candidates. A node is pruned for good: its share never rises while the
    search removes jobs.
    """

    context: PreemptionContext
    streams: dict[str, CandidateStream]
    _open_nodes: set[str] = field(default_factory=set)
    _path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        tree = self.context.tree
        self._path = tuple(tree.path(self.context.leaf))
        self._open_nodes = {node for leaf in self.streams for node in tree.path(leaf)}

    def next_stream(self) -> CandidateStream | None:
        """Return the stream of the queue to take from now; None when no candidate is left."""
        root = self._path[-1]
        while root in self._open_nodes:
            stream = self._descend_from(root)
            if stream is not None:
                return stream
        return None

    def drop_stream(self, stream: CandidateStream) -> None:
        """Exclude a queue from the rest of the pass."""
        self._open_nodes.discard(self._leaf_of(stream))

    def _descend_from(self, node: str) -> CandidateStream | None:
        if node in self.streams:
            return self._stream_at(node)
        best = ""
        for child in self.context.tree.children(node):
            if (
                child in self._open_nodes
                and self._may_lead_to_candidates(child)
                and (not best or self._precedes(child, best))
            ):
                best = child
        if not best:
            self._open_nodes.discard(node)
            return None
        return self._descend_from(best)

    def _stream_at(self, node: str) -> CandidateStream | None:
        stream = self.streams[node]
        if stream.first is None:
            self._open_nodes.discard(node)
            return None
        return stream

    def _may_lead_to_candidates(self, node: str) -> bool:
        if node not in self._path and self.context.borrows_nothing(node):
            self._open_nodes.discard(node)
            return False
        return True

    def _precedes(self, node: str, other: str) -> bool:
        """Return whether a node precedes another: higher share, inner nodes, better first candidate."""
        mine, theirs = self.context.tree.share(node), self.context.tree.share(other)
        if mine != theirs:
            return mine > theirs
        if (node in self.streams) != (other in self.streams):
            return node not in self.streams
        first, second = self._first_candidate(node), self._first_candidate(other)
        if first is None or second is None:
            return False
        own = self.context.preemptor.queue.id
        return cross_queue_key(first, own) < cross_queue_key(second, own)

    def _first_candidate(self, node: str) -> VictimCandidate | None:
        return self.streams[node].first if node in self.streams else None

    def _leaf_of(self, stream: CandidateStream) -> str:
        return self.context.index.snapshot.queues[stream.queue].quota_node


class FairPreemption:
    """The candidates of one search, and the order in which fair sharing takes them."""

    def __init__(self, context: PreemptionContext, fair: FairSharing, reorder: Reorder | None = None) -> None:
        """Build the order; `reorder` sorts the candidates of each queue anew.

        The preemptor's usage must be charged before a candidate is taken.
        """
        self.context = context
        self.fair = fair
        self._reorder = reorder
        self._own_queue = context.preemptor.queue.id
        self._own_path = frozenset(context.tree.path(context.leaf))
        self._known_reclaims_nominal: bool | None = None

    @property
    def reclaims_nominal(self) -> bool:
        """True if the preemptor reclaims its own nominal, for which shares do not count; computed once."""
        if self._known_reclaims_nominal is None:
            self._known_reclaims_nominal = self.fair.preempt_within_nominal and self._is_inside_nominal()
        return self._known_reclaims_nominal

    def is_open(self, queue: str, strategy: ShareStrategy) -> bool:
        """Return whether a candidate of a queue could be taken out of turn at the present usage."""
        if queue == self._own_queue:
            return True
        tree, leaf = self.context.tree, self._leaf_of(queue)
        if tree.inside(leaf, self.context.preemptor.contested):
            return False
        if any(self.context.borrows_nothing(node) for node in tree.path(leaf) if node not in self._own_path):
            return False
        return self.accepts_queue(queue, strategy)

    def accepts_queue(self, queue: str, strategy: ShareStrategy) -> bool:
        """Return whether the present shares allow an eviction from a queue."""
        if self.reclaims_nominal or queue == self._own_queue:
            return True
        mine, theirs = self._rivals(queue)
        before = self.context.tree.share(theirs)
        return strategy_accepts(strategy, self.context.tree.share(mine), before, before)

    def accepted_queues(self, queues: Iterable[str], strategy: ShareStrategy) -> set[str]:
        """Return the queues that `accepts_queue` accepts; those with the same rivals share a comparison."""
        queues = set(queues)
        if self.reclaims_nominal:
            return queues
        parts: dict[tuple[str, str], set[str]] = {}
        for queue in queues - {self._own_queue}:
            parts.setdefault(self._rivals(queue), set()).add(queue)
        share, found = self.context.tree.share, queues & {self._own_queue}
        for (mine, theirs), those in parts.items():
            before = share(theirs)
            if strategy_accepts(strategy, share(mine), before, before):
                found |= those
        return found

    def take_candidate(self, candidate: VictimCandidate, strategy: ShareStrategy) -> Victim | None:
        """Remove a candidate of an open queue out of turn; return None if the strategy refuses it."""
        if candidate.queue == self._own_queue:
            return self._remove_candidate(candidate, EvictRule.IN_QUEUE_PRIORITY)
        if self.reclaims_nominal:
            return self._remove_candidate(candidate, EvictRule.RECLAIM_NOMINAL)
        mine, theirs = self._rivals(candidate.queue)
        tree = self.context.tree
        preemptor, before = tree.share(mine), tree.share(theirs)
        victim = self._remove_candidate(candidate, EvictRule.FAIR_SHARE)
        if strategy_accepts(strategy, preemptor, before, tree.share(theirs)):
            return victim
        self.context.trial.restore_removal(victim.removal)
        return None

    def take_victims(self) -> Iterator[Victim]:
        """Remove candidates one by one, as far as the strategies allow."""
        within = self.reclaims_nominal
        descent = ShareDescent(self.context, self._build_streams())
        retry: dict[str, VictimCandidate] = {}
        while (stream := descent.next_stream()) is not None:
            if stream.queue == self._own_queue:
                yield self._remove_candidate(stream.pop_first(), EvictRule.IN_QUEUE_PRIORITY)
            elif within:
                yield self._remove_candidate(stream.pop_first(), EvictRule.RECLAIM_NOMINAL)
            else:
                victim = self._first_accepted(descent, stream, retry)
                if victim is not None:
                    yield victim
        if len(self.fair.strategies) > 1:
            yield from self._retry_refused(retry)

    def _first_accepted(
        self, descent: ShareDescent, stream: CandidateStream, retry: dict[str, VictimCandidate]
    ) -> Victim | None:
        """Return the first candidate of a queue that the first strategy accepts.

        `retry` receives the first candidate that it refuses.
        """
        mine, theirs = self._rivals(stream.queue)
        tree = self.context.tree
        preemptor, before = tree.share(mine), tree.share(theirs)
        # Evictions only lower the other side's share: a strategy that refuses it now refuses it always.
        if stream.first is not None and not strategy_accepts(
            self.fair.strategies[0], preemptor, before, before
        ):
            retry.setdefault(stream.queue, stream.first)
            descent.drop_stream(stream)
            return None
        refused: set[frozenset[tuple[FlavorResource, int]]] = set()
        while (candidate := stream.pop_first()) is not None:
            like = frozenset(candidate.charges.items())
            if like in refused and not self.context.trial.has_removed_part(candidate):
                # As long as nothing is removed, candidates with equal charges have equal results.
                retry.setdefault(stream.queue, candidate)
                continue
            removal = self.context.trial.remove_candidate(candidate)
            if strategy_accepts(self.fair.strategies[0], preemptor, before, tree.share(theirs)):
                return self._victim(candidate, removal, EvictRule.FAIR_SHARE)
            self.context.trial.restore_removal(removal)
            if removal.charges is candidate.charges:
                refused.add(like)
            retry.setdefault(stream.queue, candidate)
        return None

    def _retry_refused(self, retry: Mapping[str, VictimCandidate]) -> Iterator[Victim]:
        """Apply the rule on shares before the eviction to one refused candidate of each queue."""
        piles = {
            self._leaf_of(queue): CandidateStream(queue, iter((first,))) for queue, first in retry.items()
        }
        descent = ShareDescent(self.context, piles)
        while (stream := descent.next_stream()) is not None:
            mine, theirs = self._rivals(stream.queue)
            if self.context.tree.share(mine) < self.context.tree.share(theirs):
                yield self._remove_candidate(stream.pop_first(), EvictRule.FAIR_SHARE)
            descent.drop_stream(stream)

    def _remove_candidate(self, candidate: VictimCandidate | None, rule: EvictRule) -> Victim:
        if candidate is None:
            raise AssertionError("a pile without candidates leads nowhere")
        removal = self.context.trial.remove_candidate(candidate)
        return self._victim(candidate, removal, rule)

    def _victim(self, candidate: VictimCandidate, removal: Removal, rule: EvictRule) -> Victim:
        justified = partial(self._is_justified, candidate, removal, rule)
        return Victim(candidate=candidate, rule=rule, removal=removal, is_justified=justified)

    def _is_justified(self, candidate: VictimCandidate, removal: Removal, rule: EvictRule) -> bool:
        """Return whether the rule still holds at the end; called with the candidate's charges restored."""
        if rule is EvictRule.IN_QUEUE_PRIORITY:
            return True
        tree = self.context.tree
        if tree.inside(self._leaf_of(candidate.queue), self.context.preemptor.contested):
            return False
        if rule is EvictRule.RECLAIM_NOMINAL:
            return self._is_inside_nominal()
        mine, theirs = self._rivals(candidate.queue)
        preemptor, before = tree.share(mine), tree.share(theirs)
        self.context.trial.release_quota(removal)
        after = tree.share(theirs)
        self.context.trial.charge_quota(removal)
        return any(strategy_accepts(strategy, preemptor, before, after) for strategy in self.fair.strategies)

    def _is_inside_nominal(self) -> bool:
        return self.context.tree.inside(self.context.leaf, self.context.preemptor.contested)

    def _rivals(self, queue: str) -> tuple[str, str]:
        """Return the children of the common ancestor on the preemptor's side and on the queue's side."""
        return self.context.tree.rivals(self.context.leaf, self._leaf_of(queue))

    def _build_streams(self) -> dict[str, CandidateStream]:
        asked = self.context.policies
        return {self._leaf_of(queue): self._build_stream(queue, policy) for queue, policy in asked.items()}

    def _build_stream(self, queue: str, policy: PreemptPolicy) -> CandidateStream:
        lines = [self.context.eligible_candidates(queue, segment, policy) for segment in range(3)]
        # Without users' recent usage the segments follow one another in rank.
        by_load = merge(*lines, key=lambda c: (not c.leaving, -(c.user_load or 0.0), c.rank))
        line = chain.from_iterable(lines) if self.context.index.sorts_by_priority else by_load
        return CandidateStream(queue, line if self._reorder is None else self._reorder(queue, line))

    def _leaf_of(self, queue: str) -> str:
        return self.context.index.snapshot.queues[queue].quota_node


def strategy_accepts(
    strategy: ShareStrategy,
    preemptor: DominantResourceShare,
    before: DominantResourceShare,
    after: DominantResourceShare,
) -> bool:
    """Return whether a strategy accepts an eviction.

    `preemptor` is the share of the preemptor's side with the new job; `before` and `after` are the shares of
    the other side before and after the eviction.
    """
    if strategy is ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE:
        return preemptor <= after
    return preemptor < before
