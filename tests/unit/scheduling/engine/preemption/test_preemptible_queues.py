"""The queues that the quota tree lets a job preempt, and the amount that they could release together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduling.engine import FairSharing, Preemptor, ShareStrategy, Snapshot
from scheduling.engine.model import (
    AllocationMode,
    Instant,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
)
from scheduling.engine.preemption.candidates.candidates import CandidateIndex
from scheduling.engine.preemption.candidates.freeable_quota import FreeableQuota
from scheduling.engine.preemption.strategies.preemptible_queues import (
    PreemptibleQueues,
    find_preemptible_queues,
)
from scheduling.engine.preemption.trials.context import PreemptionContext, VictimSearchBudget
from scheduling.engine.preemption.trials.trial import RemovalTrial
from tests.unit.scheduling.engine.preemption.worlds import (
    CARDS,
    NOW,
    PLATFORM,
    RECLAIM,
    cohort,
    names,
    running,
    search,
    wants,
)

SIDES = {"a": "left", "b": "left", "c": "right", "d": "right"}
FINAL, INITIAL = ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE, ShareStrategy.LESS_INITIAL_SHARE
FAIR, BY_SHARES = FairSharing(), FairSharing(preempt_within_nominal=False)


def cell(used: Mapping[str, int], parents: Mapping[str, str], **facts: Any) -> Snapshot:
    """Return four queues that own 3 each, with jobs of one card each."""
    jobs = [running(f"{queue}{n}", queue, 1) for queue, count in used.items() for n in range(count)]
    return cohort(dict.fromkeys("abcd", 3), jobs, parents=parents, **facts)


def contest_of(snapshot: Snapshot, preemptor: Preemptor) -> PreemptionContext:
    return PreemptionContext(
        index=CandidateIndex(snapshot, PLATFORM, NOW),
        preemptor=preemptor,
        trial=RemovalTrial(snapshot, None),
        search_budget=VictimSearchBudget(9),
    )


def asked(
    snapshot: Snapshot, fair: FairSharing | None, cards: int, **facts: Any
) -> tuple[PreemptibleQueues, PreemptionContext]:
    contest = contest_of(snapshot, wants(snapshot, "a", cards, **facts))
    before = snapshot.to_json()
    found = find_preemptible_queues(contest, fair, FreeableQuota(contest.index))
    assert snapshot.to_json() == before and not contest.charged
    return found, contest


@pytest.mark.parametrize(
    ("parents", "used", "fair", "cards", "queues"),
    [
        ({}, {"b": 4, "c": 3}, None, 3, "ab"),
        ({}, {"b": 4, "c": 3}, FAIR, 3, "ab"),
        ({}, {"b": 4, "c": 4}, FAIR, 3, "abc"),
        # It would borrow 3, and each of them borrows 1: shares forbid any eviction.
        ({}, {"b": 4, "c": 4}, FAIR, 6, "a"),
        ({}, {"b": 4, "c": 4}, None, 6, "abc"),
        ({}, {"b": 4, "c": 6}, FAIR, 6, "ac"),
        ({}, {"b": 4, "c": 7}, BY_SHARES, 7, "ac"),
        # Evictable jobs of its own queue count on its side.
        ({}, {"a": 3, "b": 4, "c": 4}, FAIR, 3, "abc"),
        # Fair sharing skips a side that owns what it uses; the rules go to any queue above its own quota.
        (SIDES, {"b": 4, "c": 5, "d": 1}, FAIR, 3, "ab"),
        (SIDES, {"b": 4, "c": 5, "d": 1}, None, 3, "abc"),
        (SIDES, {"b": 4, "c": 5, "d": 2}, FAIR, 3, "abc"),
        (SIDES, {"b": 2, "c": 5, "d": 2}, FAIR, 3, "ac"),
    ],
)
def test_queues_that_could_release_something(
    parents: Mapping[str, str], used: Mapping[str, int], fair: FairSharing | None, cards: int, queues: str
) -> None:
    found, _ = asked(cell(used, parents), fair, cards, priority=1)
    assert "".join(sorted(found.policies)) == queues
    assert {name: policy for name, policy in found.policies.items() if name != "a"} == {
        name: RECLAIM.reclaim for name in queues if name != "a"
    }
    assert found.policies.get("a") == RECLAIM.within_queue


@pytest.mark.parametrize(
    ("policy", "queues"),
    [
        (PreemptionPolicy(within_queue=PreemptWithin.NEVER, reclaim=PreemptOthers.ANY), "b"),
        (PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.NEVER), "a"),
    ],
)
def test_a_policy_without_victims_excludes_the_queue(policy: PreemptionPolicy, queues: str) -> None:
    for fair in (None, FAIR):
        found, _ = asked(cell({"a": 2, "b": 4}, {}, policy=policy), fair, 1, priority=1)
        assert "".join(sorted(found.policies)) == queues


@pytest.mark.parametrize(
    ("used", "cards", "max_loss_s", "queues"),
    [
        # The preemptor borrows whatever is evicted, and every job of b and c has run for 1,000 s.
        ({"b": 7, "c": 6}, 4, 0, "a"),
        ({"b": 7, "c": 6}, 4, 999, "a"),
        ({"b": 7, "c": 6}, 4, 1_000, "abc"),
        ({"b": 7, "c": 6}, 4, None, "abc"),
        ({"b": 7, "c": 6}, 3, 0, "abc"),  # It asks for what its queue owns, so that any job may be evicted.
        # Its own jobs could be evicted first, after which it would borrow no more: b, with the higher share,
        # is examined before them, and c after them.
        ({"a": 2, "b": 8, "c": 4}, 3, 0, "ac"),
    ],
)
def test_a_borrower_looks_for_victims_only_where_it_may_lose_their_work(
    used: Mapping[str, int], cards: int, max_loss_s: int | None, queues: str
) -> None:
    snapshot = cell(used, {})
    contest = contest_of(snapshot, wants(snapshot, "a", cards, priority=1))
    contest.max_loss_s = float("inf") if max_loss_s is None else max_loss_s
    found = find_preemptible_queues(contest, BY_SHARES, FreeableQuota(contest.index))
    assert "".join(sorted(found.policies)) == queues


def test_what_could_be_freed_adds_up_on_the_way_to_the_root() -> None:
    snapshot = cell({"a": 2, "b": 4, "c": 5, "d": 4}, SIDES)
    found, _ = asked(snapshot, None, 3, priority=1)
    assert found.freeable == {"a": {CARDS: 2}, "left": {CARDS: 2 + 4}, "all": {CARDS: 2 + 4 + 5 + 4}}
    found, _ = asked(snapshot, None, 3, priority=0)
    assert found.freeable == {"a": {}, "left": {CARDS: 4}, "all": {CARDS: 4 + 5 + 4}}


@pytest.mark.parametrize(
    ("used", "cards", "facts", "hopeless"),
    [
        ({"b": 12}, 12, {}, False),  # all of it could be freed, by a first estimate
        ({"b": 12}, 13, {}, True),
        ({"b": 3, "c": 3, "d": 3}, 3, {}, False),
        ({"b": 3, "c": 3, "d": 3}, 4, {}, True),
        ({"a": 3, "b": 4}, 5, {"priority": 1}, False),
        ({"a": 3, "b": 4}, 3, {"preemptible": False, "priority": 1}, False),
        ({"a": 3, "b": 4}, 4, {"preemptible": False, "priority": 1}, True),
        ({"a": 3, "b": 4}, 1, {"preemptible": False, "priority": 0}, True),
        ({"b": 12}, 0, {}, False),
    ],
)
def test_a_request_that_would_not_fit_with_all_evicted_is_impossible(
    used: Mapping[str, int], cards: int, facts: Mapping[str, Any], hopeless: bool
) -> None:
    found, contest = asked(cell(used, {}), None, cards, **facts)
    assert found.is_infeasible(contest) is hopeless


def test_every_amount_that_is_asked_for_counts() -> None:
    snapshot = cell({"b": 12}, {})
    found, contest = asked(snapshot, None, 3)
    contest.preemptor = replace(contest.preemptor, usage={CARDS._replace(flavor="other"): 0, CARDS: 13})
    assert found.is_infeasible(contest)


@pytest.mark.parametrize("mode", [AllocationMode.STATIC, AllocationMode.DYNAMIC])
def test_places_are_tried_with_the_job_not_yet_counted(mode: AllocationMode) -> None:
    # Under fair sharing its usage is charged while victims are taken, and not during the placement check.
    jobs = [running(f"b{n}", "b", 1, admitted_at=Instant(9_000 + n)) for n in range(8)]
    snapshot = cohort({"a": 4, "b": 4}, jobs)
    seen: list[int] = []

    def room() -> bool:
        seen.append(snapshot.quota.usage("a", CARDS))
        return snapshot.quota.usage("b", CARDS) <= 5

    preemptor = wants(snapshot, "a", 2)
    preemptor = replace(preemptor, queue=replace(preemptor.queue, allocation_mode=mode))
    found = search(snapshot, preemptor, fair=True, placement_check=room)
    assert names(found) == ["b5", "b6", "b7"]
    assert set(seen) == {0}
    assert snapshot.quota.usage("a", CARDS) == 0


@pytest.mark.parametrize("fair", [None, FAIR])
def test_preemptible_queues_follow_what_others_use_meanwhile(fair: FairSharing | None) -> None:
    snapshot = cell({"b": 4, "c": 4, "d": 3}, SIDES)
    contest = contest_of(snapshot, wants(snapshot, "a", 3))
    reach = FreeableQuota(contest.index)

    def both() -> tuple[PreemptibleQueues, PreemptibleQueues]:
        return find_preemptible_queues(contest, fair, reach), find_preemptible_queues(
            contest, fair, FreeableQuota(contest.index)
        )

    kept, fresh = both()
    assert kept == fresh and "c" in kept.policies
    with snapshot.statement() as statement:
        statement.release("c0/1/0")
        kept, fresh = both()
        assert kept == fresh and "c" not in kept.policies
    kept, fresh = both()
    assert kept == fresh and "c" in kept.policies
