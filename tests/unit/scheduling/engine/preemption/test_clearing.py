"""Which nodes are cleared for a gang of equal tasks, and which jobs are evicted there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from scheduling.engine import FairSharing, PreemptionOptions, ShareStrategy, VictimSearch
from scheduling.engine.model import Allocation, EvictRule, Instant, Job, JobState, Role
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.preemption import node_clearance
from tests.unit.scheduling.engine.builders import role
from tests.unit.scheduling.engine.preemption.placed_jobs import (
    NOW,
    PLATFORM,
    board_of,
    never,
    on,
    search,
    site,
    tasks_to_evict,
    wants,
)

RunningJob = tuple[Job, tuple[Allocation, ...]]
LONG, SHORT = {"admitted_at": Instant(1_000)}, {"admitted_at": Instant(9_900)}
AGES = {"admitted_at": Instant(-90_000)}
LEAVING = {"state": JobState.LEAVING}
WHOLE_NODE = ("0", "1", "2", "3")


def fill(name: str, queue: str, node: str, cards: Sequence[str] = WHOLE_NODE, **facts: Any) -> RunningJob:
    """Return a job with a task on each of some cards of a node."""
    return on(name, queue, *(f"{node}:{card}" for card in cards), **facts)


@dataclass(frozen=True, kw_only=True)
class Case:
    """The running jobs, what `a` requests, and the jobs to evict; `lost` are GPU-seconds."""

    standing: list[RunningJob]
    asked: Role
    leave: Mapping[str, tuple[str, ...]]
    lost: int | None = None
    cards: Sequence[int] = (4, 4)
    nominal: Mapping[str, int] = field(default_factory=lambda: {"a": 4, "b": 4})
    facts: Mapping[str, Any] = field(default_factory=dict)
    options: PreemptionOptions = PLATFORM


def tasks(job: str, *numbers: int) -> dict[str, tuple[str, ...]]:
    return {job: tuple(f"{job}/worker/{number}" for number in numbers)}


CASES: dict[str, Case] = {
    "the node that loses least": Case(
        standing=[fill("long", "b", "n0", **LONG), fill("short", "b", "n1", **SHORT)],
        asked=role(1, 4),
        leave={"short": ()},
        lost=400,
    ),
    "whatever the names": Case(
        standing=[fill("long", "b", "n1", **LONG), fill("short", "b", "n0", **SHORT)],
        asked=role(1, 4),
        leave={"short": ()},
        lost=400,
    ),
    "lower priority before cost": Case(
        standing=[fill("low", "b", "n0", **LONG), fill("high", "b", "n1", priority=1, **SHORT)],
        asked=role(1, 4),
        leave={"low": ()},
        lost=36_000,
    ),
    "of equals the first node": Case(
        standing=[fill("x", "b", "n1"), fill("y", "b", "n0")], asked=role(1, 4), leave={"y": ()}, lost=4_000
    ),
    "one card where three are free": Case(
        standing=[fill("single", "b", "n0", "2"), fill("whole", "b", "n1")],
        asked=role(1, 4),
        leave={"single": ()},
        lost=1_000,
    ),
    "four cheap cards before a dear one": Case(
        standing=[fill("single", "b", "n0", "2", **LONG), fill("whole", "b", "n1", **SHORT)],
        asked=role(1, 4),
        leave={"whole": ()},
        lost=400,
    ),
    "many that lose little before one of many nodes that lose more": Case(
        standing=[
            *(fill(f"long{n}", "b", f"n{n}", **AGES) for n in range(12)),
            *(fill(f"short{n}", "b", "n12", str(n), **SHORT) for n in range(4)),
        ],
        asked=role(1, 4),
        leave={f"short{n}": () for n in range(4)},
        lost=400,
        cards=(4,) * 13,
        nominal={"a": 4, "b": 48},
    ),
    "one job before many that lose a little less": Case(
        standing=[
            fill("one", "b", "n0", **LONG),
            *(fill(f"single{n}", "b", "n1", str(n), **SHORT) for n in range(4)),
        ],
        asked=role(1, 4),
        leave={"one": ()},
        lost=36_000,
    ),
    "many where their waiting counts nothing": Case(
        standing=[
            fill("one", "b", "n0", **LONG),
            *(fill(f"single{n}", "b", "n1", str(n), **SHORT) for n in range(4)),
        ],
        asked=role(1, 4),
        leave={f"single{n}": () for n in range(4)},
        lost=400,
        options=replace(PLATFORM, requeue_penalty_s=0),
    ),
    "no more of a node than is needed": Case(
        standing=[
            fill("dear", "b", "n0", "01", **LONG),
            fill("cheap", "b", "n0", "2", **SHORT),
            fill("other", "b", "n1", "012"),
        ],
        asked=role(1, 2),
        leave={"cheap": ()},
        lost=100,
    ),
    "who turns out not to be needed stays": Case(
        standing=[
            fill("one", "b", "n0", "0", admitted_at=Instant(9_990)),
            fill("two", "b", "n0", "12", admitted_at=Instant(9_980)),
            fill("rest", "b", "n0", "3", **LONG),
            fill("far", "b", "n1", **LONG),
        ],
        asked=role(1, 2),
        leave={"two": ()},
        lost=40,
    ),
    "who leaves anyway": Case(
        standing=[fill("going", "b", "n0", **LONG, **LEAVING), fill("short", "b", "n1", **SHORT)],
        asked=role(1, 4),
        leave={"going": ()},
        lost=0,
    ),
    "what a job can spare before a whole one": Case(
        standing=[fill("elastic", "b", "n0", least=2, **LONG), fill("stiff", "b", "n1", **SHORT)],
        asked=role(1, 2),
        leave=tasks("elastic", 2, 3),
        lost=18_000,
    ),
    "all of it where it can spare too little": Case(
        standing=[fill("elastic", "b", "n0", least=2, **LONG), fill("stiff", "b", "n1", **SHORT)],
        asked=role(1, 3),
        leave={"stiff": ()},
        lost=400,
    ),
    "spared tasks of the right node only": Case(
        standing=[
            on("elastic", "b", "n0:0", "n0:1", "n1:0", "n1:1", "n1:2", least=1),
            fill("fixed", "b", "n0", "23", preemptible=False),
            fill("firm", "b", "n1", "3", preemptible=False),
        ],
        asked=role(1, 3),
        leave=tasks("elastic", 2, 3, 4),
        lost=3_000,
    ),
    "two nodes for two tasks": Case(
        standing=[fill(f"j{n}", "b", f"n{n}", admitted_at=Instant(9_000 + n)) for n in range(3)],
        asked=role(2, 4),
        leave={"j1": (), "j2": ()},
        lost=4 * (999 + 998),
        cards=(4, 4, 4),
        nominal={"a": 8, "b": 4},
    ),
    "a free node and a cleared one": Case(
        standing=[fill("long", "b", "n0", **LONG), fill("short", "b", "n1", **SHORT)],
        asked=role(2, 4),
        leave={"short": ()},
        cards=(4, 4, 4),
        nominal={"a": 8, "b": 4},
    ),
    "a gang on two nodes goes from both": Case(
        standing=[
            on("wide", "b", "n0:0", "n0:1", "n1:0", "n1:1", **SHORT),
            fill("left", "b", "n0", "23", **LONG),
            fill("right", "b", "n1", "23", **LONG),
        ],
        asked=role(2, 2),
        leave={"wide": ()},
        lost=400,
    ),
    "step by step, the cheapest seat first": Case(
        standing=[fill("pair", "b", "n0", "01"), fill("other", "b", "n0", "23"), fill("far", "b", "n1")],
        asked=role(2, 2),
        leave={"other": (), "pair": ()},
        lost=4_000,
    ),
    "nobody where a fixed job stands on each node": Case(
        standing=[
            fill("b0", "b", "n0", "012"),
            fill("f0", "b", "n0", "3", preemptible=False),
            fill("b1", "b", "n1", "012"),
            fill("f1", "b", "n1", "3", preemptible=False),
        ],
        asked=role(1, 4),
        leave={},
    ),
    "the node without a fixed job": Case(
        standing=[
            fill("b0", "b", "n0", "012", **SHORT),
            fill("f0", "b", "n0", "3", preemptible=False),
            fill("b1", "b", "n1", **LONG),
        ],
        asked=role(1, 4),
        leave={"b1": ()},
    ),
    "of the own queue by priority": Case(
        standing=[fill("low", "a", "n0", "01", priority=1), fill("high", "a", "n1", "01", priority=5)],
        asked=role(1, 2),
        leave={"low": ()},
        cards=(2, 2),
        nominal={"a": 4, "b": 0},
        facts={"priority": 3},
    ),
    "of the own queue nobody above": Case(
        standing=[fill("same", "a", "n0", "01", priority=3), fill("high", "a", "n1", "01", priority=5)],
        asked=role(1, 2),
        leave={},
        cards=(2, 2),
        nominal={"a": 4, "b": 0},
        facts={"priority": 3},
    ),
    "nobody of a queue inside what it owns": Case(
        standing=[fill("b", "b", "n0", **SHORT), fill("c", "c", "n1", **LONG)],
        asked=role(1, 4),
        leave={"c": ()},
        nominal={"a": 4, "b": 4, "c": 0},
    ),
    "no more of a queue than it has above its own": Case(
        standing=[
            *(fill(f"b{n}", "b", f"n{n}", "01", admitted_at=Instant(9_990)) for n in range(3)),
            fill("c", "c", "n3", "01", **LONG),
        ],
        asked=role(3, 2),
        leave={"b0": (), "b1": (), "c": ()},
        cards=(2, 2, 2, 2),
        nominal={"a": 6, "b": 2, "c": 0},
    ),
    "processors count": Case(
        standing=[
            fill("little", "b", "n0", "0", cpu=10_000, **SHORT),
            fill("much", "b", "n0", "1", cpu=40_000, **LONG),
            fill("fixed", "b", "n1", preemptible=False),
        ],
        asked=role(1, 1, cpu=30_000),
        leave={"much": ()},
    ),
    "processors where both are needed": Case(
        standing=[
            fill("little", "b", "n0", "0", cpu=20_000, **SHORT),
            fill("much", "b", "n0", "1", cpu=40_000, **LONG),
            fill("fixed", "b", "n1", preemptible=False),
        ],
        asked=role(1, 1, cpu=50_000),
        leave={"little": (), "much": ()},
    ),
    "memory counts": Case(
        standing=[
            fill("little", "b", "n0", "0", memory=100_000, **SHORT),
            fill("much", "b", "n0", "1", memory=400_000, **LONG),
            fill("fixed", "b", "n1", preemptible=False),
        ],
        asked=role(1, 1, memory=300_000),
        leave={"much": ()},
    ),
    "a part of a card": Case(
        standing=[
            on("dear", "b", "n0:0@50", **LONG),
            on("cheap", "b", "n0:0@50", **SHORT),
            on("other", "b", "n1:0@100"),
        ],
        asked=role(1, 1, cores=50),
        leave={"cheap": ()},
        lost=50,
        cards=(1, 1),
        nominal={"a": 1, "b": 1},
    ),
    "the parts of one card together": Case(
        standing=[
            on("x", "b", "n0:0@40", **SHORT),
            on("y", "b", "n0:1@40", **SHORT),
            on("u", "b", "n0:0@60", **SHORT),
            on("v", "b", "n0:1@60", **LONG),
        ],
        asked=role(1, 1, cores=80),
        leave={"u": (), "x": ()},
        lost=100,
        cards=(2,),
        nominal={"a": 1, "b": 1},
    ),
    "a part beside what is free": Case(
        standing=[on("x", "b", "n0:0@40"), on("y", "b", "n0:1@30"), on("z", "b", "n0:0@50", **SHORT)],
        asked=role(2, 1, cores=60),
        leave={"z": ()},
        lost=50,
        cards=(2,),
        nominal={"a": 2, "b": 0},
    ),
    "a whole card below a part": Case(
        standing=[on("whole", "b", "n0:0,1", **SHORT), on("part", "b", "n1:0@60", **LONG)],
        asked=role(1, 1, cores=60),
        leave={"whole": ()},
        lost=200,
        cards=(2, 1),
        nominal={"a": 1, "b": 2},
    ),
    "a borrower is not taken from beyond the bound": Case(
        standing=[fill("b0", "b", "n0", "01", **LONG), fill("b1", "b", "n1", "01", **LONG)],
        asked=role(1, 2),
        leave={},
        cards=(2, 2),
        nominal={"a": 1, "b": 0, "c": 3},
    ),
    "a borrower takes where little is lost": Case(
        standing=[
            fill("b0", "b", "n0", "01", admitted_at=Instant(9_399)),
            fill("b1", "b", "n1", "01", admitted_at=Instant(9_400)),
        ],
        asked=role(1, 2),
        leave={"b1": ()},
        cards=(2, 2),
        nominal={"a": 1, "b": 0, "c": 3},
    ),
    "quota that lies elsewhere": Case(
        standing=[
            fill("near", "b", "n0"),
            on("far", "b", "away:0", "away:1", "away:2", "away:3", **SHORT),
            on("stay", "b", "away:4", **LONG),
        ],
        asked=role(1, 4),
        leave={"far": (), "near": ()},
        cards=(4,),
        nominal={"a": 4, "b": 1},
    ),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_the_cheapest_nodes_are_cleared(case: Case) -> None:
    snapshot = site(case.cards, case.nominal, case.standing)
    found = search(snapshot, "a", case.asked, case.options, **case.facts)
    assert tasks_to_evict(found) == case.leave
    if case.lost is not None:
        assert found.numbers == {"gpu_seconds": case.lost}
    assert not found.exhausted


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_the_order_in_which_jobs_came_does_not_matter(case: Case) -> None:
    snapshot = site(case.cards, case.nominal, case.standing[::-1])
    assert tasks_to_evict(search(snapshot, "a", case.asked, case.options, **case.facts)) == case.leave


@pytest.mark.parametrize(
    ("queue", "priority", "rule"),
    [("b", 0, EvictRule.RECLAIM_NOMINAL), ("a", 9, EvictRule.IN_QUEUE_PRIORITY)],
)
def test_the_rule_is_named(queue: str, priority: int, rule: EvictRule) -> None:
    snapshot = site([4], {"a": 4, "b": 0}, [fill("j", queue, "n0", evictions=1)])
    found = search(snapshot, "a", role(1, 4), priority=priority)
    assert [(target.job, target.rule, target.already_leaving) for target in found.targets] == [
        ("j", rule, False)
    ]


def test_a_terminating_job_is_marked_as_such() -> None:
    snapshot = site([4], {"a": 4, "b": 0}, [fill("j", "b", "n0", **LEAVING)])
    assert [target.already_leaving for target in search(snapshot, "a", role(1, 4)).targets] == [True]


def test_nodes_that_are_all_alike_are_not_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    step = node_clearance._ClearancePass._find_step
    monkeypatch.setattr(
        node_clearance._ClearancePass, "_find_step", lambda sweep, row: looked.append(row) or step(sweep, row)
    )
    # Half of a node's cards are requested; the two tasks of a job can only be evicted together.
    gangs = [on(f"g{n}", "b", f"n{n}:0,1", f"n{n}:2,3") for n in range(100)]
    found = search(site([4] * 100, {"a": 2, "b": 398}, gangs), "a", role(1, 2))

    assert tasks_to_evict(found) == {"g0": ()}
    assert len(set(looked)) == (1 + node_clearance.MAX_BATCHES_IN_VAIN) * node_clearance.MIN_ROWS


def test_what_a_job_loses_on_other_nodes_counts_on_each() -> None:
    # Half of each wide job is on a node: its cost there alone is less than that of the narrow job.
    wide = [on(f"wide{n}", "b", f"n{2 * n}:0,1", f"n{2 * n + 1}:0,1") for n in range(20)]
    narrow = on("narrow", "b", "n40:0,1", admitted_at=Instant(8_900))
    found = search(site([2] * 41, {"a": 2, "b": 80}, [*wide, narrow]), "a", role(1, 2))
    assert tasks_to_evict(found) == {"narrow": ()}


def test_what_was_spared_before_is_not_to_be_had_again() -> None:
    standing = [on(f"b{n}", "b", f"n{n}:0", f"n{n}:1", least=1) for n in range(40)]
    snapshot = site([2] * 40, {"a": 40, "b": 40}, standing)
    asked, cycle = role(1, 1), VictimSearch(snapshot, options=PLATFORM, now=NOW, fair=FairSharing())
    found = []
    with snapshot.statement() as statement:
        for number in range(40):
            victims = cycle.find_victims(
                wants(snapshot, "a", asked), never, lambda: (board_of(snapshot, asked), 1)
            )
            ((job, gone),) = tasks_to_evict(victims).items()
            found.append(gone)
            for key in gone or tuple(held.id for held in snapshot.allocations_of(job)):
                statement.release(key)
            statement.allocate(_in_place_of(f"new{number}", job))
    assert sorted(found) == sorted(tasks(f"b{n}", 1)[f"b{n}"] for n in range(40))


def _in_place_of(name: str, job: str) -> Allocation:
    _, (held,) = on(name, "a", f"n{job[1:]}:1", preemptible=False)
    return held


FINAL, INITIAL = ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE, ShareStrategy.LESS_INITIAL_SHARE


@pytest.mark.parametrize(
    ("asked", "strategies", "leave"),
    [
        # `b` uses 8 of its 2. With one node `a` has 2 above its own, and `b` 2 still.
        (role(1, 4), (FINAL,), 1),
        # With two it would be 6 and 0: the final share forbids that, the initial one allows one per queue.
        (role(2, 4), (FINAL,), 0),
        (role(2, 4), (INITIAL,), 0),
        (role(2, 4), (FINAL, INITIAL), 0),
        # With 5 above its own `a` has no more than `b` before, and more than `b` after.
        (role(1, 7), (FINAL,), 0),
        (role(1, 7), (INITIAL,), 1),
        (role(1, 7), (FINAL, INITIAL), 1),
    ],
)
def test_shares_decide_what_a_borrower_takes(
    asked: Role, strategies: tuple[ShareStrategy, ...], leave: int
) -> None:
    gpu = asked.request.gpu
    assert gpu is not None
    cards = [str(card) for card in range(gpu.cards)]
    each = [fill(f"b{n}", "b", f"n{n}", cards, **SHORT) for n in range(8 // gpu.cards)]
    rest = [fill("rest", "b", "away", cards[: 8 % gpu.cards], **SHORT)] if 8 % gpu.cards else []
    snapshot = site([gpu.cards] * len(each), {"a": 2, "b": 2, "c": 4}, [*each, *rest])
    fair = FairSharing(strategies=strategies)
    found = search(snapshot, "a", asked, fair=fair)
    assert len(found.targets) == leave
    assert {target.rule for target in found.targets} <= {EvictRule.FAIR_SHARE}


@pytest.mark.parametrize("within", [True, False])
def test_what_is_its_own_a_queue_takes_back_by_that_rule_where_it_is_on(within: bool) -> None:
    standing = [fill(f"b{n}", "b", f"n{n}", "01") for n in range(2)]
    snapshot = site([2, 2], {"a": 4, "b": 0}, standing)
    fair = FairSharing(preempt_within_nominal=within)
    found = search(snapshot, "a", role(2, 2), fair=fair)
    rule = EvictRule.RECLAIM_NOMINAL if within else EvictRule.FAIR_SHARE
    assert {target.rule for target in found.targets} == {rule}


@pytest.mark.parametrize(
    ("run", "came", "now_leaves", "until"),
    [
        ({}, 10_000, True, None),
        ({"min_run_s": 900}, 10_000, True, None),
        ({"min_run_s": 1_000}, 10_000, True, None),
        ({"min_run_s": 1_001, "admitted_at": Instant(9_980)}, 10_000, False, 10_040.0),
        ({"min_run_s": 30, "admitted_at": Instant(9_980)}, 10_000, False, 10_010.0),
        ({"min_run_s": 30, "admitted_at": Instant(9_980)}, 9_945, False, 10_005.0),
        ({"min_run_s": 30, "admitted_at": Instant(9_980)}, 9_940, True, None),
    ],
)
def test_guaranteed_run_times_hold_and_their_end_is_reported(
    run: Mapping[str, Any], came: int, now_leaves: bool, until: float | None
) -> None:
    snapshot = site([4], {"a": 4, "b": 0}, [fill("j", "b", "n0", **run)])
    found = search(snapshot, "a", role(1, 4), submitted_at=Instant(came))
    assert (bool(found.targets), found.protected_until) == (now_leaves, until)


def test_the_latest_of_all_that_must_end_is_reported() -> None:
    young = [
        fill(f"j{n}", "b", f"n{n}", min_run_s=600, admitted_at=Instant(9_960 + 10 * n)) for n in range(2)
    ]
    snapshot = site([4, 4], {"a": 8, "b": 0}, young)
    assert search(snapshot, "a", role(2, 4), submitted_at=NOW).protected_until == 9_970 + 60
    assert search(snapshot, "a", role(1, 4), submitted_at=NOW).protected_until in (9_960 + 60, 9_970 + 60)


def test_no_protected_job_is_named_where_places_lack_all_the_same() -> None:
    young = fill("j", "b", "n0", "012", min_run_s=600, admitted_at=Instant(9_990))
    snapshot = site([4], {"a": 4, "b": 0}, [young, fill("fixed", "b", "n0", "3", preemptible=False)])
    assert search(snapshot, "a", role(1, 4), submitted_at=NOW).protected_until is None


@pytest.mark.parametrize(("budget", "exhausted"), [(0, True), (1, True), (3, True), (50, False)])
def test_a_search_ends_with_its_budget(budget: int, exhausted: bool) -> None:
    snapshot = site([4] * 4, {"a": 16, "b": 0}, [fill(f"j{n}", "b", f"n{n}") for n in range(4)])
    found = search(snapshot, "a", role(4, 4), replace(PLATFORM, search_budget=budget))
    assert (found.exhausted, len(found.targets)) == (exhausted, 0 if exhausted else 4)


def test_an_impossible_search_examines_no_job() -> None:
    standing = [fill("b", "b", "n0", "012"), fill("fixed", "b", "n0", "3", preemptible=False)]
    found = search(site([4], {"a": 4, "b": 0}, standing), "a", role(1, 4))
    assert (found.targets, found.steps) == ((), 0)


def test_an_impossible_search_is_repeated_once_anything_differs() -> None:
    standing = [
        fill("b0", "b", "n0", "012"),
        fill("fixed0", "b", "n0", "3", preemptible=False),
        fill("b1", "b", "n1", "0", priority=-1),
        fill("fixed1", "b", "n1", "13", preemptible=False),
    ]
    snapshot = site([4, 4, 1], {"a": 6, "b": 3}, standing)
    cycle = VictimSearch(snapshot, options=PLATFORM, now=NOW, fair=FairSharing())

    def victims_of(asked: Role, queue: str = "a", **facts: Any) -> list[str]:
        preemptor = wants(snapshot, queue, asked, **facts)
        found = cycle.find_victims(preemptor, never, lambda: (board_of(snapshot, asked), asked.replicas))
        return list(tasks_to_evict(found))

    # Quota would suffice for each, but no node has the cards together.
    assert victims_of(role(1, 4)) == victims_of(role(2, 3)) == victims_of(role(1, 3), "b") == []
    # Another shape, fewer tasks, and other candidates.
    assert victims_of(role(1, 3)) == victims_of(role(1, 3), "b", priority=1) == ["b0"]
    with snapshot.statement() as statement:
        statement.release("fixed0/worker/0")
        assert victims_of(role(1, 4)) == ["b0"]
    assert victims_of(role(1, 4)) == []


def test_the_next_search_of_a_cycle_asks_others() -> None:
    standing = [fill(f"b{n}", "b", f"n{n}", admitted_at=Instant(9_000 + n)) for n in range(3)]
    snapshot = site([4, 4, 4], {"a": 12, "b": 0}, standing)
    asked, cycle = role(1, 4), VictimSearch(snapshot, options=PLATFORM, now=NOW, fair=FairSharing())
    found = []

    def alike() -> tuple[ScoreBoard, int]:
        return board_of(snapshot, asked), 1

    with snapshot.statement() as statement:
        for _ in range(3):
            victims = cycle.find_victims(wants(snapshot, "a", asked), never, alike)
            for job in tasks_to_evict(victims):
                found.append(job)
                for held in snapshot.allocations_of(job):
                    statement.release(held.id)
            # The preemptor is placed at once.
            statement.allocate(_placed(found))
        assert cycle.find_victims(wants(snapshot, "a", asked), never, alike).targets == ()
    assert found == ["b2", "b1", "b0"]


def _placed(found: list[str]) -> Allocation:
    _, held = fill(f"new{len(found)}", "a", f"n{found[-1][1:]}", preemptible=False)
    return replace(held[0], slices=tuple(part for one in held for part in one.slices))


def test_no_job_is_evicted_that_may_stay_in_the_end() -> None:
    # Together `b1` and `b2` free the node; with `b2` gone `b` would be inside what it owns without `b1`.
    standing = [
        fill("b1", "b", "n0", "0", admitted_at=Instant(9_990)),
        fill("b2", "b", "n0", "123", admitted_at=Instant(9_900)),
        fill("b3", "b", "n1", "0", **LONG),
        fill("c1", "c", "n1", "123", **LONG),
    ]
    snapshot = site([4, 4], {"a": 4, "b": 3, "c": 1}, standing)
    checked = search(snapshot, "a", role(1, 4))
    unchecked = search(snapshot, "a", role(1, 4), replace(PLATFORM, final_check=False))
    assert tasks_to_evict(unchecked) == {"b1": (), "b2": ()}
    assert "b1" not in tasks_to_evict(checked)
