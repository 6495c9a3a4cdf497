"""The least cost to free an amount in each group of tasks, compared with trying all sets."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foundation.core.quantities import Resource
from scheduling.engine.model import FlavorResource, Instant, PreemptOthers
from scheduling.engine.preemption.candidates.candidates import CandidateIndex
from scheduling.engine.preemption.node_victims import LEVEL_WEIGHT, NodeVictimIndex, TaskGroups, TaskSelection
from scheduling.engine.preemption.trials.context import PreemptionContext, VictimSearchBudget
from scheduling.engine.preemption.trials.trial import RemovalTrial
from tests.unit.scheduling.engine.builders import role
from tests.unit.scheduling.engine.preemption.placed_jobs import CORES, NOW, PLATFORM, on, site, wants

Task = tuple[int, int, int, int, bool]
"""Group, amount, level and cost, and whether it is a candidate."""

GROUPS = 4
tasks = st.lists(
    st.tuples(
        st.integers(0, GROUPS - 1), st.integers(1, 4), st.integers(1, 2), st.integers(1, 9), st.booleans()
    )
)


def all_of(groups: TaskGroups) -> TaskSelection:
    return groups.select_tasks(np.ones(len(groups.tasks), np.bool_))


@given(tasks, st.lists(st.integers(1, 8), min_size=GROUPS, max_size=GROUPS))
@settings(max_examples=200, deadline=None)
def test_the_least_difficulty_is_a_lower_bound(drawn: list[Task], wanted: list[int]) -> None:
    group, given_, level, cost, asked = (np.array([task[n] for task in drawn], np.int64) for n in range(5))
    everyone = TaskGroups.from_unsorted(np.arange(len(drawn)), group, level, cost.astype(np.float64), given_)
    groups = everyone.select_tasks(asked.astype(np.bool_)[everyone.tasks])
    asking = {task[0] for task in drawn if task[4]}
    assert groups.groups.tolist() == sorted(asking)
    amounts, taken = given_[groups.tasks], groups.groups.tolist()
    sums = dict(zip(taken, groups.sum_amounts(amounts).tolist(), strict=True))
    easiest = groups.min_difficulty(amounts, np.array(wanted)[groups.groups])
    found = dict(zip(taken, easiest.tolist(), strict=True))
    for number in asking:
        here = [task for task in drawn if task[0] == number and task[4]]
        assert sums[number] == sum(task[1] for task in here)
        if sums[number] < wanted[number]:
            assert np.isinf(found[number])
            continue
        enough = [
            (max(task[2] for task in some), sum(task[3] for task in some))
            for size in range(1, len(here) + 1)
            for some in combinations(here, size)
            if sum(task[1] for task in some) >= wanted[number]
        ]
        level_, cost_ = divmod(found[number], LEVEL_WEIGHT)
        assert level_ == min(enough)[0]
        if level_ == min(task[2] for task in here):
            # The last task of the easiest counts in part: the best set costs less than the whole of it more.
            assert cost_ - 1e-3 <= min(enough)[1] < cost_ + max(task[3] for task in here)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        # Group 0 gives 2 for 2, then 4 for 12; group 3 gives 3 for 6, and 1 for 5 if it is a candidate.
        ([1, 1], [2.0, 5.0]),
        ([2, 3], [2.0, 6.0]),
        ([3, 4], [LEVEL_WEIGHT + 12.0, np.inf]),
        ([6, 9], [LEVEL_WEIGHT + 14.0, np.inf]),
        ([7, 1], [np.inf, 5.0]),
    ],
)
def test_of_each_group_the_easiest_for_what_they_give_come_first(
    wanted: list[int], found: list[float]
) -> None:
    tasks, levels = np.array([10, 11, 12, 13]), np.array([0, 1, 0, 0])
    group, given_ = np.array([3, 0, 3, 0]), np.array([1, 4, 3, 2])
    groups = TaskGroups.from_unsorted(tasks, group, levels, np.array([5.0, 12.0, 6.0, 2.0]), given_)
    assert groups.tasks.tolist() == [13, 11, 12, 10]
    asked = groups.select_tasks(np.array([True, True, True, False]))
    assert (asked.tasks.tolist(), asked.groups.tolist()) == ([13, 11, 12], [0, 3])
    amounts = np.array([2, 4, 3])
    assert asked.min_difficulty(amounts, np.array(wanted)).tolist() == found
    assert asked.sum_amounts(amounts).tolist() == [6, 3]
    assert all_of(groups).sum_amounts(np.array([2, 4, 3, 1])).tolist() == [6, 4]


def test_a_lower_level_comes_before_less_cost() -> None:
    levels, costs, amounts = np.array([2, 1]), np.array([1.0, 9.0]), np.array([1, 1])
    groups = TaskGroups.from_unsorted(np.arange(2), np.zeros(2, np.int64), levels, costs, amounts)
    assert groups.tasks.tolist() == [1, 0]
    assert all_of(groups).min_difficulty(amounts, np.array([1])).tolist() == [LEVEL_WEIGHT + 9]
    assert all_of(groups).min_difficulty(amounts, np.array([2])).tolist() == [2 * LEVEL_WEIGHT + 10]


def test_without_tasks_nothing_is_freeable() -> None:
    none = np.zeros(0, np.int64)
    groups = all_of(TaskGroups.from_unsorted(none, none, none, none.astype(np.float64), none))
    assert (
        groups.groups.tolist()
        == groups.sum_amounts(none).tolist()
        == groups.min_difficulty(none, none).tolist()
        == []
    )


LEVELS = [
    on("low", "b", "n0:0", "n0:1@40", cpu=5, memory=7, priority=-1),
    on("high", "b", "n0:2", "n1:0", priority=4, admitted_at=Instant(9_500)),
    on("elastic", "c", "n1:1@30", "n1:1@30", "n1:2@20", least=1),
    on("fixed", "c", "n1:3", preemptible=False),
    on("young", "c", "n0:3", min_run_s=500, admitted_at=Instant(9_970)),
    on("away", "b", "elsewhere:0"),
]
WAITING = 10_000


def clearance_state() -> tuple[NodeVictimIndex, CandidateIndex]:
    snapshot = site([4, 4], {"a": 4, "b": 1, "c": 1}, LEVELS)
    roster = CandidateIndex(snapshot, replace(PLATFORM, requeue_penalty_s=WAITING), NOW)
    return NodeVictimIndex(roster, snapshot.fleet), roster


def jobs_of(found: NodeVictimIndex, roster: CandidateIndex, marked: NDArray[np.bool_]) -> list[str]:
    holdings = roster.table.charged_jobs
    return sorted(one.job.id for one in holdings if one is not None and marked[one.number])


def contest_of(roster: CandidateIndex, *, ignore_guard: bool = False, **facts: Any) -> PreemptionContext:
    snapshot = roster.snapshot
    found = PreemptionContext(
        index=roster,
        preemptor=wants(snapshot, "a", role(1, 1), **facts),
        trial=RemovalTrial(snapshot, None),
        search_budget=VictimSearchBudget(9),
        ignore_protection=ignore_guard,
    )
    found.policies = {"b": PreemptOthers.LOWER_PRIORITY, "c": PreemptOthers.ANY}
    return found


@pytest.mark.parametrize(
    ("queues", "facts", "legal"),
    [
        ("bc", {"priority": 9}, ["away", "elastic", "high", "low"]),
        ("bc", {"priority": 4}, ["away", "elastic", "low"]),
        ("bc", {"priority": 0}, ["elastic", "low"]),
        ("b", {"priority": 9}, ["away", "high", "low"]),
        ("c", {"priority": 9}, ["elastic"]),
        ("c", {"priority": 9, "ignore_guard": True}, ["elastic", "young"]),
        ("", {"priority": 9}, []),
    ],
)
def test_candidates_are_determined_at_once_for_all(
    queues: str, facts: dict[str, Any], legal: list[str]
) -> None:
    found, roster = clearance_state()
    marked = found.find_eligible(contest_of(roster, **facts), list(queues))
    assert jobs_of(found, roster, marked) == legal


def test_who_holds_nothing_that_is_contested_is_not_asked() -> None:
    found, roster = clearance_state()
    asked = contest_of(roster, priority=9)
    other = FlavorResource("other", Resource.CPU)
    asked.preemptor = replace(asked.preemptor, contested=frozenset({other}))
    assert jobs_of(found, roster, found.find_eligible(asked, "bc")) == []
    asked.preemptor = replace(asked.preemptor, contested=frozenset({other, CORES}))
    assert jobs_of(found, roster, found.find_eligible(asked, "bc")) == ["away", "elastic", "high", "low"]


def test_an_evicted_task_counts_until_it_is_gone() -> None:
    found, roster = clearance_state()
    by_id = {candidate.id: candidate for row in (0, 1) for _, candidate in found.candidates_on_row(row)}
    here = found.get_node_tasks(np.array([True, True]))
    names = [roster.whole_job(int(number)).job.id for number in here.owners]
    found.mark_evicted([by_id["low"], by_id["elastic/worker/2"]])

    def remaining_jobs() -> list[str]:
        there = found.still_allocated(here.tasks)
        return sorted(name for name, stands in zip(names, there, strict=True) if stands)

    assert remaining_jobs() == sorted(names)
    with roster.snapshot.statement() as statement:
        # Released tasks of jobs that were not marked for eviction still count.
        for task in ("low/worker/0", "high/worker/0"):
            statement.release(task)
        assert remaining_jobs() == ["elastic", "elastic", "elastic", "high", "high", "low", "young"]
        for task in ("low/worker/1", "elastic/worker/2"):
            statement.release(task)
        assert remaining_jobs() == ["elastic", "elastic", "high", "high", "young"]


# Levels count from the lowest priority, and from there again for whole jobs.
SPARED, LOW, FIRM, HIGH = 2 * LEVEL_WEIGHT, 4 * LEVEL_WEIGHT, 5 * LEVEL_WEIGHT, 6 * LEVEL_WEIGHT


def test_it_is_hardest_to_take_a_whole_job_then_by_priority_then_by_cost() -> None:
    found, roster = clearance_state()
    names = {holding.number: holding.job.id for holding in roster.table.charged_jobs if holding}
    owner, spared = found.task_columns["owner"], found.task_columns["surplus"]
    levels, costs = found.rank_tasks(found.candidate_tasks)
    hard = {
        (names[int(owner[task])], int(spared[task])): float(level * LEVEL_WEIGHT + cost)
        for task, level, cost in zip(found.candidate_tasks, levels, costs, strict=True)
    }
    # Tasks on one row share the cost of their job; a surplus task adds no cost of waiting again.
    assert hard["low", 0] == LOW + 700 + WAITING // 2
    assert hard["high", 0] == HIGH + 1_000 + WAITING
    assert hard["elastic", 0] == FIRM + (800 + WAITING) // 3
    assert hard["elastic", 1] == SPARED + 266
    assert ("fixed", 0) not in hard and ("away", 0) not in hard


def test_candidates_are_as_hard_to_take_as_the_hardest_and_all_they_cost() -> None:
    found, _ = clearance_state()
    by_id = {candidate.id: candidate for row in (0, 1) for _, candidate in found.candidates_on_row(row)}
    low, high, elastic = by_id["low"], by_id["high"], by_id["elastic/worker/2"]
    going = replace(high, leaving=True, eviction_cost=0.0)
    assert found.compute_difficulty([]) == found.compute_difficulty([going]) == 0.0
    assert found.compute_difficulty([elastic]) == SPARED + elastic.eviction_cost
    assert (
        found.compute_difficulty([high, low, elastic])
        == HIGH + high.eviction_cost + low.eviction_cost + elastic.eviction_cost
    )
    assert found.compute_difficulty([going, low]) == LOW + 1_400 + WAITING


def test_holders_are_found_by_row() -> None:
    found, roster = clearance_state()
    names = {holding.number: holding.job.id for holding in roster.table.charged_jobs if holding}
    rows = [
        [names[number] for number, candidate in found.candidates_on_row(row) if candidate.whole]
        for row in (0, 1, 0)
    ]
    assert rows == [["low", "young", "high"], ["elastic", "high"], ["low", "young", "high"]]


def test_surplus_on_a_row_is_taken_first_and_the_cheapest_before_others() -> None:
    found, _ = clearance_state()
    on_both = [[candidate.id for _, candidate in found.candidates_on_row(row)] for row in (0, 1)]
    assert on_both == [
        ["low", "young", "high"],
        ["elastic/worker/2", "elastic/worker/1", "elastic", "high"],
    ]


def test_a_sum_covers_the_tasks_on_its_rows() -> None:
    found, _ = clearance_state()
    here = found.get_node_tasks(np.array([True, True]))
    everyone = here.select_victims(np.ones(len(here.owners), np.bool_))
    assert everyone.rows.tolist() == [0, 1]
    assert everyone.sum_by_row(here.cards).tolist() == [2 + 1 + 1, 1 + 3]
    assert everyone.sum_by_row(here.cores).tolist() == [140 + 100 + 100, 100 + 80]
    assert (everyone.sum_by_row(here.cpu).tolist(), everyone.sum_by_row(here.memory).tolist()) == (
        [10, 0],
        [14, 0],
    )
    assert everyone.sum_cores_by_card().tolist() == [[100, 40, 100, 100], [100, 60, 20, 0]]
    nobody = here.select_victims(np.zeros(len(here.owners), np.bool_))
    assert (
        nobody.rows.tolist(),
        nobody.sum_by_row(here.cards).tolist(),
        nobody.sum_cores_by_card().tolist(),
    ) == (
        [],
        [],
        [],
    )
    right = found.get_node_tasks(np.array([False, True]))
    assert right.rows.tolist() == [1]
    assert right.select_victims(np.ones(len(right.owners), np.bool_)).sum_by_row(right.cards).tolist() == [4]
    assert found.get_node_tasks(np.array([True, True])) is here


def test_a_set_of_jobs_knows_the_rows_of_its_tasks() -> None:
    found, roster = clearance_state()
    here = found.get_node_tasks(np.array([True, True]))
    names = [roster.whole_job(int(number)).job.id for number in here.owners]
    elastic = here.select_victims(np.array([name == "elastic" for name in names]))
    assert elastic.rows.tolist() == [1]
    assert elastic.sum_by_row(here.cores).tolist() == [80]
    assert elastic.sum_cores_by_card().tolist() == [[0, 60, 20, 0]]
    assert elastic.min_card_difficulty(np.array([2])).tolist() == [SPARED + 2 * 266]
    assert [each.tolist() for each in elastic.cards] == [[1, 1], [1, 2]]
    # The second of these cards has 20 core units, and all of them are wanted.
    assert elastic.min_slice_difficulty(np.array([61, 20])).tolist() == [SPARED + 266]
    assert elastic.min_slice_difficulty(np.array([61, 21])).tolist() == [np.inf]


def test_how_hard_cards_and_parts_of_a_row_are_to_have() -> None:
    found, roster = clearance_state()
    here = found.get_node_tasks(np.array([True, True]))
    legal = here.select_victims(found.find_eligible(contest_of(roster, priority=9), ["b", "c"])[here.owners])
    low, high = 700 + WAITING // 2, 1_000 + WAITING
    assert legal.min_card_difficulty(np.array([1, 1])).tolist() == [LOW + low, SPARED + 266]
    assert legal.min_card_difficulty(np.array([2, 2])).tolist() == [LOW + 2 * low, SPARED + 2 * 266]
    assert legal.min_card_difficulty(np.array([3, 9])).tolist() == [HIGH + 2 * low + high, np.inf]
    assert [each.tolist() for each in legal.cards] == [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    # A part of the first card costs no less than all of it.
    assert legal.min_slice_difficulty(np.array([41, 41, 1, 101, 31, 20])).tolist() == [
        LOW + low,
        SPARED + 266,
    ]
    assert legal.min_slice_difficulty(np.array([101, 41, 100, 1, 61, 21])).tolist() == [
        HIGH + high,
        HIGH + high,
    ]
    assert legal.min_slice_difficulty(np.full(6, 101)).tolist() == [np.inf, np.inf]
    nobody = here.select_victims(np.zeros(len(here.owners), np.bool_))
    assert nobody.min_slice_difficulty(np.zeros(0, np.int64)).tolist() == []
