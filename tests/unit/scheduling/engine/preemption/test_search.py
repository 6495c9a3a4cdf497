"""What the platform's search gains over the bare rules, and what it never does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quotas.tree import DominantResourceShare
from scheduling.engine import PreemptionOracle, ShareStrategy, VictimSearch
from scheduling.engine.model import EvictRule, Instant, Job, JobState, PreemptionPolicy, PreemptOthers
from scheduling.engine.preemption.candidates.eviction_cost import find_surplus, unsaved_seconds
from scheduling.engine.preemption.strategies.fair import strategy_accepts
from scheduling.engine.quota.assignment import AssignmentMode
from tests.unit.scheduling.engine.preemption.worlds import (
    CARDS,
    NORMATIVE,
    NOW,
    PLATFORM,
    cohort,
    held,
    names,
    running,
    search,
    wants,
)

NOMINAL = {"a": 8, "b": 8}


def test_own_nominal_is_reclaimed_from_the_borrower() -> None:
    snapshot = cohort(NOMINAL, [running(f"b{n}", "b", 4) for n in range(4)])
    found = search(snapshot, wants(snapshot, "a", 8))
    assert len(found.targets) == 2
    assert {target.rule for target in found.targets} == {EvictRule.RECLAIM_NOMINAL}


def test_least_loss_spares_the_job_that_would_lose_most() -> None:
    jobs = [
        running("long", "b", 8, admitted_at=Instant(9_500)),
        running("saved", "b", 8, admitted_at=Instant(1_000), checkpoint_interval_s=1_800),
    ]
    snapshot = cohort(NOMINAL, jobs)
    # The rules take the job that came last, which discards 4,000 GPU-seconds and not 0.
    assert names(search(snapshot, wants(snapshot, "a", 8), NORMATIVE)) == ["long"]
    found = search(snapshot, wants(snapshot, "a", 8))
    assert (names(found), found.numbers) == (["saved"], {"gpu_seconds": 0})


def test_the_set_that_loses_less_wins_although_its_first_victim_loses_more() -> None:
    cheap_each = [running(f"s{n}", "b", 1, admitted_at=Instant(9_900)) for n in range(8)]
    large = running("large", "b", 4, each=2, admitted_at=Instant(9_950))
    snapshot = cohort({"a": 8, "b": 8}, [*cheap_each, large])
    # 8 small jobs lose 100 each; the large one 8 x 50 = 400 in all, but the rules order it behind them.
    found = search(snapshot, wants(snapshot, "a", 8))
    assert (names(found), found.numbers) == (["large"], {"gpu_seconds": 400})


def test_elastic_surplus_is_taken_before_any_whole_gang() -> None:
    jobs = [running("elastic", "b", 8, least=4), running("stiff", "b", 8)]
    snapshot = cohort(NOMINAL, jobs)
    whole = search(snapshot, wants(snapshot, "a", 4), NORMATIVE)
    assert [target.tasks for target in whole.targets] == [()]
    found = search(snapshot, wants(snapshot, "a", 4))
    assert names(found) == ["elastic"]
    assert sorted(found.targets[0].tasks) == [f"elastic/1/{index}" for index in (4, 5, 6, 7)]


def test_below_its_minimum_a_gang_is_taken_as_a_whole_and_at_its_full_cost() -> None:
    snapshot = cohort(NOMINAL, [running("elastic", "b", 16, least=10)])
    found = search(snapshot, wants(snapshot, "a", 8))
    assert [(target.job, target.tasks) for target in found.targets] == [("elastic", ())]
    assert found.numbers == {"gpu_seconds": 16 * 1_000}


def test_surplus_keeps_every_role_at_its_least() -> None:
    job = running("j", "b", 5, least=3)
    assert [task.index for task in find_surplus(job, held(job))] == [4, 3]
    assert find_surplus(replace(job, min_available=5), held(job)) == ()


@pytest.mark.parametrize(("interval", "lost"), [(None, 1_000), (300, 100), (1_000, 0)])
def test_only_work_since_the_last_checkpoint_is_lost(interval: int | None, lost: int) -> None:
    assert unsaved_seconds(running("j", "b", 1, checkpoint_interval_s=interval), NOW) == lost


def test_a_terminating_job_is_taken_first_and_costs_nothing() -> None:
    jobs = [
        running("fresh", "b", 8, admitted_at=Instant(9_999)),
        running("gone", "b", 8, state=JobState.LEAVING),
    ]
    snapshot = cohort(NOMINAL, jobs)
    found = search(snapshot, wants(snapshot, "a", 8))
    assert [(target.job, target.already_leaving) for target in found.targets] == [("gone", True)]
    assert found.numbers == {"gpu_seconds": 0}


def test_who_is_not_preemptible_stays() -> None:
    snapshot = cohort(NOMINAL, [running("held", "b", 16, preemptible=False)])
    assert search(snapshot, wants(snapshot, "a", 8)).targets == ()


def test_a_job_evicted_often_is_kept_inside_what_its_queue_owns_and_taken_above_it() -> None:
    snapshot = cohort(NOMINAL, [running("held", "b", 8, evictions=3), running("more", "b", 8)])
    assert names(search(snapshot, wants(snapshot, "a", 8))) == ["more"]
    snapshot = cohort(NOMINAL, [running("held", "b", 16, evictions=3)])
    assert names(search(snapshot, wants(snapshot, "a", 8))) == ["held"]


def test_who_was_evicted_often_borrows_no_more() -> None:
    snapshot = cohort(NOMINAL, [running("mine", "a", 8), running("b", "b", 4)])
    assert names(search(snapshot, wants(snapshot, "a", 12, priority=1))) == ["mine"]
    assert search(snapshot, wants(snapshot, "a", 12, priority=1, evictions=3)).targets == ()


def test_borrowed_use_is_protected_no_longer_than_the_grace() -> None:
    young = running("young", "b", 16, min_run_s=3_600, running_since=Instant(9_980))
    snapshot = cohort(NOMINAL, [young])
    found = search(snapshot, wants(snapshot, "a", 8, submitted_at=NOW))
    assert (found.targets, found.protected_until) == ((), 10_040)
    older = cohort(NOMINAL, [replace(young, running_since=Instant(9_900))])
    assert names(search(older, wants(older, "a", 8, submitted_at=NOW))) == ["young"]


@pytest.mark.parametrize(
    ("asked", "came", "until"), [(8, 9_941, 10_001), (8, 9_940, None), (8, 5_000, None), (9, 5_000, 10_040)]
)
def test_who_owns_it_waits_no_longer_for_all_borrowers_together(
    asked: int, came: int, until: int | None
) -> None:
    young = running("young", "b", 12, min_run_s=3_600, running_since=Instant(9_980), priority=-1)
    policy = PreemptionPolicy(reclaim=PreemptOthers.ANY, while_borrowing=PreemptOthers.LOWER_PRIORITY)
    snapshot = cohort({"a": 8, "b": 4}, [young], policy=policy)
    found = search(snapshot, wants(snapshot, "a", asked, submitted_at=Instant(came)))
    assert (bool(found.targets), found.protected_until) == (until is None, until)


def test_inside_the_own_nominal_the_run_time_is_guaranteed_in_full() -> None:
    snapshot = cohort(NOMINAL, [running("low", "a", 8, min_run_s=3_600), running("b", "b", 8)])
    found = search(snapshot, wants(snapshot, "a", 8, priority=9))
    assert (found.targets, found.protected_until) == ((), 9_000 + 3_600)


def test_a_protected_job_is_not_evicted_while_another_can_be() -> None:
    jobs = [
        running("young", "b", 8, min_run_s=60, admitted_at=Instant(9_990)),
        running("old", "b", 8, admitted_at=Instant(0)),
    ]
    snapshot = cohort(NOMINAL, jobs)
    found = search(snapshot, wants(snapshot, "a", 8, submitted_at=NOW))
    assert (names(found), found.protected_until) == (["old"], None)


def test_the_budget_ends_a_search_and_says_so() -> None:
    snapshot = cohort(NOMINAL, [running(f"b{n:02}", "b", 1) for n in range(16)])
    found = search(snapshot, wants(snapshot, "a", 8), replace(PLATFORM, search_budget=5))
    assert (found.targets, found.exhausted, found.steps) == ((), True, 5)
    assert not search(snapshot, wants(snapshot, "a", 8)).exhausted


def test_an_impossible_search_takes_no_step() -> None:
    snapshot = cohort(NOMINAL, [running("held", "b", 16, preemptible=False)])
    assert search(snapshot, wants(snapshot, "a", 8)).steps == 0


def test_a_victim_that_another_made_unjust_is_not_taken() -> None:
    # b owns 3 and uses 5. Under the rules b1 goes first, then b2; with b2 gone, b1 alone would be inside.
    jobs = [
        running("b1", "b", 1, admitted_at=Instant(9_300)),
        running("b2", "b", 3, admitted_at=Instant(9_200)),
        running("b3", "b", 1, admitted_at=Instant(9_100)),
        running("c1", "c", 3, admitted_at=Instant(9_000)),
    ]
    snapshot = cohort({"a": 4, "b": 3, "c": 1}, jobs)
    asked = wants(snapshot, "a", 4)
    unchecked = search(snapshot, asked, NORMATIVE)
    checked = search(snapshot, asked, replace(NORMATIVE, final_check=True))
    assert names(unchecked) == ["b1", "b2"]
    assert names(checked) == ["b2", "c1"]


def test_room_that_quota_does_not_see_takes_as_many_more_as_needed() -> None:
    jobs = [running(f"b{n:02}", "b", 1, admitted_at=Instant(9_000 - n)) for n in range(16)]
    snapshot = cohort(NOMINAL, jobs)
    looks = 0

    def room() -> bool:
        nonlocal looks
        looks += 1
        return "b05/1/0" not in snapshot.allocations and "b09/1/0" not in snapshot.allocations

    before = snapshot.to_json()
    found = search(snapshot, wants(snapshot, "a", 1), placement_check=room)
    assert names(found) == ["b05", "b09"]
    assert snapshot.to_json() == before
    assert looks <= found.steps <= 16 * 6


def test_no_room_means_no_victims() -> None:
    snapshot = cohort(NOMINAL, [running("b", "b", 16)])
    before = snapshot.to_json()
    assert search(snapshot, wants(snapshot, "a", 8), placement_check=lambda: False).targets == ()
    assert snapshot.to_json() == before


def test_pushing_out_while_borrowing_respects_the_threshold() -> None:
    policy = PreemptionPolicy(
        reclaim=PreemptOthers.LOWER_PRIORITY, while_borrowing=PreemptOthers.LOWER_PRIORITY, max_priority=3
    )
    jobs = [running("low", "b", 8, priority=2), running("high", "b", 8, priority=5)]
    snapshot = cohort({"a": 2, "b": 14}, jobs, policy=policy)
    found = search(snapshot, wants(snapshot, "a", 4, priority=9))
    assert [(t.job, t.rule) for t in found.targets] == [("low", EvictRule.RECLAIM_WHILE_BORROWING)]
    strict = replace(snapshot.queues["a"], preemption=replace(policy, max_priority=1))
    asked = replace(wants(snapshot, "a", 4, priority=9), queue=strict)
    assert search(snapshot, asked).targets == ()


def test_the_oracle_distinguishes_reclaim_from_preemption() -> None:
    jobs = [running("a1", "a", 4), running("b1", "b", 4), running("b2", "b", 8)]
    snapshot = cohort(NOMINAL, jobs)
    oracle = PreemptionOracle(VictimSearch(snapshot, options=NORMATIVE, now=NOW))
    before = snapshot.to_json()

    def ask(cards: int, priority: int = 0) -> tuple[AssignmentMode, int]:
        asked: Job = wants(snapshot, "a", cards, priority=priority).job
        return oracle(snapshot.queues["a"], asked, CARDS, cards)

    assert ask(4) == (AssignmentMode.RECLAIM, 0)
    assert ask(8) == (AssignmentMode.NO_CANDIDATES, 1)
    assert ask(8, priority=1) == (AssignmentMode.PREEMPT, 0)
    assert snapshot.to_json() == before


def test_fair_search_takes_from_the_largest_share_and_stops_at_balance() -> None:
    jobs = [running(f"b{n}", "b", 1) for n in range(9)] + [running(f"c{n}", "c", 1) for n in range(6)]
    snapshot = cohort({"a": 5, "b": 5, "c": 5}, jobs)
    found = search(snapshot, wants(snapshot, "a", 5), fair=True)
    assert [name[0] for name in names(found)] == ["b", "b", "b", "b", "c"]
    assert search(snapshot, wants(snapshot, "a", 6), fair=True).targets == ()


def test_fair_search_preempts_while_borrowing_only_as_long_as_the_shares_are_not_reversed() -> None:
    jobs = [running(f"b{n:02}", "b", 1, admitted_at=Instant(9_500)) for n in range(13)]
    snapshot = cohort({"a": 5, "b": 5, "c": 5}, jobs)
    # Free are 2. With 7, a would have 2 of 15 above its own, and b 8 - 5 = 3 still.
    cheaply = replace(PLATFORM, max_loss_s=600)
    found = search(snapshot, wants(snapshot, "a", 7), cheaply, fair=True)
    assert len(found.targets) == 5
    assert {target.rule for target in found.targets} == {EvictRule.FAIR_SHARE}
    assert search(snapshot, wants(snapshot, "a", 9), cheaply, fair=True).targets == ()


@pytest.mark.parametrize(
    ("facts", "bound", "leave"),
    [
        ({"admitted_at": Instant(9_400)}, 600, 5),
        ({"admitted_at": Instant(9_399)}, 600, 0),
        ({"admitted_at": Instant(0)}, None, 5),
        ({"admitted_at": Instant(0), "checkpoint_interval_s": 500}, 600, 5),
        ({"admitted_at": Instant(9_990), "evictions": 1}, 600, 0),
        ({"admitted_at": Instant(10_000)}, 0, 0),
    ],
)
def test_one_borrower_costs_another_little(facts: dict[str, Any], bound: int | None, leave: int) -> None:
    jobs = [running(f"b{n:02}", "b", 1, **facts) for n in range(13)]
    snapshot = cohort({"a": 5, "b": 5, "c": 5}, jobs)
    options = replace(PLATFORM, max_loss_s=bound)
    assert len(search(snapshot, wants(snapshot, "a", 7), options, fair=True).targets) == leave
    # Its own quota is reclaimed, whatever that costs.
    assert len(search(snapshot, wants(snapshot, "a", 5), options, fair=True).targets) == 3


def test_a_part_of_the_tree_that_owns_enough_is_no_borrower() -> None:
    jobs = [running("b", "b", 8, admitted_at=Instant(0)), running("c", "c", 4, admitted_at=Instant(0))]
    parents = {"a": "left", "b": "right", "c": "left", "d": "left"}
    snapshot = cohort({"a": 2, "b": 4, "c": 4, "d": 2}, jobs, parents=parents)
    # Above its own, but what it takes is the quota of d, its sibling.
    assert names(search(snapshot, wants(snapshot, "a", 4), fair=True)) == ["b"]
    assert search(snapshot, wants(snapshot, "a", 5), fair=True).targets == ()


@pytest.mark.parametrize(
    ("queue", "cards"),
    [
        # All of it is its own.
        ("a", 5),
        # Above its own, in a part that stays inside what it owns.
        ("d", 4),
    ],
)
def test_what_is_owned_is_taken_back_though_a_wider_part_of_the_tree_borrows(queue: str, cards: int) -> None:
    jobs = [running(f"{name}{n}", name, 1, admitted_at=Instant(0)) for name in "bc" for n in range(4)]
    parents = {"a": "inner", "d": "inner", "inner": "left", "b": "left"}
    snapshot = cohort({"a": 5, "d": 1, "b": 1, "c": 1}, jobs, parents=parents)
    # Neither b nor c borrows as much as that alone.
    found = names(search(snapshot, wants(snapshot, queue, cards), fair=True))
    assert len(found) == cards
    assert {name[0] for name in found} == {"b", "c"}


def test_the_strategies_compare_before_and_after() -> None:
    low, high = DominantResourceShare(1), DominantResourceShare(2)
    final, initial = ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE, ShareStrategy.LESS_INITIAL_SHARE
    assert strategy_accepts(final, low, high, low) and not strategy_accepts(final, high, high, low)
    assert strategy_accepts(initial, low, high, low) and not strategy_accepts(initial, high, high, low)
