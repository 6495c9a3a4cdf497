"""The result of preemption for one quota, and how many searches that needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import (
    PreemptionOptions,
    PreemptionOracle,
    Preemptor,
    Snapshot,
    TargetSet,
    VictimSearch,
)
from scheduling.engine.model import (
    Allocation,
    AllocationMode,
    Charge,
    Flavor,
    FlavorResource,
    Instant,
    Job,
    Queue,
    Quota,
    QuotaNode,
)
from scheduling.engine.quota.assignment import AssignmentMode
from tests.unit.scheduling.engine.preemption.worlds import CARDS, NORMATIVE, NOW, RECLAIM, held, running

CPU = FlavorResource("h100", Resource.CPU)
MEMORY = FlavorResource("h100", Resource.MEMORY)


class Counted(VictimSearch):
    """Records its questions."""

    def __init__(self, snapshot: Snapshot, options: PreemptionOptions = NORMATIVE) -> None:
        super().__init__(snapshot, options=options, now=NOW)
        self.asked: list[tuple[Any, ...]] = []

    def find_victims(self, preemptor: Preemptor, *args: Any, **facts: Any) -> TargetSet:
        self.asked.append((dict(preemptor.usage), set(preemptor.contested), args, facts))
        return super().find_victims(preemptor, *args, **facts)


def charged(job: Job, cpu: int) -> list[Allocation]:
    """Return what its tasks hold: the cards of its role, and so many millicores each."""
    return [replace(task, charges=(*task.charges, Charge(*CPU, cpu))) for task in held(job)]


def cell(tasks: Iterable[Allocation], jobs: Iterable[Job], **facts: Any) -> Snapshot:
    """Return two queues that own 4 cards and 40 millicores each."""
    amounts = {CARDS: 4, CPU: 40, MEMORY: 0}
    quotas = tuple(Quota(flavor=k.flavor, resource=k.resource, own_nominal=n) for k, n in amounts.items())
    snapshot = Snapshot(
        flavors=[Flavor(id=CARDS.flavor, placed=False)],
        quota_nodes=[QuotaNode(id="all"), *(QuotaNode(id=q, parent="all", quotas=quotas) for q in "ab")],
        queues=[Queue(**{"id": q, "quota_node": q, "preemption": RECLAIM, **facts}) for q in "ab"],
        jobs=jobs,
    )
    for task in tasks:
        snapshot.add_allocation(task)
    return snapshot


def full(*, cpu: int = 10, **facts: Any) -> Snapshot:
    """Return a cell in which `b` holds everything with eight jobs of one card and as many millicores each."""
    jobs = [running(f"b{n}", "b", 1, admitted_at=Instant(9_000 + n)) for n in range(8)]
    return cell([task for job in jobs for task in charged(job, cpu)], jobs, **facts)


def new(**facts: Any) -> Job:
    return Job(**{"id": "new", "queue": "a", "roles": (), "submitted_at": Instant(5_000), **facts})


def test_a_search_is_for_one_quota_within_the_budget_and_any_victims_will_do() -> None:
    search = Counted(full(), replace(NORMATIVE, oracle_budget=7))
    assert PreemptionOracle(search)(search.snapshot.queues["a"], new(), CARDS, 2) == (
        AssignmentMode.RECLAIM,
        0,
    )
    assert search.asked == [({CARDS: 2}, {CARDS}, (), {"budget": 7, "any_victims": True})]


@pytest.mark.parametrize(
    ("budget", "mode"),
    [(0, AssignmentMode.NO_CANDIDATES), (3, AssignmentMode.NO_CANDIDATES), (4, AssignmentMode.RECLAIM)],
)
def test_a_budget_that_is_too_small_finds_no_victim(budget: int, mode: AssignmentMode) -> None:
    search = Counted(full(), replace(NORMATIVE, oracle_budget=budget))
    assert PreemptionOracle(search)(search.snapshot.queues["a"], new(), CARDS, 4)[0] is mode


@pytest.mark.parametrize(
    ("second", "searches"),
    [
        ((CPU, 20), 1),  # the two jobs evicted for cards release as much
        ((CPU, 21), 2),
        ((CARDS, 2), 1),  # the same question has the same answer
        ((CARDS, 3), 2),  # another question is searched anew
    ],
)
def test_victims_for_one_quota_are_examined_first_for_the_next(
    second: tuple[FlavorResource, int], searches: int
) -> None:
    search = Counted(full())
    oracle, queue, job = PreemptionOracle(search), search.snapshot.queues["a"], new()
    before = search.snapshot.to_json()
    assert oracle(queue, job, CARDS, 2) == (AssignmentMode.RECLAIM, 0)
    assert oracle(queue, job, *second) == (AssignmentMode.RECLAIM, 0)
    assert len(search.asked) == searches
    assert search.snapshot.to_json() == before


def test_another_job_or_another_moment_is_searched_anew() -> None:
    search = Counted(full())
    oracle, queue = PreemptionOracle(search), search.snapshot.queues["a"]
    oracle(queue, new(), CARDS, 2)
    oracle(queue, new(id="next"), CPU, 20)
    assert len(search.asked) == 2
    with search.snapshot.statement() as statement:
        statement.release("b7/1/0")
        oracle(queue, new(id="next"), CARDS, 2)
    assert len(search.asked) == 3


def test_victims_that_are_no_longer_above_their_own_are_not_examined_again() -> None:
    # Of cards `b` has twice its own, of millicores no more than its own.
    search = Counted(full(cpu=5))
    oracle, queue, job = PreemptionOracle(search), search.snapshot.queues["a"], new()
    assert oracle(queue, job, CARDS, 2) == (AssignmentMode.RECLAIM, 0)
    assert oracle(queue, job, CPU, 41)[0] is AssignmentMode.NO_CANDIDATES
    assert len(search.asked) == 2


def test_only_the_evicted_tasks_count() -> None:
    elastic = running("e", "b", 8, least=1)
    snapshot = cell(charged(elastic, 10), [elastic])
    options = PreemptionOptions()
    search = Counted(snapshot, options)
    oracle, queue, job = PreemptionOracle(search), snapshot.queues["a"], new()
    assert oracle(queue, job, CARDS, 2) == (AssignmentMode.RECLAIM, 0)
    assert oracle(queue, job, CPU, 20) == (AssignmentMode.RECLAIM, 0)
    assert len(search.asked) == 1
    assert oracle(queue, job, CPU, 30) == (AssignmentMode.RECLAIM, 0)
    assert len(search.asked) == 2


@pytest.mark.parametrize(
    ("queue", "job", "cards", "expected"),
    [
        ({}, {"priority": 1}, 4, (AssignmentMode.PREEMPT, 1)),
        ({}, {"priority": 1}, 6, (AssignmentMode.PREEMPT, 1)),
        ({}, {"priority": 0}, 2, (AssignmentMode.NO_CANDIDATES, 1)),
        ({}, {"priority": 0}, 5, (AssignmentMode.NO_CANDIDATES, 1)),
        ({}, {"priority": 1, "preemptible": False}, 4, (AssignmentMode.PREEMPT, 0)),
        ({}, {"priority": 1, "preemptible": False}, 6, (AssignmentMode.NO_CANDIDATES, 1)),
        ({}, {"priority": 1, "evictions": 3}, 6, (AssignmentMode.NO_CANDIDATES, 1)),
        ({"allocation_mode": AllocationMode.STATIC}, {"priority": 1}, 6, (AssignmentMode.NO_CANDIDATES, 1)),
        ({"allocation_mode": AllocationMode.STATIC}, {"priority": 1}, 4, (AssignmentMode.PREEMPT, 0)),
    ],
)
def test_the_own_queue_is_preempted_by_priority_and_only_some_may_borrow(
    queue: dict[str, Any], job: dict[str, Any], cards: int, expected: tuple[AssignmentMode, int]
) -> None:
    # `a` holds what it owns; half of `b`'s quota is free to be borrowed.
    jobs = [running(f"a{n}", "a", 1) for n in range(4)] + [running("b", "b", 2)]
    snapshot = cell([task for one in jobs for task in charged(one, 1)], jobs, **queue)
    oracle = PreemptionOracle(Counted(snapshot))
    assert oracle(snapshot.queues["a"], new(**job), CARDS, cards) == expected


@pytest.mark.parametrize(
    ("second", "mode"), [(30, AssignmentMode.PREEMPT), (50, AssignmentMode.NO_CANDIDATES)]
)
def test_what_was_found_for_one_quota_may_not_lift_the_next_above_the_own(
    second: int, mode: AssignmentMode
) -> None:
    jobs = [running("a0", "a", 4)]
    snapshot = cell(charged(jobs[0], 10), jobs)
    oracle, queue = PreemptionOracle(Counted(snapshot)), snapshot.queues["a"]
    fixed = new(priority=1, preemptible=False)
    assert oracle(queue, fixed, CARDS, 4)[0] is AssignmentMode.PREEMPT
    assert oracle(queue, fixed, CPU, second)[0] is mode
