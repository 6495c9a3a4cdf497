"""Caps of users and spent budgets apply to all jobs of a cycle together, and to claims too."""

from __future__ import annotations

from dataclasses import replace

from scheduling.engine import JobPut
from scheduling.engine.model import Allowance, BarredFlavor, Job, OutcomeStatus, Reason, Strategy
from tests.unit.scheduling.engine.actions.stage import OWN_ONLY, Stage
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

SPENT = BarredFlavor("a100", "Team", 10, 10)


def capped(name: str, *roles: object, limit: int = 3, held: int = 0, **facts: object) -> Job:
    """A job of a user who may hold so many cards, and holds some."""
    cap = Allowance("ws/ann", "gpu.cards", limit, held)
    return job(name, "a", *roles, user="ann", allowances=(cap,), **facts)  # type: ignore[arg-type]


def test_jobs_of_one_user_share_what_is_allowed_within_one_cycle() -> None:
    jobs = [capped(f"j{n}", held=1, at=n) for n in range(4)]
    result = cycle(world([node("n", 8)], jobs))
    assert started(result) == ["j0", "j1"]
    found = outcome(result, "j2")
    assert (found.reason, found.status) == (Reason.POLICY_DENIED, OutcomeStatus.WAITING)
    assert found.numbers == {"resource": "gpu.cards", "asked": 1, "held": 3, "user_limit": 3}


def test_others_are_not_counted_and_not_held_up() -> None:
    jobs = [capped("big", role(4)), capped("small", at=1), job("other", at=2)]
    assert started(cycle(world([node("n", 8)], jobs))) == ["small", "other"]


def test_a_strict_queue_continues_past_a_job_that_is_not_allowed() -> None:
    strict = [queue("a", strategy=Strategy.STRICT_FIFO)]
    jobs = [capped("first", role(4)), job("second", at=1), job("third", "a", role(9), at=2)]
    result = cycle(world([node("n", 8)], [*jobs, job("fourth", at=3)], queues=strict))
    assert started(result) == ["second"]
    assert outcome(result, "fourth").reason is Reason.BEHIND_HEAD
    assert outcome(result, "fourth").numbers["head"] == "third"


def test_an_elastic_job_takes_as_much_as_is_allowed() -> None:
    result = cycle(world([node("n", 8)], [capped("e", role(8, least=1), held=1)]))
    (decision,) = result.decisions
    assert len(decision.allocations) == 2


def test_a_spent_budget_leaves_the_other_flavors() -> None:
    flavors = [flavor("a100", node_labels={"pool": "a"}), flavor("b200", node_labels={"pool": "b"})]
    nodes = [node("n1", 2, labels={"pool": "a"}), node("n2", 2, labels={"pool": "b"})]
    made = world(
        nodes,
        [job("j", barred=(SPENT,))],
        teams={"a": quotas(8, flavors=("a100", "b200"))},
        queues=[queue("a", flavors=("a100", "b200"))],
        flavors=flavors,
    )
    (decision,) = cycle(made).decisions
    assert {held.flavor for held in decision.allocations} == {"b200"}


def test_a_spent_budget_is_reported_with_its_numbers() -> None:
    jobs = [job("j", barred=(SPENT,)), job("k", barred=(replace(SPENT, preemptible_only=True),))]
    result = cycle(world([node("n", 8)], jobs))
    assert not result.decisions
    told = {"flavor": "a100", "budget_of": "Team", "used_hours": 10, "budget_hours": 10}
    assert outcome(result, "j").numbers == told
    assert outcome(result, "k").numbers == told | {"preemptible_in": "a100"}


def test_a_claim_counts_against_the_cap_until_it_is_given() -> None:
    low, high = job("low", "a", role(8)), capped("high", role(3), priority=5, at=1)
    stage = Stage(world([node("n", 8)], [low], queues=[queue("a", preemption=OWN_ONLY)]))
    stage.cycle()
    stage.submit(high)
    stage.cycle()
    assert stage.evicted().keys() == {"low"}
    stage.submit(capped("late", at=2))
    stage.cycle()
    assert stage.outcome("late").reason is Reason.POLICY_DENIED
    assert stage.outcome("late").numbers["held"] == 3
    stage.end_evicted("low")
    stage.cycle()
    assert "high" in stage.running()


def test_a_claim_ends_once_it_is_not_allowed_any_more() -> None:
    low, high = job("low", "a", role(8)), capped("high", role(3), priority=5, at=1)
    stage = Stage(world([node("n", 8)], [low], queues=[queue("a", preemption=OWN_ONLY)]))
    stage.cycle()
    stage.submit(high)
    stage.cycle()
    stage.put(JobPut(capped("high", role(3), priority=5, at=1, limit=2, preempting=True)))
    stage.end_evicted("low")
    stage.cycle()
    assert "high" not in stage.running()
    assert stage.outcome("high").reason is Reason.POLICY_DENIED
