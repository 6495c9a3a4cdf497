"""Jobs that need evictions: victims and claims, without evicting each other in turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    EngineConfig,
    PreemptionOptions,
    QueuePut,
)
from scheduling.engine.model import (
    DecisionKind,
    EvictRule,
    Instant,
    PreemptionPolicy,
    Reason,
    StopPolicy,
    Strategy,
)
from tests.unit.scheduling.engine.actions.stage import OWN_ONLY, TAKE_BACK, Stage
from tests.unit.scheduling.engine.builders import job, node, queue, quotas, role, world


def lent(preemption: PreemptionPolicy = TAKE_BACK) -> Stage:
    """Return a stage in which team b runs on all eight cards, four of which are a's."""
    snapshot = world(
        [node("n1", 4), node("n2", 4)],
        [job("b1", "b", role(1, 4)), job("b2", "b", role(1, 4), at=1)],
        teams={"a": quotas(4), "b": quotas(4)},
        queues=[queue("a", preemption=preemption), queue("b")],
    )
    stage = Stage(snapshot)
    stage.cycle()
    assert stage.running() == {"b1", "b2"}
    return stage


def test_nominal_quota_is_reclaimed_and_the_place_is_claimed() -> None:
    stage = lent()
    stage.submit(job("a1", "a", role(1, 4), at=5))
    stage.cycle()
    assert len(stage.evicted()) == 1
    assert set(stage.evicted().values()) == {EvictRule.RECLAIM_NOMINAL}
    victim = next(iter(stage.evicted()))
    park = next(d for d in stage.all_decisions if d.kind is DecisionKind.PARK)
    assert park.job == "a1"
    assert [held.node for held in park.allocations] == [stage.snapshot.allocations_of(victim)[0].node]
    assert park.released == tuple(held.id for held in stage.snapshot.allocations_of(victim))
    assert stage.outcome("a1").reason is Reason.WAITING_FOR_PREEMPTED
    stage.end_evicted(victim)
    stage.cycle()
    assert "a1" in stage.running()
    assert stage.snapshot.allocations_of("a1")[0].node == park.allocations[0].node


def test_a_claim_waits_only_for_those_whose_places_and_quota_it_needs() -> None:
    stage = Stage(
        world(
            [node(f"n{number}", 4) for number in range(4)],
            [job(f"b{number}", "b", role(1, 4), at=number) for number in range(4)],
            teams={"a": quotas(4), "b": quotas(4), "c": quotas(8)},
            queues=[queue("a", preemption=TAKE_BACK), queue("b"), queue("c", preemption=TAKE_BACK)],
        )
    )
    stage.cycle()
    stage.submit(job("a1", "a", role(1, 4), at=5), job("c1", "c", role(2, 4), at=6))
    stage.cycle()
    parks = {d.job: d for d in stage.all_decisions if d.kind is DecisionKind.PARK}
    waits = {name: {key.split("/")[0] for key in d.released} for name, d in parks.items()}
    assert len(waits["a1"]) == 1 and len(waits["c1"]) == 2
    assert not waits["a1"] & waits["c1"]


def test_while_victims_terminate_nothing_more_is_decided() -> None:
    stage = lent()
    stage.submit(job("a1", "a", role(1, 4), at=5))
    stage.cycle()
    for _ in range(5):
        assert stage.cycle().decisions == ()
        assert stage.outcome("a1").reason is Reason.WAITING_FOR_PREEMPTED


def test_the_evicted_does_not_take_its_place_back() -> None:
    stage = lent()
    stage.submit(job("a1", "a", role(1, 4), at=5))
    stage.cycle()
    victim = next(iter(stage.evicted()))
    stage.end_evicted(victim)
    for _ in range(5):
        stage.cycle()
    assert stage.running() == {"a1", *({"b1", "b2"} - {victim})}
    assert len(stage.evicted()) == 1


def test_a_claimed_place_is_kept_from_others_while_it_empties() -> None:
    stage = lent()
    stage.submit(job("a1", "a", role(1, 4), at=5))
    stage.cycle()
    victim = next(iter(stage.evicted()))
    # Half of the victim is gone already: the released cards are not available to others.
    held = stage.snapshot.allocations_of(victim)[0]
    half = replace(held, slices=held.slices[:2], charges=held.charges)
    stage.put(AllocationRemoved(held.id), AllocationPut(half))
    stage.submit(job("b3", "b", role(1, 2), at=6), job("a2", "a", role(1, 1), at=7))
    stage.cycle()
    assert stage.running() == {"b1", "b2"} - {victim}


def test_a_claim_ends_after_its_time() -> None:
    stage = lent()
    stage.submit(job("a1", "a", role(1, 4), at=5))
    stage.cycle()
    stage.now += PreemptionOptions().claim_timeout_s
    assert "a1" not in {d.job for d in stage.cycle().decisions if d.kind is DecisionKind.ADMIT}
    # The victims still terminate, so the job gets the claim once more without further evictions.
    assert [d.kind for d in stage.last.decisions] == [DecisionKind.PARK]  # type: ignore[union-attr]
    assert len(stage.evicted()) == 1


