"""Classical preemption (Kueue's default): reclaim lent quota, then preempt by priority, then in the own
queue.

Candidates of other queues are searched only in subtrees that use more than their quota. The preemptor has the
hierarchical advantage over a candidate if some subtree on its own path, below their lowest common ancestor,
has room for the request: then it reclaims its own quota. Without the advantage it may either stay inside its
nominal, or preempt lower priorities while it borrows. Source: Kueue, KEP-1337 "Preempt while borrowing" and
KEP-79 "Hierarchical cohorts".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import chain

from scheduling.engine.model import EvictRule, PreemptOthers
from scheduling.engine.preemption.candidates.candidates import VictimCandidate
from scheduling.engine.preemption.candidates.policy import PreemptPolicy, allows_any_victim
from scheduling.engine.preemption.strategies.eviction_cycle_guard import can_reclaim_at_once
from scheduling.engine.preemption.trials.context import PreemptionContext, Victim

LEAVING, SURPLUS, WHOLE_JOBS = range(3)
RUNNING = (SURPLUS, WHOLE_JOBS)


@dataclass(slots=True, eq=False)
class CandidateQueue:
    """A queue that may contain victims.

    `borrowing_path` lists the quota nodes that must exceed their quota before a candidate is taken, `own`
    marks the preemptor's queue, `hierarchical` says that the preemptor has the hierarchical advantage over
    this queue, `exhausted` that no further candidate of it may be taken.
    """

    queue: str
    policy: PreemptPolicy
    borrowing_path: tuple[str, ...] = ()
    own: bool = False
    hierarchical: bool = False
    exhausted: bool = False


QueuedCandidate = tuple[CandidateQueue, VictimCandidate]


class ClassicalPreemption:
    """The queues of one search, and the order in which their candidates are taken."""

    def __init__(self, context: PreemptionContext) -> None:
        self.context = context
        rules = context.preemptor.queue.preemption
        self._own_queue = CandidateQueue(context.preemptor.queue.id, rules.within_queue, own=True)
        self.other_queues = tuple(self._find_other_queues())
        self._requires_lasting = context.index.options.borrowers_evict_borrowers_only

    def borrow_attempts(self) -> tuple[bool, ...]:
        """Return for each attempt of the search, in order, whether the preemptor may borrow in it."""
        if not self.context.borrowing_allowed:
            return (False,)
        forbidden = not self._may_preempt_while_borrowing
        if not any(map(self._has_candidates, self.other_queues)):
            return (True,)
        if not forbidden:
            return (True, False)
        if not self._strictly_under_nominal():
            return (True,)
        if not any(source.hierarchical and self._has_candidates(source) for source in self.other_queues):
            return (False, True)
        return (True, False)

    def ordered_candidates(self, *, borrow: bool) -> Iterator[QueuedCandidate]:
        """Yield all candidates in the order in which the search tries them."""
        for source in self.other_queues:
            source.exhausted = False
        hierarchical = tuple(source for source in self.other_queues if source.hierarchical)
        # A preemptor that borrows needs the hierarchical advantage unless the policy allows more.
        barred = borrow and not self._may_preempt_while_borrowing
        by_priority = () if barred else tuple(s for s in self.other_queues if not s.hierarchical)
        if self.context.index.least_loss:
            return self._merge_candidates((*hierarchical, *by_priority, self._own_queue), (LEAVING, *RUNNING))
        groups = (hierarchical, by_priority, (self._own_queue,))
        return chain.from_iterable(
            self._merge_candidates(group, segments) for segments in ((LEAVING,), RUNNING) for group in groups
        )

    def take_victims(
        self, offers: Iterable[QueuedCandidate], *, borrow: bool, loose: bool = False
    ) -> Iterator[Victim]:
        """Remove candidates one by one, as far as the rules allow.

        `loose` takes candidates of a queue past the point where it exceeds its quota: the caller then has to
        restore every victim that is not justified at the end.
        """
        for source, candidate in offers:
            rule = self._eviction_rule(source, candidate, borrow=borrow)
            if rule is None or source.exhausted:
                continue
            if not loose and not self._exceeds_quota(source):
                source.exhausted = True
                continue
            removal = self.context.trial.remove_candidate(candidate)
            victim = Victim(
                candidate=candidate,
                rule=rule,
                removal=removal,
                is_justified=partial(self._exceeds_quota, source),
            )
            if self._requires_lasting and borrow and rule is EvictRule.RECLAIM_WHILE_BORROWING:
                if can_reclaim_at_once(self.context, candidate):
                    self.context.trial.restore_removal(removal)
                    continue
                victim.is_justified = partial(self._is_reclaim_lasting, source, victim)
            yield victim

    def _is_reclaim_lasting(self, source: CandidateQueue, victim: Victim) -> bool:
        """Return whether a borrower may keep a victim, called with the victim's charges restored."""
        if not self._exceeds_quota(source):
            return False
        self.context.trial.release_quota(victim.removal)
        back = can_reclaim_at_once(self.context, victim.candidate)
        self.context.trial.charge_quota(victim.removal)
        return not back

    @property
    def _may_preempt_while_borrowing(self) -> bool:
        return self.context.preemptor.queue.preemption.while_borrowing is not PreemptOthers.NEVER

    def _eviction_rule(
        self, source: CandidateQueue, candidate: VictimCandidate, *, borrow: bool
    ) -> EvictRule | None:
        if source.own:
            return EvictRule.IN_QUEUE_PRIORITY
        if source.hierarchical:
            return EvictRule.RECLAIM_NOMINAL
        threshold = self.context.preemptor.queue.preemption.max_priority
        priority = candidate.job.priority
        lower = priority < self.context.preemptor.job.priority
        if self._may_preempt_while_borrowing and lower and (threshold is None or priority <= threshold):
            return EvictRule.RECLAIM_WHILE_BORROWING
        return None if borrow else EvictRule.RECLAIM_NOMINAL

    def _exceeds_quota(self, source: CandidateQueue) -> bool:
        tree, contested = self.context.tree, self.context.preemptor.contested
        return not any(tree.inside(node, contested) for node in source.borrowing_path)

    def _strictly_under_nominal(self) -> bool:
        tree, leaf = self.context.tree, self.context.leaf
        for key in self.context.preemptor.contested:
            nominal = tree.limits(leaf, key).own_nominal
            if nominal is not None and tree.usage(leaf, key) >= nominal:
                return False
        return True

    def _merge_candidates(
        self, sources: Iterable[CandidateQueue], segments: Iterable[int]
    ) -> Iterator[QueuedCandidate]:
        lines = [self._queue_candidates(source, segment) for source in sources for segment in segments]
        return merge(*lines, key=lambda offer: offer[1].rank)

    def _queue_candidates(self, source: CandidateQueue, segment: int) -> Iterator[QueuedCandidate]:
        for candidate in self.context.eligible_candidates(source.queue, segment, source.policy):
            yield source, candidate

    def _has_candidates(self, source: CandidateQueue) -> bool:
        return any(True for segment in (LEAVING, *RUNNING) for _ in self._queue_candidates(source, segment))

    def _find_other_queues(self) -> Iterator[CandidateQueue]:
        """Yield queues in subtrees above their quota, near ones first.

        The advantage, once gained at a node of the path, holds for all nodes above it.
        """
        policy = self.context.preemptor.queue.preemption.reclaim
        if not allows_any_victim(policy):
            return
        tree, leaf = self.context.tree, self.context.leaf
        asked = dict(self.context.preemptor.usage)
        advantage, below = False, ""
        for node in tree.path(leaf):
            if below:
                for queue, path in self._queues_above_quota(node, below):
                    yield CandidateQueue(queue, policy, borrowing_path=path, hierarchical=advantage)
            advantage = advantage or not any(tree.borrows(node, key, v) for key, v in asked.items())
            for key, amount in asked.items():
                local_quota = tree.local_available(node, key)
                asked[key] = 0 if local_quota is None else max(0, amount - local_quota)
            below = node

    def _queues_above_quota(
        self, node: str, skipped: str, above: tuple[str, ...] = ()
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        tree = self.context.tree
        for child in tree.children(node):
            if child == skipped or tree.inside(child, self.context.preemptor.contested):
                continue
            path = (child, *above)
            for queue in self.context.index.queues_at(child):
                yield queue, path
            yield from self._queues_above_quota(child, skipped, path)
