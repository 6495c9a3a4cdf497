"""The measure of the second choice, and when a search need not begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import FairSharing, Snapshot, VictimSearch
from scheduling.engine.model import (
    FlavorResource,
    Instant,
    Job,
    JobState,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
)
from scheduling.engine.preemption.candidates.candidates import CandidateIndex, VictimCandidate
from scheduling.engine.preemption.search import CostPerGain
from scheduling.engine.preemption.trials.context import PreemptionContext, VictimSearchBudget
from scheduling.engine.preemption.trials.trial import RemovalTrial
from tests.unit.scheduling.engine.preemption.worlds import (
    CARDS,
    NOW,
    PLATFORM,
    cohort,
    running,
    search,
    wants,
)

CPU = FlavorResource("h100", Resource.CPU)
OTHERS_ONLY = PreemptionPolicy(within_queue=PreemptWithin.NEVER, reclaim=PreemptOthers.ANY)


def scale(snapshot: Snapshot, usage: Mapping[FlavorResource, int]) -> CostPerGain:
    """Return what is missing for a job of `a` that wants some amounts, all of them contested."""
    asked = wants(snapshot, "a", 0)
    return CostPerGain(
        PreemptionContext(
            index=CandidateIndex(snapshot, PLATFORM, NOW),
            preemptor=replace(asked, usage=usage, contested=frozenset({CARDS, CPU})),
            trial=RemovalTrial(snapshot, None),
            search_budget=VictimSearchBudget(9),
        )
    )


def candidate(charges: Mapping[FlavorResource, int], cost: float, **facts: Any) -> VictimCandidate:
    leaving = facts.pop("leaving", False)
    return VictimCandidate(
        job=running("j", "b", 1, **facts), queue="b", charges=charges, eviction_cost=cost, leaving=leaving
    )


@pytest.mark.parametrize(
    ("held", "usage", "charges", "per_gain"),
    [
        # 5 of 8 cards are used. A job of 7 lacks 4; a candidate with 2 releases half of them.
        (5, {CARDS: 7}, {CARDS: 2}, 60.0),
        (5, {CARDS: 7}, {CARDS: 4}, 30.0),
        (5, {CARDS: 7}, {CARDS: 9}, 30.0),  # more than is missing doesn't count
        (5, {CARDS: 7}, {CPU: 9}, float("inf")),
        (5, {CARDS: 7}, {}, float("inf")),
        # No quota is missing, only capacity of nodes: then the measure is the requested amount.
        (5, {CARDS: 3}, {CARDS: 1}, 90.0),
        (5, {CARDS: 2}, {CARDS: 1}, 60.0),
        (5, {CARDS: 4}, {CARDS: 1}, 30.0),
        (5, {CARDS: 0}, {CARDS: 1}, float("inf")),
        # Of several quotas each counts by its part.
        (5, {CARDS: 7, CPU: 4}, {CARDS: 2, CPU: 2}, 30.0),
        (5, {CARDS: 7, CPU: 4}, {CARDS: 2}, 60.0),
        (5, {CPU: 1}, {CPU: 1}, 30.0),
    ],
)
def test_a_candidate_is_weighed_by_its_cost_for_what_it_gives(
    held: int, usage: Mapping[FlavorResource, int], charges: Mapping[FlavorResource, int], per_gain: float
) -> None:
    snapshot = cohort({"a": 4, "b": 4}, [running("x", "b", held)])
    assert scale(snapshot, usage)(candidate(charges, 30.0)) == (True, 0, per_gain, 30.0, "j")


def test_terminating_jobs_come_first_and_then_priority_decides() -> None:
    weigh = scale(cohort({"a": 4, "b": 4}, []), {CARDS: 4})
    first = weigh(candidate({CARDS: 1}, 99.0, leaving=True, priority=7))
    low, high = (weigh(candidate({CARDS: 1}, 9.0 - n, priority=n)) for n in (1, 2))
    assert first < low < high


def test_without_a_limit_all_that_is_asked_for_is_missing() -> None:
    snapshot = cohort({"a": None, "b": 4}, [])  # type: ignore[dict-item]
    assert scale(snapshot, {CARDS: 6})(candidate({CARDS: 3}, 30.0))[2] == 60.0


@pytest.mark.parametrize(
    ("used", "cards", "facts", "policy", "bound", "dear"),
    [
        # `a` owns 4 and would borrow with 5; a job that ran for 1,000 s costs more than the bound.
        ({"b": 9}, 5, {}, OTHERS_ONLY, 600, True),
        ({"b": 9}, 4, {}, OTHERS_ONLY, 600, False),
        ({"b": 9}, 5, {}, OTHERS_ONLY, 1_000, False),
        ({"b": 9}, 5, {}, OTHERS_ONLY, 999, True),
        ({"b": 9}, 5, {}, OTHERS_ONLY, None, False),
        ({"b": 9}, 5, {"admitted_at": Instant(9_500)}, OTHERS_ONLY, 600, False),
        ({"b": 9}, 5, {"admitted_at": NOW}, OTHERS_ONLY, 0, False),
        ({"b": 9}, 5, {"admitted_at": Instant(9_999)}, OTHERS_ONLY, 0, True),
        ({"b": 9}, 5, {"state": JobState.LEAVING}, OTHERS_ONLY, 600, False),
        # In its own queue it could preempt at any cost, but no job runs there.
        ({"b": 9}, 5, {}, replace(OTHERS_ONLY, within_queue=PreemptWithin.LOWER_PRIORITY), 600, True),
        # Only queues above their own quota count, and not the own queue.
        ({"b": 4}, 5, {"admitted_at": NOW}, OTHERS_ONLY, 600, True),
        ({"a": 5}, 5, {"admitted_at": NOW}, OTHERS_ONLY, 600, True),
    ],
)
def test_no_victims_are_searched_where_all_cost_too_much(
    used: Mapping[str, int],
    cards: int,
    facts: Mapping[str, Any],
    policy: PreemptionPolicy,
    bound: int | None,
    dear: bool,
) -> None:
    jobs: list[Job] = [
        running(f"{queue}{n}", queue, 1, **facts) for queue, count in used.items() for n in range(count)
    ]
    snapshot = cohort({"a": 4, "b": 4, "c": 4}, jobs, policy=policy)
    whole = VictimSearch(snapshot, options=replace(PLATFORM, max_loss_s=bound), now=NOW, fair=FairSharing())
    before = snapshot.to_json()
    preemptor = wants(snapshot, "a", cards)
    assert whole.could_find_victims(preemptor) is not dear
    assert not dear or whole.find_victims(preemptor).targets == ()
    assert snapshot.to_json() == before


def test_a_part_of_the_tree_that_stays_inside_its_own_borrows_nothing() -> None:
    parents = {"a": "left", "c": "left", "b": "right"}
    snapshot = cohort({"a": 4, "b": 4, "c": 4}, [running("b", "b", 9)], policy=OTHERS_ONLY, parents=parents)
    whole = VictimSearch(snapshot, options=PLATFORM, now=NOW, fair=FairSharing())
    assert [whole.could_find_victims(wants(snapshot, "a", cards)) for cards in (4, 8, 9)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("fair", [False, True])
def test_a_job_that_may_not_preempt_is_not_searched_for(fair: bool) -> None:
    nobody = PreemptionPolicy(within_queue=PreemptWithin.NEVER, reclaim=PreemptOthers.NEVER)
    snapshot = cohort({"a": 4, "b": 4}, [running("b", "b", 8)], policy=nobody)
    found = search(snapshot, wants(snapshot, "a", 4, priority=9), fair=fair)
    assert (found.targets, found.steps) == ((), 0)


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize(
    ("policy", "leave"),
    [
        (OTHERS_ONLY, "b"),
        (PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.NEVER), "a"),
    ],
)
def test_one_of_two_policies_is_enough(fair: bool, policy: PreemptionPolicy, leave: str) -> None:
    jobs = [running("a0", "a", 4), running("b0", "b", 2), running("b1", "b", 4)]
    snapshot = cohort({"a": 5, "b": 5}, jobs, policy=policy)
    asked = wants(snapshot, "a", 1 if leave == "b" else 4, priority=9)
    assert {target.job[0] for target in search(snapshot, asked, fair=fair).targets} == {leave}
