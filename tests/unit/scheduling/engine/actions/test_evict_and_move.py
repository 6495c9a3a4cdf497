"""Evictions and moves together free capacity inside the nominal that neither frees alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import ConsolidationOptions, EngineConfig, FairSharing, run_cycle
from scheduling.engine.model import CycleResult, Decision, DecisionKind, Instant, Job
from tests.unit.scheduling.engine.actions.stage import TAKE_BACK
from tests.unit.scheduling.engine.actions.worlds import live, running_world
from tests.unit.scheduling.engine.builders import job, node, queue, quotas, role

CONFIG = EngineConfig(actions=("admit", "consolidate"), fair_sharing=FairSharing())
USUAL = ConsolidationOptions()
WANTED = job("wanted", "a", role(1, 4), at=900)


def shared(*waiting: Job, options: ConsolidationOptions = USUAL) -> CycleResult:
    """Two nodes of four cards; on each the owner c holds two of its own and b two that are a's."""
    held = [live(job(f"{team}{number}", team, role(1, 2))) for team in "bc" for number in (0, 1)]
    snapshot = running_world(
        [node("n0", 4), node("n1", 4)],
        {entry.id: [f"n{entry.id[1]}"] for entry in held},
        [*held, *waiting],
        teams={"a": quotas(4), "b": quotas(0), "c": quotas(4)},
        queues=[queue("a", preemption=TAKE_BACK), queue("b", preemption=TAKE_BACK), queue("c")],
    )
    return run_cycle(snapshot, replace(CONFIG, consolidation=options), Instant(1_000))


def decisions_of(result: CycleResult, kind: DecisionKind) -> list[Decision]:
    return sorted((found for found in result.decisions if found.kind is kind), key=lambda found: found.job)


def test_borrowers_are_evicted_and_an_owner_moves_to_their_places() -> None:
    result = shared(WANTED)
    assert [decision.job for decision in decisions_of(result, DecisionKind.EVICT)] == ["b0", "b1"]
    (move,) = decisions_of(result, DecisionKind.MIGRATE)
    assert move.job in ("c0", "c1")
    (claim,) = decisions_of(result, DecisionKind.PARK)
    assert claim.job == "wanted"
    assert [place.node for place in claim.allocations] == [f"n{move.job[1]}"]
    assert {place.node for place in move.allocations}.isdisjoint({f"n{move.job[1]}"})


@pytest.mark.parametrize(
    "options",
    [
        ConsolidationOptions(with_evictions=False),
        ConsolidationOptions(max_node_sets=0),
        ConsolidationOptions(placement_budget=0),
        ConsolidationOptions(moves_per_cycle=0),
    ],
)
def test_it_can_be_switched_off_and_is_bounded(options: ConsolidationOptions) -> None:
    assert shared(WANTED, options=options).decisions == ()


def test_a_borrower_gets_nothing_in_this_way() -> None:
    assert shared(job("wanted", "b", role(1, 4), at=900)).decisions == ()


def test_a_borrower_before_it_in_its_queue_does_not_block_it() -> None:
    result = shared(job("large", "a", role(2, 4), at=800), WANTED)
    (claim,) = decisions_of(result, DecisionKind.PARK)
    assert claim.job == "wanted"
    assert [decision.job for decision in decisions_of(result, DecisionKind.EVICT)] == ["b0", "b1"]
