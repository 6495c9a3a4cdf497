"""Whether anybody could be asked at all: told by the quota tree alone, before a single job is looked at.

Most waiting jobs wait because everybody holds what is theirs. That nobody stands above what he owns, or
that fairness would not let a first victim go, is seen from a few numbers, while a search would first list
and sort all that run.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.engine.options import FairSharing
from scheduling.engine.preemption.contest import Contest
from scheduling.engine.preemption.fair import just, rivals
from scheduling.engine.preemption.policy import may_push_anyone


def nobody_to_ask(contest: Contest, fair: FairSharing | None) -> bool:
    """Whether no search could take even one victim. False is no promise that one can.

    Others may be asked only below a node that uses more than it owns of something contested. Under fair
    sharing a strategy must accept the first of them: with nothing removed yet, the other side's share
    after an eviction is at most its share now.
    """
    rules = contest.preemptor.queue.preemption
    if may_push_anyone(rules.within_queue):
        return False
    above = list(_above(contest, list(contest.tree.path(contest.leaf))[-1]))
    if not above or not may_push_anyone(rules.reclaim):
        return True
    if fair is None:
        return False
    contest.charge()
    try:
        if fair.preempt_within_nominal and contest.tree.inside(contest.leaf, contest.preemptor.contested):
            return False
        return not any(_accepted(contest, fair, leaf) for leaf in above)
    finally:
        contest.uncharge()


def _above(contest: Contest, node: str) -> Iterator[str]:
    """Other leaves that use more than their nominal of something contested."""
    tree = contest.tree
    children = tree.children(node)
    if not children and node != contest.leaf and not tree.inside(node, contest.preemptor.contested):
        yield node
    for child in children:
        yield from _above(contest, child)


def _accepted(contest: Contest, fair: FairSharing, leaf: str) -> bool:
    mine, theirs = rivals(contest.tree, contest.leaf, leaf)
    preemptor, now = contest.tree.share(mine), contest.tree.share(theirs)
    return any(just(strategy, preemptor, now, now) for strategy in fair.strategies)
