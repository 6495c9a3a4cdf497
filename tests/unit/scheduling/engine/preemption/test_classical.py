"""Classical preemption: the candidates with and without advantage, the runs, and the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from scheduling.engine import PreemptionOptions, Snapshot
from scheduling.engine.model import (
    AllocationMode,
    EvictRule,
    Flavor,
    Instant,
    Job,
    JobState,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    Queue,
    Quota,
    QuotaNode,
)
from scheduling.engine.preemption.candidates.candidates import CandidateIndex
from scheduling.engine.preemption.strategies.classical import ClassicalPreemption
from scheduling.engine.preemption.trials.context import PreemptionContext, VictimSearchBudget
from scheduling.engine.preemption.trials.trial import RemovalTrial
from tests.unit.scheduling.engine.preemption.worlds import (
    CARDS,
    NORMATIVE,
    NOW,
    PLATFORM,
    RECLAIM,
    held,
    running,
    wants,
)

WHILE_BORROWING = PreemptionPolicy(
    within_queue=PreemptWithin.LOWER_PRIORITY,
    reclaim=PreemptOthers.ANY,
    while_borrowing=PreemptOthers.LOWER_PRIORITY,
    max_priority=3,
)
Nodes = Mapping[str, tuple[str | None, int | None, int | None]]
"""Parent, nominal and lending limit of each node."""

FLAT: Nodes = {"all": (None, 0, None), "a": ("all", 4, None), "b": ("all", 4, None), "c": ("all", 4, None)}
DEEP: Nodes = {
    "all": (None, 0, None),
    "left": ("all", 0, None),
    "right": ("all", 0, None),
    "a": ("left", 4, None),
    "b": ("left", 4, None),
    "c": ("right", 4, None),
    "d": ("right", 4, None),
}
KEEPING: Nodes = {**DEEP, "left": ("all", 4, 2)}


def cell(nodes: Nodes, jobs: Iterable[Job], policy: PreemptionPolicy = RECLAIM, **facts: Any) -> Snapshot:
    """Return queues at the leaves of a tree, with their running jobs."""
    jobs = tuple(jobs)
    leaves = [name for name in nodes if name not in {parent for parent, _, _ in nodes.values()}]

    def quotas(nominal: int | None, lending: int | None) -> tuple[Quota, ...]:
        known = Quota(
            flavor=CARDS.flavor, resource=CARDS.resource, own_nominal=nominal, lending_limit=lending
        )
        return (known,)

    snapshot = Snapshot(
        flavors=[Flavor(id=CARDS.flavor, placed=False)],
        quota_nodes=[
            QuotaNode(id=name, parent=parent, quotas=quotas(nominal, lending))
            for name, (parent, nominal, lending) in nodes.items()
        ],
        queues=[Queue(**{"id": name, "quota_node": name, "preemption": policy, **facts}) for name in leaves],
        jobs=jobs,
    )
    for job in jobs:
        for task in held(job):
            snapshot.add_allocation(task)
    return snapshot


def field_of(
    snapshot: Snapshot, cards: int, options: PreemptionOptions = NORMATIVE, load: Any = None, **facts: Any
) -> ClassicalPreemption:
    """Return what `a` could preempt for a job that wants some cards."""
    return ClassicalPreemption(
        PreemptionContext(
            index=CandidateIndex(snapshot, options, NOW, load),
            preemptor=wants(snapshot, "a", cards, **facts),
            trial=RemovalTrial(snapshot, None),
            search_budget=VictimSearchBudget(100),
        )
    )


def used(**cards: int) -> list[Job]:
    """Return jobs of one card each."""
    return [running(f"{queue}{n}", queue, 1) for queue, count in cards.items() for n in range(count)]


@pytest.mark.parametrize(
    ("nodes", "jobs", "cards", "sources"),
    [
        (FLAT, used(b=5, c=5), 4, [("b", ("b",), True), ("c", ("c",), True)]),
        (FLAT, used(b=5, c=5), 5, [("b", ("b",), False), ("c", ("c",), False)]),
        (FLAT, used(b=4, c=5), 4, [("c", ("c",), True)]),
        (FLAT, used(a=2, b=5), 2, [("b", ("b",), True)]),
        (FLAT, used(a=2, b=5), 3, [("b", ("b",), False)]),
        # From near to far; a side that owns what it uses is skipped, even if a queue in it borrows.
        (DEEP, used(b=5, c=6, d=3), 4, [("b", ("b",), True), ("c", ("c", "right"), True)]),
        (DEEP, used(b=5, c=5, d=3), 4, [("b", ("b",), True)]),
        (DEEP, used(c=5, d=5), 4, [("c", ("c", "right"), True), ("d", ("d", "right"), True)]),
        # The own side has quota that the queue itself lacks: the advantage begins there.
        (DEEP, used(b=3, c=9, d=3), 5, [("c", ("c", "right"), True)]),
        (DEEP, used(b=5, c=9), 5, [("b", ("b",), False), ("c", ("c", "right"), False)]),
        # What a node keeps for itself is not available to the node above.
        (KEEPING, used(b=5, c=9), 9, [("b", ("b",), False), ("c", ("c", "right"), False)]),
        (KEEPING, used(b=5, c=9), 7, [("b", ("b",), False), ("c", ("c", "right"), True)]),
    ],
)
def test_sources_are_where_more_is_used_than_owned(
    nodes: Nodes, jobs: list[Job], cards: int, sources: list[tuple[str, tuple[str, ...], bool]]
) -> None:
    field = field_of(cell(nodes, jobs), cards)
    assert [(one.queue, one.borrowing_path, one.hierarchical) for one in field.other_queues] == sources
    assert not any(one.own or one.exhausted for one in field.other_queues)


def test_a_job_that_may_not_reclaim_has_no_sources() -> None:
    policy = PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.NEVER)
    assert field_of(cell(FLAT, used(b=5), policy), 4).other_queues == ()


LOW = [running(f"b{n}", "b", 1, priority=-1) for n in range(5)]


@pytest.mark.parametrize(
    ("policy", "jobs", "cards", "facts", "runs"),
    [
        (RECLAIM, used(b=4), 4, {}, (True,)),  # only the own queue is left: it may borrow at once
        (RECLAIM, used(b=5), 4, {"preemptible": False}, (False,)),
        (WHILE_BORROWING, used(b=5), 4, {"preemptible": False}, (False,)),
        (WHILE_BORROWING, used(b=5), 4, {}, (True, False)),
        (WHILE_BORROWING, used(b=4), 4, {}, (True,)),
        (RECLAIM, used(b=5), 4, {}, (True, False)),  # with the advantage
        (RECLAIM, used(b=5), 5, {}, (False, True)),  # without it
        (RECLAIM, used(a=4, b=5), 1, {}, (True,)),  # nothing of its own is left
        (RECLAIM, used(a=3, b=5), 1, {}, (True, False)),
        (RECLAIM, used(a=3, b=5), 2, {}, (False, True)),
        (RECLAIM, used(a=5, b=5), 1, {}, (True,)),
    ],
)
def test_attempts_with_and_without_borrowing(
    policy: PreemptionPolicy, jobs: list[Job], cards: int, facts: dict[str, Any], runs: tuple[bool, ...]
) -> None:
    assert field_of(cell(FLAT, jobs, policy), cards, **facts).borrow_attempts() == runs


@pytest.mark.parametrize(
    ("mode", "runs"), [(AllocationMode.STATIC, (False,)), (AllocationMode.DYNAMIC, (True, False))]
)
def test_a_static_queue_borrows_in_no_attempt(mode: AllocationMode, runs: tuple[bool, ...]) -> None:
    assert field_of(cell(FLAT, used(b=5), allocation_mode=mode), 4).borrow_attempts() == runs


def test_without_a_limit_of_its_own_a_queue_is_always_under_it() -> None:
    nodes = {**FLAT, "a": ("all", None, None)}
    assert field_of(cell(nodes, used(a=9, b=5)), 4).borrow_attempts() == (True, False)


MIXED = [
    running("bg", "b", 2, state=JobState.LEAVING),
    running("bl", "b", 2, priority=-2, admitted_at=Instant(9_100)),
    running("bh", "b", 2, priority=5, admitted_at=Instant(9_900)),
    running("ag", "a", 1, priority=-1, state=JobState.LEAVING),
    running("al", "a", 1, priority=-1),
    running("ah", "a", 1, priority=1),
]


def load_of(_: str, user: str) -> float | None:
    return 1.0


@pytest.mark.parametrize("load", [None, load_of])
@pytest.mark.parametrize(
    ("policy", "options", "cards", "borrow", "order"),
    [
        # Terminating jobs first, then others, then the own queue; of that only lower priorities.
        (RECLAIM, NORMATIVE, 1, False, "bg ag bl bh al"),
        (RECLAIM, NORMATIVE, 1, True, "bg ag bl bh al"),
        # Without the advantage others count only while the preemptor stays inside its own quota.
        (RECLAIM, NORMATIVE, 2, False, "bg ag bl bh al"),
        (RECLAIM, NORMATIVE, 2, True, "ag al"),
        (WHILE_BORROWING, NORMATIVE, 2, True, "bg ag bl bh al"),
        # The platform orders candidates of all queues by rank.
        (RECLAIM, PLATFORM, 1, False, "ag bg bl al bh"),
        (RECLAIM, PLATFORM, 2, True, "ag al"),
    ],
)
def test_the_order_of_offers(
    load: Any, policy: PreemptionPolicy, options: PreemptionOptions, cards: int, borrow: bool, order: str
) -> None:
    field = field_of(cell(FLAT, MIXED, policy), cards, options, load)
    for _ in range(2):
        offers = list(field.ordered_candidates(borrow=borrow))
        assert [candidate.id for _, candidate in offers] == order.split()
        assert all(source.queue == candidate.queue for source, candidate in offers)
        assert all(source.own == (candidate.queue == "a") for source, candidate in offers)


@pytest.mark.parametrize(
    ("policy", "cards", "borrow", "rules"),
    [
        (RECLAIM, 4, False, {"b": EvictRule.RECLAIM_NOMINAL}),
        (RECLAIM, 5, False, {"b": EvictRule.RECLAIM_NOMINAL}),
        (RECLAIM, 5, True, {}),
        (WHILE_BORROWING, 5, True, {"b": EvictRule.RECLAIM_WHILE_BORROWING}),
        (WHILE_BORROWING, 4, True, {"b": EvictRule.RECLAIM_NOMINAL}),
    ],
)
@pytest.mark.parametrize("priority", [1, 3, 4])
def test_the_rule_of_an_eviction(
    policy: PreemptionPolicy, cards: int, borrow: bool, rules: dict[str, EvictRule], priority: int
) -> None:
    jobs = [running(f"b{n}", "b", 1, priority=priority) for n in range(5)]
    snapshot = cell(FLAT, jobs, policy)
    field = field_of(snapshot, cards, priority=4)
    taken = list(field.take_victims(field.ordered_candidates(borrow=borrow), borrow=borrow))
    below = priority < 4 and priority <= 3
    if rules.get("b") is EvictRule.RECLAIM_WHILE_BORROWING and not below:
        rules = {}
    assert {victim.candidate.queue: victim.rule for victim in taken} == rules
    # `b` owns four of the five cards that it uses: only one job may be evicted.
    assert len(taken) == len(rules)
    assert snapshot.quota.usage("b", CARDS) == 5 - len(taken)


def test_loosely_more_is_taken_than_is_above_its_own() -> None:
    snapshot = cell(FLAT, [*LOW, *used(c=6)])
    field = field_of(snapshot, 4)
    strict = [
        victim.candidate.queue
        for victim in field.take_victims(field.ordered_candidates(borrow=False), borrow=False)
    ]
    assert strict == ["b", "c", "c"]
    field.context.trial.restore_all()
    loose = list(field.take_victims(field.ordered_candidates(borrow=False), borrow=False, loose=True))
    assert len(loose) == 11
    field.context.trial.charge_quota(loose[0].removal)
    assert not loose[0].is_justified()
    field.context.trial.release_quota(loose[0].removal)


@pytest.mark.parametrize(("back", "still"), [(0, True), (1, False)])
def test_a_victim_is_justified_while_all_above_it_use_more_than_they_own(back: int, still: bool) -> None:
    # The side `right` is one above its own; with another victim gone it would not be with this one back.
    snapshot = cell(DEEP, used(c=6, d=3))
    field = field_of(snapshot, 4)
    first = next(iter(field.take_victims(field.ordered_candidates(borrow=False), borrow=False)))
    others = field.context.index.queue_segments("d")[2]
    for other in others[:back]:
        field.context.trial.remove_candidate(other)
    field.context.trial.charge_quota(first.removal)
    assert first.is_justified() is still
