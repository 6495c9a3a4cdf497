"""A round that ends once no capacity is left, for cycles between whole ones."""

from __future__ import annotations

from dataclasses import replace

from scheduling.engine import ExplainScope
from scheduling.engine.model import OutcomeStatus
from tests.unit.scheduling.engine.actions.stage import ADMIT, TAKE_BACK, Stage
from tests.unit.scheduling.engine.builders import job, node, queue, quotas, role, world

BRIEF = replace(ADMIT, stop_without_free_capacity=True, explain=ExplainScope.CONSIDERED)


def full(cards: int = 2) -> Stage:
    """`b` has borrowed every card, and `a` wants what it owns."""
    stage = Stage(
        world(
            [node("n1", cards)],
            teams={"a": quotas(1), "b": quotas(1), "c": quotas(0)},
            queues=[queue("a", preemption=TAKE_BACK), queue("b"), queue("c")],
        )
    )
    stage.submit(*(job(f"b{number}", "b", role(1, 1)) for number in range(cards)))
    stage.cycle()
    assert len(stage.running()) == cards
    return stage


def test_a_job_that_could_preempt_waits_for_the_whole_cycle() -> None:
    stage = full()
    stage.submit(job("first", "a", role(1, 3), at=1), job("owner", "a", role(1, 1), at=2), job("c1", "c"))

    stage.config = BRIEF
    result = stage.cycle()
    assert not result.decisions
    assert {found.job for found in result.outcomes} < {"first", "owner", "c1"}
    assert result.counters["not_evaluated"] > 0

    stage.config = ADMIT
    stage.cycle()
    assert stage.evicted()


def test_what_came_back_is_given_away() -> None:
    stage = full()
    stage.submit(*(job(f"c{number}", "c", role(1, 1), at=number) for number in range(3)))
    stage.apply_end("b0")

    stage.config = BRIEF
    result = stage.cycle()
    assert [made.job for made in result.decisions] == ["c0"]
    assert [found.job for found in result.outcomes if found.status is OutcomeStatus.ADMITTED] == ["c0"]


def test_where_nodes_are_free_and_quota_is_not_all_are_evaluated() -> None:
    stage = Stage(
        world(
            [node("n1", 4)], teams={"a": quotas(0, borrow=0), "b": quotas(4)}, queues=[queue("a"), queue("b")]
        )
    )
    stage.submit(job("a1", "a"), job("a2", "a", role(1, 2), at=1), job("b1", "b", at=2))
    stage.config = BRIEF
    result = stage.cycle()

    assert stage.running() == {"b1"}
    assert {found.job for found in result.outcomes} == {"a1", "a2", "b1"}
    assert "not_evaluated" not in result.counters


def test_booked_capacity_may_go_to_a_job_of_the_same_queue() -> None:
    stage = full()
    stage.submit(job("owner", "a", role(1, 1), at=1))
    stage.cycle()
    assert stage.evicted()
    stage.submit(job("urgent", "a", role(1, 1), at=2, priority=1))

    stage.config = BRIEF
    assert "not_evaluated" not in stage.cycle().counters
    assert "urgent" in stage.snapshot.claims
