"""Queues that the quota tree excludes before any job is examined would have no victims anyway."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine import PreemptionOptions
from scheduling.engine.model.options import FairSharing
from scheduling.engine.preemption import search as searching
from scheduling.engine.preemption.candidates.freeable_quota import FreeableQuota
from scheduling.engine.preemption.candidates.policy import allows_any_victim
from scheduling.engine.preemption.strategies.preemptible_queues import PreemptibleQueues
from scheduling.engine.preemption.trials.context import PreemptionContext
from tests.unit.scheduling.engine.preemption.worlds import CARDS, search, wants
from tests.unit.scheduling.engine.properties.laws import law
from tests.unit.scheduling.engine.properties.test_victims import OPTIONS, World, asked, build, worlds

PLENTY = 1_000


def all_preemptible_queues(
    contest: PreemptionContext, fair: FairSharing | None, reach: FreeableQuota
) -> PreemptibleQueues:
    """Return all queues above their nominal and the own one, ignoring shares and freeable amounts."""
    rules, own = contest.preemptor.queue.preemption, contest.preemptor.queue.id
    found = PreemptibleQueues(freeable={node: {CARDS: PLENTY} for node in contest.tree.path(contest.leaf)})
    if allows_any_victim(rules.within_queue):
        found.policies[own] = rules.within_queue
    if allows_any_victim(rules.reclaim):
        for name in contest.index.snapshot.queues:
            if name != own and contest.tree.borrows(name, CARDS):
                found.policies[name] = rules.reclaim
    return found


@given(worlds(), asked, OPTIONS, st.booleans())
@law
def test_who_is_ruled_out_would_not_have_been_taken(
    world: World, ask: tuple[int, int], options: PreemptionOptions, fair: bool
) -> None:
    snapshot = build(world)
    preemptor = wants(snapshot, "a", ask[0], priority=ask[1])
    found = search(snapshot, preemptor, options, fair=fair)
    with patch.object(searching, "find_preemptible_queues", all_preemptible_queues):
        wider = search(snapshot, preemptor, options, fair=fair)
    assert found.targets == wider.targets
    assert found.protected_until == wider.protected_until
