"""Classical preemption: take back what was lent, then what priority allows, then from the own queue.

Candidates of other queues stand only in subtrees that use more than they own. Where some subtree on the
preemptor's path, below the node it shares with the candidate, has room for the request, the preemptor
takes back what is its own (hierarchical advantage); elsewhere it may either stay inside its nominal, or
push out lower priorities while it borrows. Source: Kueue's classical and hierarchical preemption, as
stated in the quota reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import chain

from scheduling.engine.model import EvictRule, PreemptOthers
from scheduling.engine.preemption.candidates import Candidate
from scheduling.engine.preemption.comeback import comes_back
from scheduling.engine.preemption.contest import Contest, Victim
from scheduling.engine.preemption.policy import Policy, highest_priority, may_push_anyone

LEAVING, SPARED, WHOLE = range(3)
STAYING = (SPARED, WHOLE)


@dataclass(slots=True, eq=False)
class Source:
    """A queue that may be asked.

    `chain` are the nodes that must use more than they own for the queue to be asked, `own` says that it
    is the preemptor's, `hierarchical` that the preemptor has the advantage over it.
    """

    queue: str
    policy: Policy
    chain: tuple[str, ...] = ()
    own: bool = False
    hierarchical: bool = False
    dry: bool = False


Offer = tuple[Source, Candidate]


class ClassicalField:
    """The sources of one contest, and the order in which their candidates are taken."""

    def __init__(self, contest: Contest) -> None:
        self.contest = contest
        rules = contest.preemptor.queue.preemption
        self._own = Source(contest.preemptor.queue.id, rules.within_queue, own=True)
        self.others = tuple(self._other_sources())
        self._lasting = contest.roster.options.lasting

    def runs(self) -> tuple[bool, ...]:
        """Whether the preemptor may borrow, attempt by attempt."""
        if not self.contest.borrowing_allowed:
            return (False,)
        forbidden = not self._while_borrowing
        if not any(map(self._offers_any, self.others)):
            return (True,)
        if not forbidden:
            return (True, False)
        if not self._strictly_under_nominal():
            return (True,)
        if not any(source.hierarchical and self._offers_any(source) for source in self.others):
            return (False, True)
        return (True, False)

    def offers(self, *, borrow: bool) -> Iterator[Offer]:
        """All candidates in the order in which they are to be tried."""
        for source in self.others:
            source.dry = False
        hierarchical = tuple(source for source in self.others if source.hierarchical)
        # While borrowing, only the hierarchical advantage counts where the policy has nothing else.
        barred = borrow and not self._while_borrowing
        by_priority = () if barred else tuple(s for s in self.others if not s.hierarchical)
        if self.contest.roster.least_loss:
            return self._merged((*hierarchical, *by_priority, self._own), (LEAVING, *STAYING))
        groups = (hierarchical, by_priority, (self._own,))
        return chain.from_iterable(
            self._merged(group, segments) for segments in ((LEAVING,), STAYING) for group in groups
        )

    def take(self, offers: Iterable[Offer], *, borrow: bool, loose: bool = False) -> Iterator[Victim]:
        """Remove candidates one by one, as far as the rules allow.

        `loose` takes more of a queue than its overuse: whoever asks for that must let go again of all
        that is not justified in the end.
        """
        for source, candidate in offers:
            rule = self._rule(source, candidate, borrow=borrow)
            if rule is None or source.dry:
                continue
            if not loose and not self._exceeds(source):
                source.dry = True
                continue
            removal = self.contest.trial.remove(candidate)
            victim = Victim(
                candidate=candidate, rule=rule, removal=removal, justified=partial(self._exceeds, source)
            )
            if self._lasting and borrow and rule is EvictRule.RECLAIM_WHILE_BORROWING:
                if comes_back(self.contest, candidate):
                    self.contest.trial.restore(removal)
                    continue
                victim.justified = partial(self._lasts, source, victim)
            yield victim

    def _lasts(self, source: Source, victim: Victim) -> bool:
        """Whether a borrower may take a victim in the end, too; called with its charges put back."""
        if not self._exceeds(source):
            return False
        self.contest.trial.uncharge(victim.removal)
        back = comes_back(self.contest, victim.candidate)
        self.contest.trial.charge(victim.removal)
        return not back

    @property
    def _while_borrowing(self) -> bool:
        return self.contest.preemptor.queue.preemption.while_borrowing is not PreemptOthers.NEVER

    def _rule(self, source: Source, candidate: Candidate, *, borrow: bool) -> EvictRule | None:
        if source.own:
            return EvictRule.IN_QUEUE_PRIORITY
        if source.hierarchical:
            return EvictRule.RECLAIM_NOMINAL
        threshold = self.contest.preemptor.queue.preemption.max_priority
        priority = candidate.job.priority
        lower = priority < self.contest.preemptor.job.priority
        if self._while_borrowing and lower and (threshold is None or priority <= threshold):
            return EvictRule.RECLAIM_WHILE_BORROWING
        return None if borrow else EvictRule.RECLAIM_NOMINAL

    def _exceeds(self, source: Source) -> bool:
        tree, contested = self.contest.tree, self.contest.preemptor.contested
        return not any(tree.inside(node, contested) for node in source.chain)

    def _strictly_under_nominal(self) -> bool:
        tree, leaf = self.contest.tree, self.contest.leaf
        for key in self.contest.preemptor.contested:
            nominal = tree.limits(leaf, key).own_nominal
            if nominal is not None and tree.usage(leaf, key) >= nominal:
                return False
        return True

    def _merged(self, sources: Iterable[Source], segments: Iterable[int]) -> Iterator[Offer]:
        roster = self.contest.roster
        if roster.by_priority:
            everyone = tuple(sources)
            return chain.from_iterable(self._picked(everyone, segment) for segment in segments)
        lines = [self._line(source, segment) for source in sources for segment in segments]
        return merge(*lines, key=lambda offer: offer[1].rank)

    def _picked(self, sources: Iterable[Source], segment: int) -> Iterator[Offer]:
        """The offers of some queues, out of the order of all: no line has to be merged."""
        job = self.contest.preemptor.job
        left = {
            source.queue: (source, highest_priority(job, source.policy))
            for source in sources
            if not source.dry
        }
        for candidate in self.contest.roster.everyone(segment) if left else ():
            asked = left.get(candidate.queue)
            if asked is None:
                continue
            source, limit = asked
            if source.dry or candidate.job.priority > limit:
                del left[candidate.queue]
                if not left:
                    return
            elif self.contest.may_ask(candidate, source.policy):
                yield source, candidate

    def _line(self, source: Source, segment: int) -> Iterator[Offer]:
        for candidate in self.contest.stream(source.queue, segment, source.policy):
            yield source, candidate

    def _offers_any(self, source: Source) -> bool:
        return any(True for segment in (LEAVING, *STAYING) for _ in self._line(source, segment))

    def _other_sources(self) -> Iterator[Source]:
        """Queues in subtrees above their quota, from near to far; the advantage stays once it is there."""
        policy = self.contest.preemptor.queue.preemption.reclaim
        if not may_push_anyone(policy):
            return
        tree, leaf = self.contest.tree, self.contest.leaf
        asked = dict(self.contest.preemptor.usage)
        advantage, below = False, ""
        for node in tree.path(leaf):
            if below:
                for queue, path in self._exceeding(node, below):
                    yield Source(queue, policy, chain=path, hierarchical=advantage)
            advantage = advantage or not any(tree.borrows(node, key, v) for key, v in asked.items())
            for key, amount in asked.items():
                kept = tree.local_available(node, key)
                asked[key] = 0 if kept is None else max(0, amount - kept)
            below = node

    def _exceeding(
        self, node: str, skipped: str, above: tuple[str, ...] = ()
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        tree = self.contest.tree
        for child in tree.children(node):
            if child == skipped or tree.inside(child, self.contest.preemptor.contested):
                continue
            path = (child, *above)
            for queue in self.contest.roster.queues_at(child):
                yield queue, path
            yield from self._exceeding(child, skipped, path)
