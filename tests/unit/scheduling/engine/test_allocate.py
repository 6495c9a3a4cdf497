"""The jobs that one cycle starts: order, quota, gangs, flavors."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import ConfigError, DeadlineExceededError, EngineConfig
from scheduling.engine.model import (
    AllocationMode,
    Charge,
    Job,
    PlacementRules,
    Reason,
    StopPolicy,
    Strategy,
    Taint,
    Toleration,
    TolerationOperator,
)
from tests.unit.scheduling.engine.builders import (
    cycle,
    flavor,
    job,
    node,
    outcome,
    queue,
    quotas,
    role,
    started,
    world,
)


def test_a_gang_starts_whole_or_not_at_all() -> None:
    jobs = [job("big", "a", role(3, 4)), job("small", "a", role(2, 4), at=1)]
    result = cycle(world([node("n1"), node("n2")], jobs))
    assert started(result) == ["small"]
    assert [allocation.node for allocation in result.decisions[0].allocations] == ["n1", "n2"]
    assert outcome(result, "big").reason is Reason.NEVER_FITS


@pytest.mark.parametrize(
    ("strategy", "expected"), [(Strategy.STRICT_FIFO, []), (Strategy.BEST_EFFORT_FIFO, ["second"])]
)
def test_a_strict_queue_waits_behind_its_head(strategy: Strategy, expected: list[str]) -> None:
    snapshot = world(
        [node("n1", used_cpu=60_000)],
        [job("first", "a", role(cpu=8_000)), job("second", "a", role(cpu=1_000), at=1)],
        queues=[queue("a", strategy=strategy)],
    )
    result = cycle(snapshot)
    assert started(result) == expected
    assert outcome(result, "first").reason is Reason.NO_ROOM


def test_priority_then_submission_then_id() -> None:
    jobs = [job("c", at=5), job("b", at=5), job("urgent", at=9, priority=10), job("a", at=6)]
    assert started(cycle(world([node("n1", 8)], jobs))) == ["urgent", "b", "c", "a"]


def test_the_shortest_job_goes_first_where_the_queue_says_so() -> None:
    jobs = [job("open"), job("long", max_run_s=900, at=1), job("short", max_run_s=60, at=2)]
    snapshot = world([node("n1", 8)], jobs, queues=[queue("a", ordering="shortest")])
    assert started(cycle(snapshot)) == ["short", "long", "open"]


def test_a_job_that_need_not_borrow_goes_first() -> None:
    teams = {"a": quotas(0), "b": quotas(4)}
    jobs = [job("borrower", "a", role(1, 4), priority=100), job("owner", "b", role(1, 4), at=50)]
    assert started(cycle(world([node("n1")], jobs, teams=teams))) == ["owner"]


def test_borrowed_amounts_are_part_of_the_decision() -> None:
    result = cycle(world([node("n1")], [job("j", "a", role(1, 4))], teams={"a": quotas(1), "b": quotas(9)}))
    assert result.decisions[0].borrowed == (Charge("a100", Resource.GPU_CARDS, 3),)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"borrow": 1}, Reason.EXCEEDS_MAX_QUOTA),
        ({"borrow": 2}, None),
        ({"borrow": 0}, Reason.EXCEEDS_MAX_QUOTA),
        ({}, None),
    ],
)
def test_borrowing_stops_at_the_limit(limits: dict[str, int], expected: Reason | None) -> None:
    teams = {"a": quotas(2, **limits), "b": quotas(9)}
    result = cycle(world([node("n1")], [job("j", "a", role(1, 4))], teams=teams))
    assert outcome(result, "j").reason is expected


def test_what_a_team_does_not_lend_stays_its_own() -> None:
    teams = {"a": quotas(2), "b": quotas(9, lend=1)}
    result = cycle(world([node("n1")], [job("j", "a", role(1, 4))], teams=teams))
    assert outcome(result, "j").reason is Reason.EXCEEDS_MAX_QUOTA
    assert outcome(result, "j").numbers["limit"] == 3


@pytest.mark.parametrize(
    ("facts", "mode"), [({"preemptible": False}, AllocationMode.DYNAMIC), ({}, AllocationMode.STATIC)]
)
def test_static_queues_and_non_preemptible_jobs_never_borrow(
    facts: dict[str, bool], mode: AllocationMode
) -> None:
    snapshot = world(
        [node("n1", 8)],
        [job("inside", "a", role(1, 2), **facts), job("above", "a", role(1, 1), at=1, **facts)],
        teams={"a": quotas(2), "b": quotas(9)},
        queues=[queue("a", allocation_mode=mode), queue("b")],
    )
    result = cycle(snapshot)
    assert started(result) == ["inside"]
    assert outcome(result, "above").reason is Reason.WAITING_FOR_QUOTA


@pytest.mark.parametrize("policy", [StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN])
def test_a_stopped_queue_starts_nothing(policy: StopPolicy) -> None:
    snapshot = world([node("n1")], [job("j")], queues=[queue("a", stop_policy=policy)])
    result = cycle(snapshot)
    assert started(result) == []
    assert outcome(result, "j").reason is Reason.QUEUE_STOPPED


class TestFlavors:
    nodes = (node("old", 4, labels={"pool": "old"}), node("new", 4, labels={"pool": "new"}))
    flavors = (flavor("new", node_labels={"pool": "new"}), flavor("old", node_labels={"pool": "old"}))

    def run(self, jobs: list[Job], **limits: int) -> list[tuple[str, set[str]]]:
        teams = {"a": tuple(q for name, n in limits.items() for q in quotas(n, flavors=(name,)))}
        snapshot = world(
            self.nodes,
            jobs,
            teams=teams,
            flavors=self.flavors,
            queues=[queue("a", flavors=("new", "old"))],
        )
        decisions = cycle(snapshot).decisions
        return [(entry.job, {task.flavor for task in entry.allocations}) for entry in decisions]

    def test_the_first_flavor_with_quota_and_room_is_taken(self) -> None:
        jobs = [job("one", "a", role(1, 4)), job("two", "a", role(1, 4), at=1)]
        assert self.run(jobs, new=8, old=8) == [("one", {"new"}), ("two", {"old"})]
        assert self.run(jobs, new=0, old=8) == [("one", {"old"})]

    def test_roles_may_use_different_flavors(self) -> None:
        jobs = [job("j", "a", role(1, 4, name="x"), role(1, 4, name="y"))]
        assert self.run(jobs, new=4, old=4) == [("j", {"new", "old"})]

    def test_a_flavor_taint_needs_a_toleration(self) -> None:
        tainted = replace(self.flavors[0], taints=(Taint("reserved"),))
        rules = PlacementRules(tolerations=(Toleration("reserved", TolerationOperator.EXISTS),))
        snapshot = world(
            self.nodes[1:],
            [job("plain"), job("tolerant", rules=rules, at=1)],
            teams={"a": quotas(8, flavors=("new",))},
            flavors=[tainted],
            queues=[queue("a", flavors=("new",))],
        )
        result = cycle(snapshot)
        assert started(result) == ["tolerant"]
        assert outcome(result, "plain").reason is Reason.NEVER_FITS


class TestElastic:
    def test_it_starts_at_the_largest_size_that_fits(self) -> None:
        result = cycle(world([node("n1", 8)], [job("j", "a", role(12, 1, least=2))]))
        assert len(result.decisions[0].allocations) == 8

    def test_quota_bounds_the_size_as_well(self) -> None:
        snapshot = world([node("n1", 8)], [job("j", "a", role(12, 1, least=2))], teams={"a": quotas(5)})
        assert len(cycle(snapshot).decisions[0].allocations) == 5

    def test_below_the_least_it_waits(self) -> None:
        snapshot = world([node("n1", 8, used_cpu=61_000)], [job("j", "a", role(8, 1, least=4, cpu=1_000))])
        result = cycle(snapshot)
        assert outcome(result, "j").reason is Reason.NO_ROOM
        assert outcome(result, "j").numbers["available"] == 3

    def test_min_available_bounds_the_reduction(self) -> None:
        roles = (role(1, 1, name="master"), role(8, 1, least=1))
        small, large = (job("j", "a", *roles, min_available=least) for least in (5, 8))
        assert len(cycle(world([node("n1", 6)], [small])).decisions[0].allocations) == 6
        assert started(cycle(world([node("n1", 6)], [large]))) == []


def test_heads_per_queue_and_refill_bound_a_cycle() -> None:
    jobs = [job(f"j{index}", "a", role(1, 1, cpu=70_000 - index), at=index) for index in range(3)]
    jobs = [replace(entry, roles=(role(1, 1, cpu=60_000 - n),)) for n, entry in enumerate(jobs)]
    fits = job("fits", at=9)
    snapshot = world([node("n1", used_cpu=50_000)], [*jobs, fits])
    assert started(cycle(snapshot, EngineConfig(heads_per_queue=3))) == []
    assert started(cycle(snapshot, EngineConfig(heads_per_queue=4))) == ["fits"]
    two = world([node("n1")], [job("one"), job("two", at=1)])
    assert started(cycle(two, EngineConfig(refill=False))) == ["one"]


def test_jobs_like_a_failed_one_are_not_tried_again() -> None:
    jobs = [job(f"j{index}", "a", role(1, 4), at=index) for index in range(5)]
    result = cycle(world([node("n1")], jobs))
    assert (result.counters["tried"], result.counters["skipped_as_equivalent"]) == (2, 3)
    assert {outcome(result, f"j{index}").reason for index in range(1, 5)} == {Reason.NO_ROOM}


def test_a_stopwatch_times_actions_without_changing_the_result() -> None:
    ticks = iter(range(100))
    snapshot = world([node("n1")], [job("j")])
    timed = cycle(snapshot, EngineConfig(stopwatch=lambda: float(next(ticks))))
    assert timed.timings == {"allocate": 1.0, "explain": 1.0, "advise": 1.0}
    assert timed == cycle(snapshot)


@pytest.mark.parametrize("jobs_before", range(3))
def test_a_cycle_ends_at_its_deadline_and_leaves_the_snapshot_as_it_was(jobs_before: int) -> None:
    snapshot = world([node("n1"), node("n2")], [job(f"j{n}") for n in range(3)])
    before, seconds = snapshot.to_json(), count()
    # Read before and around the action, and before each job.
    config = EngineConfig(stopwatch=lambda: float(next(seconds)), deadline=float(1 + jobs_before))
    with pytest.raises(DeadlineExceededError):
        cycle(snapshot, config)
    assert next(seconds) == 3 + jobs_before
    assert snapshot.to_json() == before
    assert len(started(cycle(snapshot))) == 3


def test_a_deadline_needs_a_stopwatch() -> None:
    with pytest.raises(ConfigError, match="stopwatch"):
        cycle(world([node("n1")], []), EngineConfig(deadline=1.0))


def test_what_had_no_room_is_not_tried_again_for_another_queue() -> None:
    nodes = [node("n1", used_cpu=61_000), node("n2", 4, ready=False)]
    jobs = [
        job("three", "a", role(4, 1, cpu=1_000)),
        job("five", "b", role(5, 1, cpu=1_000), at=1),
        job("fits", "c", role(3, 1, cpu=1_000), at=2),
    ]
    snapshot = world(nodes, jobs, teams={name: quotas(8) for name in "abc"})
    result = cycle(snapshot)
    assert started(result) == ["fits"]
    assert [outcome(result, name).numbers["asked"] for name in ("three", "five")] == [4, 5]
    assert [outcome(result, name).numbers["available"] for name in ("three", "five")] == [3, 3]


def test_room_that_a_jobs_own_roles_took_is_still_there_for_others() -> None:
    roles = (role(1, 3, name="x"), role(2, 1, name="y"))
    jobs = [job("two-roles", "a", *roles), job("small", "a", role(2, 1), at=1)]
    result = cycle(world([node("n1")], jobs))
    assert outcome(result, "two-roles").reason is Reason.NO_ROOM
    assert started(result) == ["small"]


def test_a_job_without_roles_is_passed_over() -> None:
    snapshot = world([node("n1")], [replace(job("torn", min_available=1), roles=()), job("whole", at=1)])
    result = cycle(snapshot)
    assert started(result) == ["whole"]
    assert outcome(result, "torn").reason is Reason.IN_LINE
