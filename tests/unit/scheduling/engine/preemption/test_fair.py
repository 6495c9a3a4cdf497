"""Fair preemption: the next queue, the rule of an eviction, and whether it still holds in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduling.engine import (
    FairSharing,
    PreemptionOptions,
    Preemptor,
    ShareStrategy,
    Snapshot,
    TargetSet,
    VictimSearch,
)
from scheduling.engine.model import EvictRule, Instant, Job, JobState, PreemptOthers, PreemptWithin
from scheduling.engine.preemption.candidates.candidates import CandidateIndex
from scheduling.engine.preemption.strategies.fair import CandidateStream, FairPreemption, ShareDescent
from scheduling.engine.preemption.trials.context import PreemptionContext, VictimSearchBudget
from scheduling.engine.preemption.trials.trial import RemovalTrial
from tests.unit.scheduling.engine.preemption.worlds import (
    NORMATIVE,
    NOW,
    PLATFORM,
    cohort,
    names,
    running,
    search,
    wants,
)

FINAL, INITIAL = ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE, ShareStrategy.LESS_INITIAL_SHARE
BY_SHARES = FairSharing(preempt_within_nominal=False)
SIDES = {"a": "left", "b": "left", "c": "right", "d": "right"}
ONE_SIDE = {"c": "right", "d": "right"}


def contest(
    snapshot: Snapshot, preemptor: Preemptor, options: PreemptionOptions = NORMATIVE
) -> PreemptionContext:
    """Begin a search by fair sharing, with all queues as candidates."""
    found = PreemptionContext(
        index=CandidateIndex(snapshot, options, NOW),
        preemptor=preemptor,
        trial=RemovalTrial(snapshot, None),
        search_budget=VictimSearchBudget(100),
    )
    found.policies = {
        queue: PreemptWithin.LOWER_PRIORITY if queue == preemptor.queue.id else PreemptOthers.ANY
        for queue in snapshot.queues
    }
    found.charge_preemptor()
    return found


def three(used: Mapping[str, int], parents: Mapping[str, str]) -> Snapshot:
    """Return four queues that own 3 each; jobs of one card each, those of later queues came later."""
    jobs = [
        running(f"{queue}{n}", queue, 1, admitted_at=Instant(9_000 + ord(queue) + 10 * n))
        for queue, count in used.items()
        for n in range(count)
    ]
    return cohort(dict.fromkeys("abcd", 3), jobs, parents=parents)


@pytest.mark.parametrize(
    ("parents", "used", "order"),
    [
        # The highest share first; of equal ones the queue whose first candidate came last.
        ({}, {"b": 5, "c": 4, "d": 3}, "b cb"),
        ({}, {"b": 5, "c": 5}, "c bcb"),
        ({}, {"b": 4, "c": 4, "d": 4}, "d cb"),
        # First the side whose queues together are above their own; inside it the highest share.
        (SIDES, {"b": 3, "c": 5, "d": 4}, "c dc"),
        (SIDES, {"c": 6, "d": 3}, "c cc"),
        # Of equal shares an inner node before a leaf, whichever job came last.
        (ONE_SIDE, {"b": 5, "c": 5, "d": 3}, "c bcb"),
        # A queue that owns all that it uses is skipped, and so is a side.
        (SIDES, {"c": 5, "d": 1}, ""),
    ],
)
def test_the_way_leads_to_the_largest_share(
    parents: Mapping[str, str], used: Mapping[str, int], order: str
) -> None:
    snapshot = three(used, parents)
    asked = contest(snapshot, wants(snapshot, "a", 1))
    piles = {queue: CandidateStream(queue, iter(asked.index.queue_segments(queue)[2])) for queue in used}
    descent, seen = ShareDescent(asked, piles), []
    while (pile := descent.next_stream()) is not None:
        top = pile.pop_first()
        assert top is not None
        asked.trial.remove_candidate(top)
        seen.append(pile.queue)
    assert "".join(seen) == order.replace(" ", "")


def test_a_queue_that_was_dropped_is_asked_no_more() -> None:
    snapshot = three({"b": 5, "c": 4}, {})
    asked = contest(snapshot, wants(snapshot, "a", 1))
    piles = {queue: CandidateStream(queue, iter(asked.index.queue_segments(queue)[2])) for queue in "bc"}
    descent = ShareDescent(asked, piles)
    first = descent.next_stream()
    assert first is piles["b"]
    descent.drop_stream(piles["b"])
    assert descent.next_stream() is piles["c"]
    descent.drop_stream(piles["c"])
    assert descent.next_stream() is None


def test_the_own_queue_comes_after_others_of_the_same_share() -> None:
    snapshot = three({"a": 4, "b": 5}, {})
    asked = contest(snapshot, wants(snapshot, "a", 1, priority=9))
    piles = {queue: CandidateStream(queue, iter(asked.index.queue_segments(queue)[2])) for queue in "ab"}
    first = ShareDescent(asked, piles).next_stream()
    assert first is not None and first.queue == "b"


def test_candidates_are_searched_only_on_demand() -> None:
    snapshot = three({"b": 3}, {})
    waiting = iter(contest(snapshot, wants(snapshot, "a", 1)).index.queue_segments("b")[2])
    pile = CandidateStream("b", waiting)
    seen = (pile.first, pile.first, pile.pop_first(), pile.first)
    assert [candidate and candidate.id for candidate in seen] == ["b2", "b2", "b2", "b1"]
    assert [
        candidate and candidate.id for candidate in (pile.pop_first(), pile.pop_first(), pile.pop_first())
    ] == [
        "b1",
        "b0",
        None,
    ]
    assert pile.first is None


def victim_of(
    asked: PreemptionContext, fair: FairSharing, queue: str, strategy: ShareStrategy
) -> EvictRule | None:
    field = FairPreemption(asked, fair)
    found = field.take_candidate(asked.index.queue_segments(queue)[2][0], strategy)
    return None if found is None else found.rule


@pytest.mark.parametrize(
    ("fair", "strategy", "used", "wanted", "queue", "rule"),
    [
        (FairSharing(), FINAL, {"b": 5}, 3, "b", EvictRule.RECLAIM_NOMINAL),
        (BY_SHARES, FINAL, {"b": 5}, 3, "b", EvictRule.FAIR_SHARE),
        (FairSharing(), FINAL, {"b": 5}, 4, "b", EvictRule.FAIR_SHARE),
        (FairSharing(), FINAL, {"b": 4}, 4, "b", None),
        (FairSharing(), INITIAL, {"b": 4}, 4, "b", None),
        (FairSharing(), INITIAL, {"b": 5}, 4, "b", EvictRule.FAIR_SHARE),
        (FairSharing(), INITIAL, {"b": 5}, 5, "b", None),
        (FairSharing(), FINAL, {"b": 6}, 5, "b", EvictRule.FAIR_SHARE),
        (FairSharing(), FINAL, {"b": 6}, 6, "b", None),
        (FairSharing(), FINAL, {"a": 5}, 6, "a", EvictRule.IN_QUEUE_PRIORITY),
    ],
)
def test_out_of_turn_a_job_is_evicted_where_the_rule_allows_it(
    fair: FairSharing,
    strategy: ShareStrategy,
    used: Mapping[str, int],
    wanted: int,
    queue: str,
    rule: EvictRule | None,
) -> None:
    snapshot = three(used, {})
    asked = contest(snapshot, wants(snapshot, "a", wanted, priority=1))
    before = snapshot.quota.usages(queue)
    assert victim_of(asked, fair, queue, strategy) is rule
    left = snapshot.quota.usages(queue)
    assert (left == before) is (rule is None)


@pytest.mark.parametrize(
    ("parents", "used", "wanted", "fair", "open_", "accepted"),
    [
        ({}, {"b": 5}, 3, FairSharing(), True, True),
        ({}, {"b": 3}, 3, FairSharing(), False, True),
        ({}, {"b": 3}, 3, BY_SHARES, False, True),
        ({}, {"b": 4}, 5, FairSharing(), False, False),
        ({}, {"b": 5}, 5, FairSharing(), True, True),
        ({}, {"b": 6}, 5, FairSharing(), True, True),
        (SIDES, {"b": 5}, 3, FairSharing(), True, True),
        (SIDES, {"c": 5, "d": 1}, 3, FairSharing(), False, True),
        (SIDES, {"c": 5, "d": 2}, 3, FairSharing(), True, True),
    ],
)
def test_a_queue_is_open_while_it_borrows_and_shares_allow_an_eviction(
    parents: Mapping[str, str],
    used: Mapping[str, int],
    wanted: int,
    fair: FairSharing,
    open_: bool,
    accepted: bool,
) -> None:
    snapshot = three(used, parents)
    field = FairPreemption(contest(snapshot, wants(snapshot, "a", wanted)), fair)
    queue = next(iter(used))
    assert (field.is_open(queue, FINAL), field.accepts_queue(queue, FINAL)) == (open_, accepted)
    assert field.is_open("a", FINAL) and field.accepts_queue("a", FINAL)
    for strategy in (FINAL, INITIAL):
        alone = {name for name in "abcd" if field.accepts_queue(name, strategy)}
        assert field.accepted_queues("abcd", strategy) == alone


@pytest.mark.parametrize(
    ("wanted", "fair", "gone", "still"),
    [
        (3, FairSharing(), 0, True),
        (3, FairSharing(), 1, True),
        (3, FairSharing(), 2, False),  # with two more gone `b` is inside its own with the victim back
        (4, FairSharing(), 0, True),
        (4, FairSharing(), 1, False),  # `b` would have no more above its own than `a`
        (3, BY_SHARES, 1, True),
        (3, BY_SHARES, 2, False),
    ],
)
def test_a_victim_stays_justified_while_its_rule_holds_without_it(
    wanted: int, fair: FairSharing, gone: int, still: bool
) -> None:
    snapshot = three({"b": 5}, {})
    asked = contest(snapshot, wants(snapshot, "a", wanted))
    first, *others = asked.index.queue_segments("b")[2]
    victim = FairPreemption(asked, fair).take_candidate(first, FINAL)
    assert victim is not None
    for other in others[:gone]:
        asked.trial.remove_candidate(other)
    asked.trial.charge_quota(victim.removal)
    before = snapshot.quota.usages("b")
    assert victim.is_justified() is still
    assert snapshot.quota.usages("b") == before


def test_what_was_its_own_is_no_reason_once_it_has_more() -> None:
    snapshot = three({"b": 5}, {})
    asked = contest(snapshot, wants(snapshot, "a", 3))
    victim = FairPreemption(asked, FairSharing()).take_candidate(asked.index.queue_segments("b")[2][0], FINAL)
    assert victim is not None and victim.rule is EvictRule.RECLAIM_NOMINAL
    asked.trial.charge_quota(victim.removal)
    assert victim.is_justified()
    snapshot.quota.add_usages("a", asked.preemptor.usage)
    assert not victim.is_justified()


def test_of_the_own_queue_it_is_always_justified() -> None:
    snapshot = three({"a": 1}, {})
    asked = contest(snapshot, wants(snapshot, "a", 3, priority=1))
    victim = FairPreemption(asked, FairSharing()).take_candidate(asked.index.queue_segments("a")[2][0], FINAL)
    assert victim is not None
    asked.trial.charge_quota(victim.removal)
    assert victim.is_justified()


def loads(_: str, user: str) -> float | None:
    return {"heavy": 5.0, "light": 1.0}.get(user)


@pytest.mark.parametrize("fair", [None, FairSharing()])
@pytest.mark.parametrize(
    ("counted", "leave"),
    [(None, ["light0", "light1"]), (loads, ["heavy0", "heavy1"])],
    ids=["latest", "load"],
)
def test_jobs_of_users_who_used_more_lately_are_evicted_first_under_the_rules(
    fair: FairSharing | None, counted: Any, leave: list[str]
) -> None:
    jobs = [
        running(f"{user}{n}", "b", 4, user=user, admitted_at=Instant(9_000 + late + n))
        for user, late in (("heavy", 0), ("light", 10), ("", 5))
        for n in range(2)
    ]
    snapshot = cohort({"a": 12, "b": 12}, jobs)
    search_ = VictimSearch(snapshot, options=NORMATIVE, now=NOW, fair=fair, user_load=counted)
    assert names(search_.find_victims(wants(snapshot, "a", 8))) == leave


@pytest.mark.parametrize("counted", [None, loads])
def test_a_terminating_job_comes_before_all_loads(counted: Any) -> None:
    jobs = [
        running("gone", "b", 4, user="light", state=JobState.LEAVING),
        running("heavy", "b", 4, user="heavy"),
        running("light", "b", 4, user="light"),
    ]
    snapshot = cohort({"a": 6, "b": 6}, jobs)
    search_ = VictimSearch(snapshot, options=NORMATIVE, now=NOW, fair=FairSharing(), user_load=counted)
    assert names(search_.find_victims(wants(snapshot, "a", 4))) == ["gone"]


def asked_of(jobs: list[Job], nominal: Mapping[str, int], cards: int, **facts: Any) -> TargetSet:
    snapshot = cohort(nominal, jobs)
    return search(snapshot, wants(snapshot, "a", cards), facts.pop("options", PLATFORM), **facts)


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize(
    ("facts", "leave", "steps", "exhausted"),
    [
        # The second choice compares what is lost with what is gained.
        ({}, ["large"], 18, False),
        ({"any_victims": True}, [f"s{n}" for n in range(8)], 16, False),
        ({"budget": 17}, ["large"], 18, False),
        ({"budget": 16}, [f"s{n}" for n in range(8)], 16, True),
        ({"budget": 8}, [f"s{n}" for n in range(8)], 16, True),
        ({"budget": 7}, [], 7, True),
        ({"options": NORMATIVE}, ["large"], 1, False),
    ],
)
def test_the_second_choice_loses_less(
    fair: bool, facts: dict[str, Any], leave: list[str], steps: int, exhausted: bool
) -> None:
    jobs = [running(f"s{n}", "b", 1, admitted_at=Instant(9_900)) for n in range(8)]
    jobs.append(running("large", "b", 4, each=2, admitted_at=Instant(9_950)))
    found = asked_of(jobs, {"a": 8, "b": 8}, 8, fair=fair, **facts)
    assert (names(found), found.exhausted) == (leave, exhausted)
    assert found.steps <= steps


@pytest.mark.parametrize(
    ("options", "leave"),
    [
        (NORMATIVE, ["b1", "c1"]),
        (replace(NORMATIVE, final_check=True), ["b1", "c1"]),
        (PLATFORM, ["b1", "c1"]),
    ],
)
def test_shares_exclude_early_the_victims_that_the_check_would_restore(
    options: PreemptionOptions, leave: list[str]
) -> None:
    jobs = [
        running("b1", "b", 1, admitted_at=Instant(9_300)),
        running("b2", "b", 3, admitted_at=Instant(9_200)),
        running("b3", "b", 1, admitted_at=Instant(9_100)),
        running("c1", "c", 3, admitted_at=Instant(9_000)),
    ]
    found = asked_of(jobs, {"a": 4, "b": 3, "c": 1}, 4, options=options, fair=True)
    assert names(found) == ["b1", "c1"]


FIVE = [
    running(f"{queue}{n}", queue, 1, admitted_at=Instant(9_000 + 10 * n + ord(queue)))
    for queue in "bcd"
    for n in range(5)
]


@pytest.mark.parametrize("options", [NORMATIVE, PLATFORM])
@pytest.mark.parametrize(
    ("parents", "cards", "leave"),
    [
        ({}, 3, "b4 c4 d4"),
        ({}, 4, "b4 c4 d3 d4"),
        ({}, 5, "b4 c3 c4 d3 d4"),
        ({}, 6, "b3 b4 c3 c4 d3 d4"),
        # The other side has four above its own, and the own side none.
        (SIDES, 3, "c4 d3 d4"),
        (SIDES, 4, "c3 c4 d3 d4"),
        # The last victim comes from beside it: all of it is the queue's own, whatever its side borrows.
        (SIDES, 5, "b4 c3 c4 d3 d4"),
        # Two queues below one node have as much above their own as one beside it has.
        (ONE_SIDE, 3, "c4 d3 d4"),
        (ONE_SIDE, 4, "b4 c4 d3 d4"),
        (ONE_SIDE, 5, "b4 c3 c4 d3 d4"),
        (ONE_SIDE, 6, "b3 b4 c3 c4 d3 d4"),
    ],
)
def test_what_is_taken_back_is_taken_evenly(
    options: PreemptionOptions, parents: Mapping[str, str], cards: int, leave: str
) -> None:
    snapshot = cohort({"a": 6, "b": 3, "c": 3, "d": 3}, FIVE, parents=parents)
    before = snapshot.to_json()
    assert names(search(snapshot, wants(snapshot, "a", cards), options, fair=True)) == leave.split()
    assert snapshot.to_json() == before
