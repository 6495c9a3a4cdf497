"""Who leaves at once where a quota was lowered below its use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine.model import FlavorResource, Instant, Job, JobState
from scheduling.engine.preemption.overhang import overhang
from tests.unit.scheduling.engine.preemption.worlds import CARDS, cohort, held, running

JOBS = [
    running("fixed", "a", 2, preemptible=False, admitted_at=Instant(9_999)),
    running("high", "a", 2, priority=5, admitted_at=Instant(9_998)),
    running("early", "a", 3, admitted_at=Instant(9_000)),
    running("late", "a", 1, admitted_at=Instant(9_500)),
    running("unknown", "a", 1, admitted_at=None, submitted_at=Instant(8_000)),
    running("other", "b", 4),
    running("going", "a", 4, state=JobState.LEAVING),
]


@pytest.mark.parametrize(
    ("limit", "leave"),
    [
        (9, []),
        (8, ["late"]),
        (7, ["early"]),  # `late` and `early` would do; `early` alone does
        (6, ["early"]),
        (5, ["late", "early"]),
        (4, ["late", "early", "unknown"]),
        (3, ["late", "early", "high"]),
        (2, ["late", "early", "unknown", "high"]),
        (1, ["late", "early", "high", "fixed"]),
        (0, ["late", "early", "unknown", "high", "fixed"]),
    ],
)
def test_lower_priority_and_later_jobs_leave_and_no_more_than_needed(limit: int, leave: list[str]) -> None:
    assert overhang(cohort({"a": 9, "b": 9}, JOBS), ["a"], CARDS, limit) == leave


@pytest.mark.parametrize(
    ("queues", "limit", "leave"),
    [
        (["a", "b"], 10, ["early"]),
        (["a", "b"], 8, ["late", "other"]),
        (["b"], 3, ["other"]),
        (["b"], 4, []),
        ([], 0, []),
    ],
)
def test_all_queues_below_a_node_count_together(queues: list[str], limit: int, leave: list[str]) -> None:
    assert overhang(cohort({"a": 9, "b": 9}, JOBS), queues, CARDS, limit) == leave


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (running("z", "a", 1, priority=1), running("b", "a", 1, priority=2)),
        (running("z", "a", 1), running("b", "a", 1, preemptible=False)),
        (running("z", "a", 1, admitted_at=Instant(9_001)), running("b", "a", 1)),
        (running("z", "a", 1, admitted_at=None, submitted_at=Instant(9_001)), running("b", "a", 1)),
        (running("a", "a", 1), running("b", "a", 1)),
    ],
)
def test_the_order_in_which_they_leave(first: Job, second: Job) -> None:
    for jobs in ([first, second], [second, first]):
        assert overhang(cohort({"a": 2}, jobs), ["a"], CARDS, 1) == [first.id]


def test_who_holds_nothing_of_it_or_leaves_already_stays_out_of_it() -> None:
    other = FlavorResource("other", CARDS.resource)
    jobs: list[Job] = [running("x", "a", 2), running("y", "a", 3)]
    snapshot = cohort({"a": 9}, jobs)
    assert overhang(snapshot, ["a"], other, 0) == []
    leaving = replace(held(jobs[1])[0], leaving=True)
    snapshot.give_back(leaving.id)
    snapshot.take(leaving)
    assert overhang(snapshot, ["a"], CARDS, 4) == []
    assert overhang(snapshot, ["a"], CARDS, 3) == ["x"]
