"""Invariants of every search, for any order of its input."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine import PreemptionOptions, Snapshot, TargetSet, VictimOrder
from scheduling.engine.model import EvictRule, Instant, Job, PreemptionPolicy, PreemptOthers, PreemptWithin
from tests.unit.scheduling.engine.preemption.worlds import (
    CARDS,
    NORMATIVE,
    PLATFORM,
    cohort,
    running,
    search,
    wants,
)
from tests.unit.scheduling.engine.properties.laws import law

QUEUES = ("a", "b", "c", "d")
PARENTS: tuple[dict[str, str], ...] = ({}, {"a": "left", "b": "left", "c": "right", "d": "right"})
POLICIES = st.builds(
    PreemptionPolicy,
    within_queue=st.sampled_from(PreemptWithin),
    reclaim=st.sampled_from(PreemptOthers),
    while_borrowing=st.sampled_from((PreemptOthers.NEVER, PreemptOthers.LOWER_PRIORITY)),
    max_priority=st.none() | st.integers(0, 2),
)
OPTIONS = st.sampled_from(
    (
        PLATFORM,
        replace(PLATFORM, max_loss_s=900),
        NORMATIVE,
        replace(NORMATIVE, final_check=True),
    )
)
World = tuple[dict[str, int], list[Job], PreemptionPolicy, dict[str, str]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    jobs = []
    for index in range(draw(st.integers(0, 9))):
        tasks = draw(st.integers(1, 3))
        jobs.append(
            running(
                f"j{index}",
                draw(st.sampled_from(QUEUES)),
                tasks,
                each=draw(st.integers(1, 2)),
                least=draw(st.none() | st.integers(1, tasks)),
                priority=draw(st.integers(0, 3)),
                preemptible=draw(st.integers(0, 9)) > 0,
                admitted_at=Instant(draw(st.integers(8_000, 9_999))),
                min_run_s=draw(st.none() | st.integers(1, 2_000)),
            )
        )
    nominal = {queue: draw(st.integers(0, 6)) for queue in QUEUES}
    return nominal, jobs, draw(POLICIES), draw(st.sampled_from(PARENTS))


def build(world: World) -> Snapshot:
    nominal, jobs, policy, parents = world
    return cohort(nominal, jobs, policy=policy, parents=parents)


def without(snapshot: Snapshot, found: TargetSet, kept: str = "") -> None:
    """Remove all victims but one."""
    for target in found.targets:
        if target.job == kept:
            continue
        for task in snapshot.allocations_of(target.job):
            if not target.tasks or task.id in target.tasks:
                snapshot.remove_allocation(task.id)


def fits(snapshot: Snapshot, cards: int) -> bool:
    available = snapshot.quota.available("a", CARDS)
    return available is None or available >= cards


asked = st.tuples(st.integers(1, 8), st.integers(0, 4))


@given(worlds(), asked, OPTIONS, st.booleans())
@law
def test_a_search_does_not_change_the_snapshot(
    world: World, ask: tuple[int, int], options: PreemptionOptions, fair: bool
) -> None:
    snapshot = build(world)
    before = snapshot.to_json()
    search(snapshot, wants(snapshot, "a", ask[0], priority=ask[1]), options, fair=fair)
    assert snapshot.to_json() == before
    search(
        snapshot,
        wants(snapshot, "a", ask[0], priority=ask[1]),
        options,
        fair=fair,
        placement_check=lambda: True,
    )
    assert snapshot.to_json() == before


@given(worlds(), asked, OPTIONS, st.booleans())
@law
def test_victims_suffice_and_every_one_is_needed(
    world: World, ask: tuple[int, int], options: PreemptionOptions, fair: bool
) -> None:
    cards, priority = ask
    snapshot = build(world)
    if fits(snapshot, cards):
        return
    found = search(snapshot, wants(snapshot, "a", cards, priority=priority), options, fair=fair)
    if not found.targets:
        return
    without(snapshot, found)
    assert fits(snapshot, cards)
    # If the rule forbids borrowing, a victim may be needed to stay inside the nominal.
    borrowed = snapshot.quota.borrows("a", CARDS, cards)
    for target in found.targets:
        again = build(world)
        without(again, found, kept=target.job)
        assert not fits(again, cards) or (not borrowed and again.quota.borrows("a", CARDS, cards))


@given(worlds(), asked, st.booleans())
@law
def test_no_victim_is_from_a_queue_that_would_not_borrow_with_it(
    world: World, ask: tuple[int, int], fair: bool
) -> None:
    snapshot = build(world)
    found = search(snapshot, wants(snapshot, "a", ask[0], priority=ask[1]), PLATFORM, fair=fair)
    for target in found.targets:
        queue = snapshot.jobs[target.job].queue
        if target.rule is EvictRule.IN_QUEUE_PRIORITY:
            assert queue == "a"
            continue
        again = build(world)
        without(again, found, kept=target.job)
        assert again.quota.borrows(queue, CARDS)


@given(worlds(), asked, st.booleans())
@law
def test_only_preemptible_and_unprotected_jobs_are_evicted(
    world: World, ask: tuple[int, int], fair: bool
) -> None:
    snapshot = build(world)
    found = search(snapshot, wants(snapshot, "a", ask[0], priority=ask[1]), PLATFORM, fair=fair)
    # A preemptor inside its own quota has waited beyond the grace period: borrowed use isn't protected.
    heeds = snapshot.quota.borrows("a", CARDS, ask[0])
    for target in found.targets:
        job = snapshot.jobs[target.job]
        assert job.preemptible
        assert job.admitted_at is not None
        guard = job.min_run_s or 0
        if heeds if job.queue == "a" else snapshot.quota.borrows(job.queue, CARDS):
            guard = min(guard, PLATFORM.grace_s) if heeds else 0
        assert target.tasks or job.admitted_at + guard <= 10_000


@given(worlds(), asked, OPTIONS, st.booleans(), st.integers(0, 2**16))
@law
def test_the_order_of_the_input_does_not_matter(
    world: World, ask: tuple[int, int], options: PreemptionOptions, fair: bool, seed: int
) -> None:
    nominal, jobs, policy, parents = world
    shuffled = list(jobs)
    Random(seed).shuffle(shuffled)
    backwards = dict(reversed(nominal.items()))
    one, other = build(world), cohort(backwards, shuffled, policy=policy, parents=parents)
    answers = [
        search(snapshot, wants(snapshot, "a", ask[0], priority=ask[1]), options, fair=fair)
        for snapshot in (one, other)
    ]
    assert answers[0] == answers[1]


@given(worlds(), asked)
@law
def test_in_the_own_queue_least_loss_finds_victims_exactly_where_the_rules_do(
    world: World, ask: tuple[int, int]
) -> None:
    nominal, jobs, policy, parents = world
    open_jobs = [replace(job, min_run_s=None) for job in jobs]
    snapshot = cohort(nominal, open_jobs, policy=policy, parents=parents)
    preemptor = wants(snapshot, "a", ask[0], priority=ask[1])
    if fits(snapshot, ask[0]) or policy.reclaim is not PreemptOthers.NEVER:
        return
    least = replace(NORMATIVE, victim_order=VictimOrder.LEAST_LOSS)
    by_rules = search(snapshot, preemptor, NORMATIVE)
    assert bool(by_rules.targets) == bool(search(snapshot, preemptor, least).targets)
