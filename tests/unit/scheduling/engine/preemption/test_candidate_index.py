"""The facts of each candidate, and the order of a queue's candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduling.engine import PreemptionOptions, VictimOrder
from scheduling.engine.model import Instant, Job, JobState
from scheduling.engine.preemption.candidates.candidates import (
    CandidateIndex,
    VictimCandidate,
    least_loss_rank,
    normative_order,
    normative_rank,
    sort_in_queue,
)
from tests.unit.scheduling.engine.preemption.worlds import (
    CARDS,
    NORMATIVE,
    NOW,
    PLATFORM,
    cohort,
    held,
    running,
)

FOREVER = float("-inf")
BY_PRIORITY = replace(NORMATIVE, victim_order=VictimOrder.PRIORITY)


def index_of(jobs: Iterable[Job], options: PreemptionOptions = PLATFORM, **facts: Any) -> CandidateIndex:
    return CandidateIndex(cohort({"a": 4, "b": 4}, jobs), options, NOW, **facts)


def line(found: Iterable[VictimCandidate]) -> list[str]:
    return [candidate.id for candidate in found]


@pytest.mark.parametrize(
    ("facts", "lost", "work", "guarded", "borrowing"),
    [
        ({}, 2_000, 2_000, FOREVER, FOREVER),
        ({"evictions": 2}, 2_000, 2_000 + 2 * 2 * 3_600, FOREVER, FOREVER),
        ({"checkpoint_interval_s": 300}, 200, 200, FOREVER, FOREVER),
        ({"checkpoint_interval_s": 1}, 0, 0, FOREVER, FOREVER),
        ({"admitted_at": None}, 0, 0, FOREVER, FOREVER),
        ({"admitted_at": Instant(10_001)}, 0, 0, FOREVER, FOREVER),
        ({"min_run_s": 600}, 2_000, 2_000, 9_600, 9_060),
        ({"min_run_s": 30}, 2_000, 2_000, 9_030, 9_030),
        ({"min_run_s": 0}, 2_000, 2_000, 9_000, 9_000),
        ({"min_run_s": 600, "state": JobState.LEAVING}, 0, 0, FOREVER, FOREVER),
    ],
)
def test_what_it_would_cost_to_take_a_job(
    facts: Mapping[str, object], lost: float, work: float, guarded: float, borrowing: float
) -> None:
    known = index_of([running("j", "a", 2, **facts)])
    (candidate,) = [one for segment in known.queue_segments("a") for one in segment]
    assert (candidate.lost_work, candidate.weighted_loss) == (lost, work)
    # The eviction of a terminating job adds no cost of waiting.
    assert candidate.eviction_cost == work + (
        0 if candidate.leaving else PreemptionOptions().requeue_penalty_s
    )
    assert (candidate.protected_until, candidate.protected_until_borrowing) == (guarded, borrowing)
    assert (candidate.id, candidate.whole, candidate.charges) == ("j", True, {CARDS: 2})
    assert known.min_loss_per_card("a") == work / 2


@pytest.mark.parametrize(
    ("facts", "eligible"),
    [({}, True), ({"evictions": 2}, True), ({"evictions": 3}, False), ({"preemptible": False}, False)],
)
def test_a_job_that_may_not_be_taken_is_no_candidate_unless_it_is_terminating(
    facts: Mapping[str, object], eligible: bool
) -> None:
    assert any(index_of([running("j", "a", 1, **facts)]).queue_segments("a")) is eligible
    leaving = running("j", "a", 1, **facts, state=JobState.LEAVING)
    known = index_of([leaving])
    assert line(known.queue_segments("a")[0]) == ["j"]
    assert known.min_loss_per_card("a") == 0.0


def test_what_a_task_costs_that_its_job_can_spare() -> None:
    (_, spared, _) = index_of([running("j", "a", 3, each=2, least=1, evictions=1)]).queue_segments("a")
    assert line(spared) == ["j/2/2", "j/2/1"]
    first = spared[0]
    assert (first.lost_work, first.eviction_cost, first.charges) == (2_000, 2 * (1_000 + 3_600), {CARDS: 2})
    assert (first.whole, first.leaving, first.protected_until) == (False, False, FOREVER)


@pytest.mark.parametrize(
    ("options", "segments"),
    [
        (PLATFORM, [["going"], ["e/1/2", "e/1/1"], ["s", "e"]]),
        (NORMATIVE, [["going"], [], ["s", "e"]]),
        (BY_PRIORITY, [["going"], [], ["s", "e/1/2", "e/1/1", "e"]]),
    ],
)
def test_candidates_are_ordered_in_segments(options: PreemptionOptions, segments: list[list[str]]) -> None:
    jobs = [
        running("e", "a", 3, least=1, priority=1),
        running("s", "a", 1),
        running("going", "a", 2, least=1, state=JobState.LEAVING),
        running("other", "b", 1),
        running("fixed", "a", 1, preemptible=False),
    ]
    known = index_of(jobs, options)
    assert [line(segment) for segment in known.queue_segments("a")] == segments
    assert [line(segment) for segment in known.queue_segments("empty")] == [[], [], []]
    assert known.min_loss_per_card("empty") == float("inf")


LOADS = {"heavy": 5.0, "light": 1.0}


def test_users_who_used_more_lately_come_first_in_their_queue() -> None:
    jobs = [
        running("l", "a", 1, user="light", priority=0),
        running("h", "a", 1, user="heavy", priority=9),
        running("n", "a", 1, user="none", priority=0),
        running("g", "a", 1, user="light", priority=9, state=JobState.LEAVING),
    ]
    asked: list[tuple[str, str]] = []

    def load(queue: str, user: str) -> float | None:
        asked.append((queue, user))
        return LOADS.get(user)

    known = index_of(jobs, user_load=load)
    assert line(known.queue_segments("a")[2]) == ["h", "l", "n"]
    assert ("a", "heavy") in asked
    assert not known.sorts_by_priority and index_of(jobs).sorts_by_priority
    mixed = [*known.queue_segments("a")[2], *known.queue_segments("a")[0]]
    assert line(sort_in_queue(mixed)) == ["g", "h", "l", "n"]


def test_a_job_above_its_own_quota_is_known_from_the_beginning() -> None:
    snapshot = cohort({"a": 2, "b": 4}, [running("x", "a", 3), running("y", "b", 4)])
    known = CandidateIndex(snapshot, PLATFORM, NOW)
    snapshot.add_allocation(held(running("z", "b", 1))[0])
    key = frozenset({CARDS})
    assert [known.was_above_nominal(queue, key) for queue in "ab"] == [True, False]
    assert not known.was_above_nominal("a", frozenset())
    assert (list(known.queues_at("a")), list(known.queues_at("all"))) == (["a"], [])


def candidate(name: str, queue: str = "b", **facts: Any) -> VictimCandidate:
    known = {
        key: facts.pop(key)
        for key in ("leaving", "whole", "eviction_cost", "tasks", "user_load")
        if key in facts
    }
    job = running(name, queue, 3, **facts)
    return VictimCandidate(**{"job": job, "queue": queue, "tasks": held(job), **known})


NORMATIVE_PAIRS = {
    "leaving": (candidate("z", leaving=True, priority=9), candidate("a")),
    "lower priority": (candidate("z", priority=-1), candidate("a", admitted_at=Instant(9_999))),
    "admitted last": (candidate("z", admitted_at=Instant(9_001)), candidate("a")),
    "unknown is last": (candidate("z", admitted_at=None), candidate("a", admitted_at=Instant(9_999))),
    "id": (candidate("a"), candidate("b")),
}
LEAST_LOSS_PAIRS = {
    "leaving": (candidate("z", leaving=True), candidate("a", whole=False)),
    "spared": (candidate("z", whole=False, priority=9), candidate("a")),
    "lower priority": (candidate("z", eviction_cost=9.0), candidate("a", priority=1)),
    "cost": (candidate("z", eviction_cost=1.0), candidate("a", eviction_cost=2.0)),
    "id": (candidate("a"), candidate("b")),
    "last task": (
        candidate("a", whole=False, tasks=held(running("a", "b", 3))[2:]),
        candidate("a", whole=False, tasks=held(running("a", "b", 3))[1:]),
    ),
}


@pytest.mark.parametrize("pair", NORMATIVE_PAIRS.values(), ids=NORMATIVE_PAIRS)
def test_the_order_of_the_rules(pair: tuple[VictimCandidate, VictimCandidate]) -> None:
    first, second = (normative_rank(one, NOW) for one in pair)
    assert first < second


@pytest.mark.parametrize("pair", LEAST_LOSS_PAIRS.values(), ids=LEAST_LOSS_PAIRS)
def test_the_order_of_least_loss(pair: tuple[VictimCandidate, VictimCandidate]) -> None:
    first, second = map(least_loss_rank, pair)
    assert first < second


def test_the_rules_put_other_queues_before_the_own_and_loads_before_rank() -> None:
    mixed = [
        candidate("own", "a", priority=-5),
        candidate("late", "b", admitted_at=Instant(9_500)),
        candidate("going", "a", leaving=True),
        candidate("heavy", "c", user_load=2.0, priority=3),
        candidate("idle", "c", user_load=0.5, priority=-9),
        candidate("early", "b", admitted_at=Instant(9_100)),
    ]
    assert line(normative_order(mixed, "a", NOW)) == ["going", "late", "early", "heavy", "idle", "own"]
    assert line(normative_order(mixed, "b", NOW))[-2:] == ["late", "early"]