def test_a_job_that_fits_once_evicted_jobs_are_gone_evicts_none() -> None:
    snapshot = world(
        [node("n1", 4)],
        [job("old", "a", role(1, 4))],
        teams={"a": quotas(4)},
        queues=[queue("a", preemption=TAKE_BACK, stop_policy=StopPolicy.NONE)],
    )
    stage = Stage(snapshot)
    stage.cycle()
    stage.apply(stage.all_decisions[0]._replace(kind=DecisionKind.EVICT, released=("old/worker/0",)))
    stage.submit(job("new", "a", role(1, 2), at=9, priority=5))
    result = stage.cycle()
    assert [d.kind for d in result.decisions] == [DecisionKind.PARK]
    assert result.counters["turns_deferred"] == 1


def test_a_higher_job_of_the_same_queue_takes_a_claim_over() -> None:
    stage = lent()
    stage.submit(job("a1", "a", role(1, 4), at=5))
    stage.cycle()
    victim = next(iter(stage.evicted()))
    stage.submit(job("urgent", "a", role(1, 4), at=6, priority=9))
    stage.cycle()
    assert set(stage.snapshot.claims) == {"urgent"}
    assert len(stage.evicted()) == 1
    stage.end_evicted(victim)
    stage.cycle()
    assert "urgent" in stage.running()
    assert "a1" not in stage.running()


def test_a_lower_job_does_not() -> None:
    stage = lent()
    stage.submit(job("a1", "a", role(1, 4), at=5))
    stage.cycle()
    stage.submit(job("later", "a", role(1, 4), at=6))
    stage.cycle()
    assert set(stage.snapshot.claims) == {"a1"}


def test_victims_make_room_where_quota_is_free() -> None:
    """Quota suffices for eight, but small jobs are on both nodes: one must be evicted for a whole node."""
    small = [job("low1", "a", role(1, 1)), job("low2", "a", role(1, 1), at=1)]
    snapshot = world(
        [node("n1", 4), node("n2", 4)],
        small,
        teams={"a": quotas(8)},
        queues=[queue("a", preemption=OWN_ONLY)],
    )
    snapshot.flavors["a100"] = replace(snapshot.flavors["a100"], policy="spread")
    stage = Stage(snapshot)
    stage.cycle()
    assert {held.node for name in ("low1", "low2") for held in snapshot.allocations_of(name)} == {"n1", "n2"}
    stage.submit(job("big", "a", role(1, 4), at=9, priority=1))
    stage.cycle()
    assert list(stage.evicted().values()) == [EvictRule.IN_QUEUE_PRIORITY]
    stage.end_evicted(*stage.evicted())
    stage.cycle()
    assert "big" in stage.running()


def test_no_job_is_evicted_when_capacity_would_still_be_missing() -> None:
    snapshot = world(
        [node("n1", 4, ready=False), node("n2", 2)],
        [job("low", "a", role(1, 1))],
        teams={"a": quotas(8)},
        queues=[queue("a", preemption=OWN_ONLY)],
    )
    stage = Stage(snapshot)
    stage.cycle()
    stage.submit(job("big", "a", role(1, 4), at=9, priority=1))
    stage.cycle()
    assert stage.evicted() == {}
    assert stage.outcome("big").reason is Reason.NO_ROOM


@pytest.mark.parametrize(("action", "evicts"), [("admit", True), ("allocate", False)])
def test_actions_differ_in_their_victims(action: str, evicts: bool) -> None:
    stage = lent()
    stage.config = EngineConfig(actions=(action,))
    stage.submit(job("a1", "a", role(1, 4), at=5))
    stage.cycle()
    assert bool(stage.evicted()) is evicts
    assert stage.outcome("a1").reason is (
        Reason.WAITING_FOR_PREEMPTED if evicts else Reason.WAITING_FOR_BORROWED
    )


def test_protected_run_time_is_reported_with_its_end() -> None:
    snapshot = world(
        [node("n1", 4)],
        [job("low", "a", role(1, 4), min_run_s=600)],
        teams={"a": quotas(4)},
        queues=[queue("a", preemption=OWN_ONLY)],
    )
    stage = Stage(snapshot)
    stage.cycle()
    stage.submit(job("high", "a", role(1, 4), at=9, priority=1))
    stage.cycle()
    found = stage.outcome("high")
    assert found.reason is Reason.PROTECTED
    assert found.numbers["until"] == 1_600
    stage.now = 1_600
    stage.cycle()
    assert set(stage.evicted()) == {"low"}


def test_a_job_that_may_not_ask_yet_waits_until_it_may() -> None:
    stage = lent()
    stage.submit(job("a1", "a", role(1, 4), at=5, preempts_after=Instant(1_100)))
    stage.cycle()
    assert stage.evicted() == {}
    assert stage.outcome("a1").numbers["at"] == 1_100
    stage.now = 1_100
    stage.cycle()
    assert len(stage.evicted()) == 1


def test_a_drained_queue_gives_everything_back_once() -> None:
    snapshot = world([node("n1", 4)], [job("one"), job("two", at=1)])
    stage = Stage(snapshot)
    stage.cycle()
    stage.put(QueuePut(queue("a", stop_policy=StopPolicy.HOLD_AND_DRAIN)))
    stage.cycle()
    assert stage.evicted() == {"one": EvictRule.QUEUE_DRAINED, "two": EvictRule.QUEUE_DRAINED}
    assert stage.cycle().decisions == ()


def test_a_strict_queue_waits_behind_a_claim() -> None:
    stage = lent()
    strict = queue("a", preemption=TAKE_BACK, strategy=Strategy.STRICT_FIFO)
    stage.put(QueuePut(strict))
    stage.submit(job("a1", "a", role(1, 3), at=5), job("a2", "a", role(1, 1), at=6))
    stage.cycle()
    assert set(stage.snapshot.claims) == {"a1"}
