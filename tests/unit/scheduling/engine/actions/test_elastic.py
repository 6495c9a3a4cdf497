"""Elastic jobs: growing into idle capacity, and shrinking for others."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.engine.model import AllocationMode, CycleResult, Job, Reason
from scheduling.engine.model.options import ElasticOptions
from tests.unit.scheduling.engine.actions.worlds import act, decided, live, running_world, settle
from tests.unit.scheduling.engine.builders import job, node, outcome, queue, quotas, role


def elastic(name: str, most: int, least: int, cards: int = 1, at: float = 0, **facts: Any) -> Job:
    return live(job(name, "a", role(most, cards, least=least), at=at), **facts)


def grown(result: CycleResult) -> dict[str, int]:
    return {d.job: len(d.allocations) for d in result.decisions if d.kind.value == "grow"}


def shrunk(result: CycleResult) -> dict[str, tuple[str, ...]]:
    return {d.job: d.released for d in result.decisions if d.kind.value == "shrink"}


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([elastic("one", 4, 1)], {"one": 3}),
        # Both are at their minimum and grow in turn until the older gets the odd one.
        ([elastic("old", 4, 1, at=1), elastic("new", 4, 1, at=2)], {"old": 2, "new": 1}),
        ([elastic("low", 4, 1, at=1), elastic("high", 4, 1, at=2, priority=5)], {"high": 3}),
        ([live(job("fixed", "a", role(1, 1)))], {}),
        ([elastic("full", 1, 1)], {}),
    ],
)
def test_idle_capacity_is_given_to_the_neediest_one_task_at_a_time(
    jobs: list[Job], expected: dict[str, int]
) -> None:
    room = 5 if len(jobs) > 1 else 4
    snapshot = running_world([node("n1", room)], {entry.id: ["n1"] for entry in jobs}, jobs)
    result = act(snapshot, "elastic")
    assert grown(result) == expected
    settle(snapshot, result)
    assert decided(act(snapshot, "elastic")) == []


def test_quota_bounds_growth() -> None:
    jobs = [elastic("one", 8, 1)]
    snapshot = running_world([node("n1", 8)], {"one": ["n1"]}, jobs, teams={"a": quotas(3)})
    assert grown(act(snapshot, "elastic")) == {"one": 2}


def test_no_job_grows_while_another_waits_unless_configured() -> None:
    jobs = [elastic("one", 4, 1), job("big", "a", role(1, 8), at=9)]
    snapshot = running_world([node("n1", 4), node("n2", 8, ready=False)], {"one": ["n1"]}, jobs)
    assert grown(act(snapshot, "elastic")) == {}
    past = ElasticOptions(grow_past_waiting=True)
    assert grown(act(snapshot, "elastic", elastic=past)) == {"one": 3}


def test_growth_is_bounded_and_goes_on_in_the_next_cycle() -> None:
    snapshot = running_world([node("n1", 8)], {"one": ["n1"]}, [elastic("one", 6, 1)])
    two = ElasticOptions(max_growth_per_cycle=2)
    for _ in range(2):
        result = act(snapshot, "elastic", elastic=two)
        assert grown(result) == {"one": 2}
        settle(snapshot, result)
    assert grown(act(snapshot, "elastic", elastic=two)) == {"one": 1}


def test_a_gang_that_lost_tasks_gets_its_minimum_back_before_pending_jobs() -> None:
    jobs = [elastic("one", 6, 3), job("big", "a", role(1, 8), at=9)]
    snapshot = running_world([node("n1", 8), node("n2", 8, ready=False)], {"one": ["n1"]}, jobs)
    result = act(snapshot, "elastic")
    assert grown(result) == {"one": 2}
    settle(snapshot, result)
    assert decided(act(snapshot, "elastic")) == []


@pytest.mark.parametrize(("later", "tasks"), [(True, {"old": 3, "new": 2}), (False, {"old": 4, "new": 1})])
def test_surplus_may_come_after_the_minima_of_all(later: bool, tasks: dict[str, int]) -> None:
    jobs = [job(name, "a", role(4, 1, least=1), at=at) for at, name in enumerate(("old", "new"))]
    result = act(
        running_world([node("n1", 5)], {}, jobs),
        "allocate",
        "elastic",
        elastic=ElasticOptions(start_at_minimum=later),
    )
    given: dict[str, int] = {}
    for decision in result.decisions:
        given[decision.job] = given.get(decision.job, 0) + len(decision.allocations)
    assert given == tasks


class TestGivingUp:
    def world(self, *jobs: Job, cards: int = 4, **facts: Any) -> Any:
        where = {entry.id: ["n1"] * entry.roles[0].replicas for entry in jobs if entry.state.value == "live"}
        return running_world([node("n1", cards)], where, jobs, **facts)

    def test_surplus_is_evicted_for_a_pending_job_of_the_queue(self) -> None:
        snapshot = self.world(elastic("e", 4, 1), job("wait", "a", role(1, 2), at=9))
        result = act(snapshot, "elastic")
        assert shrunk(result) == {"e": ("e/worker/3", "e/worker/2")}
        assert outcome(result, "wait").reason is Reason.WAITING_FOR_PREEMPTED
        settle(snapshot, result)
        assert decided(act(snapshot, "elastic")) == []

    def test_only_as_much_as_is_needed_and_never_the_minimum(self) -> None:
        snapshot = self.world(elastic("e", 3, 1), job("wait", "a", role(1, 2), at=9))
        assert shrunk(act(snapshot, "elastic")) == {"e": ("e/worker/2",)}
        snapshot = self.world(elastic("e", 4, 3), job("wait", "a", role(1, 2), at=9))
        assert decided(act(snapshot, "elastic")) == []

    def test_lower_priority_and_newer_jobs_give_first_and_higher_ones_never(self) -> None:
        low, old, new = elastic("low", 2, 1, at=1), elastic("old", 2, 1, at=1), elastic("new", 2, 1, at=2)
        wait = job("wait", "a", role(1, 1), at=9)
        assert shrunk(act(self.world(old, new, wait), "elastic")) == {"new": ("new/worker/1",)}
        high = elastic("high", 2, 1, at=2, priority=5)
        assert shrunk(act(self.world(low, high, wait), "elastic")) == {"low": ("low/worker/1",)}
        assert decided(act(self.world(elastic("high", 4, 1, priority=5), wait), "elastic")) == []

    def test_quota_that_surplus_holds_comes_back_as_well(self) -> None:
        jobs = (elastic("e", 4, 1), job("wait", "a", role(2, 1), at=9))
        snapshot = self.world(*jobs, cards=8, teams={"a": quotas(4)})
        assert shrunk(act(snapshot, "elastic")) == {"e": ("e/worker/3", "e/worker/2")}

    def test_nothing_is_given_up_in_vain(self) -> None:
        big = job("wait", "a", role(1, 4), at=9)
        assert decided(act(self.world(elastic("e", 4, 1), big), "elastic")) == []
        static = [queue("a", allocation_mode=AllocationMode.STATIC)]
        wait = job("wait", "a", role(1, 1), at=9)
        assert decided(act(self.world(elastic("e", 4, 1), wait, queues=static), "elastic")) == []

    def test_a_shrunk_job_grows_back_only_when_no_job_waits(self) -> None:
        snapshot = self.world(elastic("e", 4, 1), job("wait", "a", role(1, 2), at=9))
        settle(snapshot, act(snapshot, "elastic"), gone=True)
        assert decided(act(snapshot, "elastic")) == []
        assert len(snapshot.allocations_of("e")) == 2
