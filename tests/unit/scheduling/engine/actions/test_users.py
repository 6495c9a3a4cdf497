"""Users of one queue: the user who used less lately goes first, however many jobs each submits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import Delta, EngineConfig, UsagePut, UserShares
from scheduling.engine.actions.queue_cursor import QueueCursor
from scheduling.engine.cycle import run_cycle, start_session
from scheduling.engine.model import Instant, Job, OutcomeStatus, Reason, ResourceAmount, Strategy, UserUsage
from scheduling.engine.order.user_usage import UserUsageTable
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import NOW, job, node, queue, quotas, world

SHARES = UserShares(half_life_s=1_000, sampling_s=100)
CARDS = "gpu.cards"


def usage(user: str, cards: float, *, at: float = 1_000, weight: int = 1000) -> UserUsage:
    consumed = (ResourceAmount(CARDS, cards),)
    return UserUsage(queue="a", user=user, at=Instant(at), consumed=consumed, weight_milli=weight)


def stage(jobs: list[Job], *counted: UserUsage, cards: int = 1, shares: UserShares | None = SHARES) -> Stage:
    snapshot = world(
        [node("n1", cards)], jobs, teams={"a": quotas(cards)}, queues=[queue("a", user_shares=True)]
    )
    snapshot.apply_delta(Delta(tuple(UsagePut(entry) for entry in counted)))
    return Stage(snapshot, EngineConfig(actions=("admit",), user_shares=shares))


@pytest.mark.parametrize(
    ("elapsed", "half_life", "part"), [(0, 10, 0.0), (10, 10, 0.5), (1, 10, 0.066967), (10, 0, 0.0)]
)
def test_what_accrues(elapsed: float, half_life: float, part: float) -> None:
    accrued = UserShares(half_life_s=half_life).compute_accrued_part(elapsed)
    assert accrued == pytest.approx(part, abs=1e-6)


def test_the_user_who_used_less_goes_first_whatever_priority_and_age() -> None:
    made = stage(
        [job("m", user="much", priority=9), job("l", user="little", at=9)],
        usage("much", 8),
        usage("little", 2),
    )
    made.cycle()
    assert made.running() == {"l"}


def test_positions_count_who_used_less_first_whatever_priority_and_age() -> None:
    pending = [job("m", user="much", priority=9), job("l", user="little", at=9), job("n", user="none", at=12)]
    snapshot = world(
        [node("n1", 1)],
        pending,
        teams={"a": quotas(1)},
        queues=[queue("a", user_shares=True, strategy=Strategy.STRICT_FIFO)],
    )
    snapshot.apply_delta(Delta(tuple(UsagePut(entry) for entry in (usage("much", 8), usage("little", 2)))))
    config = EngineConfig(actions=("admit",), user_shares=SHARES)
    outcomes = {outcome.job: outcome for outcome in run_cycle(snapshot, config, NOW).outcomes}
    assert outcomes["n"].status is OutcomeStatus.ADMITTED
    assert outcomes["l"].reason is not Reason.BEHIND_HEAD, "it is the head that does not fit"
    assert outcomes["m"].numbers | {"head": "l"} == {"position": 2, "ahead": 1, "head": "l"}


def test_many_jobs_gain_nothing() -> None:
    flood = [job(f"f{index:03}", user="flood", priority=9) for index in range(200)]
    made = stage([*flood, job("z", user="single", at=9)], cards=4)
    made.cycle()
    assert "z" in made.running()
    assert len(made.running()) == 4


def test_old_use_is_forgotten_by_half_lives() -> None:
    made = stage([job("x", user="x"), job("y", user="y", at=1)], usage("x", 8, at=0), usage("y", 5))
    users = UserUsageTable(made.snapshot, SHARES, NOW)
    assert users.compute_load("a", "x") == pytest.approx(4 * 1000 / 1000)
    assert users.compute_load("a", "y") == pytest.approx(5.0)
    made.cycle()
    assert made.running() == {"x"}


def test_what_was_just_admitted_counts_until_it_is_sampled() -> None:
    jobs = [job(f"{user}{index}", user=user, at=index) for user in "xy" for index in range(3)]
    made = stage(jobs, cards=4)
    made.cycle()
    assert made.running() == {"x0", "x1", "y0", "y1"}


@pytest.mark.parametrize(("weight", "first"), [(1000, "y"), (4000, "x"), (0, "y")])
def test_a_heavier_user_has_more_of_it(weight: int, first: str) -> None:
    made = stage(
        [job("x", user="x", at=1), job("y", user="y", at=1)], usage("x", 8, weight=weight), usage("y", 4)
    )
    made.cycle()
    assert made.running() == {first}


def test_a_weight_of_zero_comes_last_even_with_no_use() -> None:
    made = stage([job("x", user="x"), job("y", user="y", at=5)], usage("x", 0, weight=0), usage("y", 4))
    made.cycle()
    assert made.running() == {"y"}


def test_resources_weigh_as_configured() -> None:
    shares = replace(SHARES, resource_weights=((CARDS, 0), ("cpu", 1000)))
    made = stage([job("x", user="x", at=1), job("y", user="y")], usage("x", 8), usage("y", 0), shares=shares)
    assert UserUsageTable(made.snapshot, shares, NOW).compute_load("a", "x") == 0


def test_off_nothing_of_it_counts() -> None:
    made = stage([job("m", user="much"), job("l", user="little", at=9)], usage("much", 8), shares=None)
    made.cycle()
    assert made.running() == {"m"}
    assert UserUsageTable(made.snapshot, None, NOW).compute_load("a", "much") is None


def test_a_job_that_waits_for_terminating_jobs_keeps_its_place_at_the_head() -> None:
    made = Stage(world([node("n1", 2)], [job("a0", priority=5), job("b0", preempting=True)]))
    line = made.snapshot.queues["a"]
    session = start_session(made.snapshot, made.config, NOW)
    turn = QueueCursor(session, line)
    assert turn.head is not None and turn.head.id == "b0"
    turn.advance_after_admission()
    assert turn.head is not None and turn.head.id == "a0"
