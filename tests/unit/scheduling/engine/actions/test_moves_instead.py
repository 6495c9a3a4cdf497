"""Moves instead of evictions for a job inside its quota, where they discard less work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import AllocationPut, ClaimPut, EngineConfig, FairSharing, JobPut
from scheduling.engine.model import (
    Claim,
    DecisionKind,
    Instant,
    JobState,
    PreemptionPolicy,
    PreemptOthers,
    Reason,
)
from scheduling.engine.model.options import ConsolidationOptions
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.actions.worlds import live, running_world
from tests.unit.scheduling.engine.builders import job, node, queue, quotas, role

RECLAIM = PreemptionPolicy(reclaim=PreemptOthers.ANY)
CONFIG = EngineConfig(
    actions=("admit", "consolidate"),
    fair_sharing=FairSharing(),
    consolidation=ConsolidationOptions(instead_of_evictions=True),
)


def scattered(
    *more: str,
    config: EngineConfig = CONFIG,
    a: int = 9,
    b: int = 3,
    young_at: int = 990,
    old_at: int = 0,
) -> Stage:
    """Three nodes of four cards: `b` borrows one of the four that it uses on n0, where it ran for 1,000 s.
    `a` uses one card of n1 since `young_at` and two of n2 since `old_at`; it waits for four of one node."""
    snapshot = running_world(
        [node(f"n{number}", 4) for number in range(3)],
        {"b-old": ["n0"], "a-young": ["n1"], "a-old": ["n2"]},
        [
            live(job("b-old", "b", role(1, 4))),
            live(job("a-young", "a", role(1, 1)), running_since=Instant(young_at)),
            live(job("a-old", "a", role(1, 2)), running_since=Instant(old_at)),
            job("a-next", "a", role(1, 4), at=1),
            *(job(name, "b", role(1, 1), at=2) for name in more),
        ],
        teams={"a": quotas(a), "b": quotas(b)},
        queues=[queue("a", preemption=RECLAIM), queue("b", preemption=RECLAIM)],
    )
    return Stage(snapshot, config)


def moved(stage: Stage) -> list[str]:
    return [decision.job for decision in stage.all_decisions if decision.kind is DecisionKind.MIGRATE]


def test_a_job_that_began_a_short_while_ago_moves_rather_than_that_an_old_one_is_evicted() -> None:
    stage = scattered()
    stage.cycle()
    assert (moved(stage), stage.evicted()) == (["a-young"], {})
    assert stage.outcome("a-next").reason is Reason.WAITING_FOR_PREEMPTED


def test_it_starts_on_the_movers_old_place_and_the_mover_starts_again() -> None:
    stage = scattered()
    stage.cycle()
    stage.end_evicted("a-young")
    for _ in range(3):
        stage.cycle()
    assert {"a-next", "a-young", "a-old", "b-old"} <= stage.running()
    assert {held.node for held in stage.snapshot.allocations_of("a-next")} == {"n1"}
    assert stage.evicted() == {}


def test_who_loses_less_by_an_eviction_is_evicted() -> None:
    stage = scattered(young_at=-4_000, old_at=-4_000)
    stage.cycle()
    assert (moved(stage), set(stage.evicted())) == ([], {"b-old"})


def test_off_evictions_come_first() -> None:
    stage = scattered(config=replace(CONFIG, consolidation=ConsolidationOptions(instead_of_evictions=False)))
    stage.cycle()
    assert (moved(stage), set(stage.evicted())) == ([], {"b-old"})


@pytest.mark.parametrize("actions", [("admit",), ("admit", "elastic", "consolidate")])
def test_unless_the_action_that_moves_follows_at_once_others_are_evicted(actions: tuple[str, ...]) -> None:
    stage = scattered(config=replace(CONFIG, actions=actions))
    stage.cycle()
    assert (moved(stage), set(stage.evicted())) == ([], {"b-old"})


def test_no_job_moves_where_a_victim_must_release_quota() -> None:
    # Two more cards are in use than the nominal leaves for `a`: moves free no quota.
    stage = scattered(a=7, b=1)
    stage.cycle()
    assert (moved(stage), set(stage.evicted())) == ([], {"b-old"})


def test_no_borrower_takes_the_place_of_a_mover() -> None:
    stage = scattered("b-more", "b-more-2")
    stage.cycle()
    assert (moved(stage), stage.evicted()) == (["a-young"], {})
    assert not {"b-more", "b-more-2"} & stage.running()
    # Jobs that were not evaluated are evaluated in the next cycle.
    assert stage.last is not None and stage.last.counters["not_evaluated"] > 0
    stage.cycle()
    assert {"b-more"} <= stage.running()
    assert stage.evicted() == {}


def test_a_job_that_would_borrow_gets_no_moves_by_this() -> None:
    # Beside three that it uses, four more are above its nominal of five.
    stage = scattered(a=5, b=3)
    stage.cycle()
    assert (moved(stage), stage.evicted()) == ([], {})


def test_no_job_moves_to_what_a_later_job_has_claimed() -> None:
    """One card of n2 is left; together with the card that `b-going` releases it is claimed by `a-later`."""
    stage = scattered(a=11)
    (two,) = stage.snapshot.allocations_of("a-old")
    stage.submit(live(job("b-going", "b", role(1, 1))), job("a-later", "a", role(1, 2), at=5))
    free = [f"n2-gpu{index}" for index in range(4) if f"n2-gpu{index}" not in {p.device for p in two.slices}]
    parts = [two.slices[0]._replace(device=device) for device in free]
    one = tuple(charge._replace(amount=charge.amount // 2) for charge in two.charges)
    going = replace(two, job="b-going", queue="b", slices=(parts[0],), charges=one, leaving=True)
    promised = replace(two, job="a-later", slices=tuple(parts))
    claim = Claim(job="a-later", allocations=(promised,), leaving=(going.id,), until=Instant(2_000))
    stage.put(AllocationPut(going), JobPut(replace(stage.snapshot.jobs["b-going"], state=JobState.LEAVING)))
    stage.put(JobPut(replace(stage.snapshot.jobs["a-later"], preempting=True)), ClaimPut(claim))
    stage.cycle()
    places = [
        task for made in stage.all_decisions for task in made.allocations if made.kind is DecisionKind.MIGRATE
    ]
    assert all(task.node != "n2" for task in places)
    assert "a-later" not in {made.job for made in stage.all_decisions}
