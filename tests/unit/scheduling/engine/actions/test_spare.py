"""Evicted jobs: what they must keep unused when they borrow, and what they may have at the cap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import Delta, EngineConfig, FairSharing, LossPut, PreemptionOptions, Snapshot
from scheduling.engine.model import HelpCode, Instant, Job, JobState, Reason, Strategy
from tests.unit.scheduling.engine.actions.stage import ADMIT, TAKE_BACK, Stage
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role, world

TENTH = PreemptionOptions(readmission_headroom_permille=100)


def pool(*jobs: Job) -> Snapshot:
    """Two teams that own ten of twenty cards each."""
    return world(
        [node(f"n{number}", 10) for number in range(2)],
        jobs,
        teams={"a": quotas(10), "b": quotas(10)},
        queues=[queue("a", preemption=TAKE_BACK), queue("b", preemption=TAKE_BACK)],
    )


@pytest.mark.parametrize(
    ("evictions", "free", "starts"),
    [(0, 1, True), (1, 2, False), (1, 3, True), (2, 4, False), (2, 5, True)],
)
def test_the_more_often_evicted_the_more_is_left_free(evictions: int, free: int, starts: bool) -> None:
    fill = job("fill", "a", role(20 - free, 1))
    stage = Stage(pool(fill), replace(ADMIT, preemption=TENTH))
    stage.cycle()
    stage.submit(job("again", "a", role(1, 1), at=5, evictions=evictions))
    result = stage.cycle()
    assert ("again" in stage.running()) is starts
    if not starts:
        found = stage.outcome("again")
        assert found.reason is Reason.WAITING_FOR_BORROWED
        assert found.numbers["available"] == 0
        assert {way.code: way.numbers["short"] for way in found.help} == {
            HelpCode.WAIT_FOR_RELEASE: 1,
            HelpCode.RAISE_QUOTA: 11 - free,
        }
        assert result.counters["turns_reserved"] == 1


@pytest.mark.parametrize(("free", "tasks"), [(15, 4), (12, 3), (8, 2), (7, 1), (4, 0)])
def test_an_elastic_job_starts_at_the_largest_size_that_leaves_headroom(free: int, tasks: int) -> None:
    """Evicted once, it leaves two of twenty GPUs unused; its tasks have three each, and one has to start."""
    fill = job("fill", "a", role(20 - free, 1))
    stage = Stage(pool(fill), replace(ADMIT, preemption=TENTH))
    stage.cycle()
    stage.submit(job("again", "a", role(5, 3, least=1), at=5, evictions=1))
    stage.cycle()
    assert len(stage.snapshot.allocations_of("again")) == tasks
    if not tasks:
        assert stage.outcome("again").reason is Reason.WAITING_FOR_BORROWED


@pytest.mark.parametrize(
    ("lost_ppm", "evictions", "keep"),
    [(0, 0, 0), (7_499, 0, 0), (7_500, 0, 1), (10_000, 0, 2), (900_000, 0, 2), (10_000, 1, 4)],
)
def test_the_more_preemption_lost_the_more_all_borrowers_leave_free(
    lost_ppm: int, evictions: int, keep: int
) -> None:
    """At half of the loss budget a share begins to stay free, up to a tenth of twenty cards at all of it."""
    for free, starts in ((keep, False), (keep + 1, True)):
        stage = Stage(pool(job("fill", "a", role(20 - free, 1))), replace(ADMIT, preemption=TENTH))
        stage.cycle()
        stage.put(LossPut(lost_ppm))
        stage.submit(job("next", "a", role(1, 1), at=5, evictions=evictions))
        stage.cycle()
        assert ("next" in stage.running()) is starts


def test_after_losses_the_reason_of_a_borrower_has_what_stays_unused() -> None:
    stage = Stage(pool(job("fill", "a", role(18, 1))))
    stage.cycle()
    stage.put(LossPut(10_000))
    stage.submit(job("next", "a", role(1, 1), at=5), job("own", "b", role(1, 2), at=6))
    stage.cycle()
    assert "own" in stage.running()
    stage.cycle()
    found = stage.outcome("next")
    assert found.reason is Reason.WAITING_FOR_BORROWED
    assert found.numbers == {
        "flavor": "a100", "resource": "gpu.cards", "rule": "headroom",
        "asked": 1, "available": 0, "keep_free": 2, "unused": 0,
    }  # fmt: skip
    assert {way.code: way.numbers["short"] for way in found.help} == {
        HelpCode.WAIT_FOR_RELEASE: 3,
        HelpCode.RAISE_QUOTA: 9,
    }


def test_without_a_budget_for_losses_nothing_is_left_free() -> None:
    options = PreemptionOptions(loss_budget_permille=0)
    stage = Stage(pool(job("fill", "a", role(19, 1))), replace(ADMIT, preemption=options))
    stage.cycle()
    stage.put(LossPut(500_000))
    stage.submit(job("next", "a", role(1, 1), at=5))
    stage.cycle()
    assert "next" in stage.running()


def test_what_was_lost_is_part_of_a_saved_cycle() -> None:
    snapshot = pool()
    snapshot.apply_delta(Delta((LossPut(4_321),)))
    assert Snapshot.from_json(snapshot.to_json()).lost_ppm == 4_321


def test_a_fresh_job_of_the_same_shape_does_not_wait_behind_it() -> None:
    stage = Stage(pool(job("fill", "a", role(18, 1))), replace(ADMIT, preemption=TENTH))
    stage.cycle()
    stage.submit(job("again", "a", role(1, 1), at=5, evictions=1), job("fresh", "a", role(1, 1), at=6))
    stage.cycle()
    assert stage.running() == {"fill", "fresh"}


@pytest.mark.parametrize(
    ("strategy", "starts"), [(Strategy.BEST_EFFORT_FIFO, "small"), (Strategy.STRICT_FIFO, "rival")]
)
def test_who_cannot_start_keeps_no_owner_behind_it_from_going_first(strategy: Strategy, starts: str) -> None:
    """Of two free cards each team owns one: a job for its team's own card goes before a borrower."""
    snapshot = world(
        [node(f"n{number}", 10) for number in range(2)],
        [job("one", "a", role(9, 1)), job("two", "b", role(9, 1))],
        teams={"a": quotas(10), "b": quotas(10)},
        queues=[queue("a", strategy=strategy), queue("b")],
    )
    stage = Stage(snapshot, replace(ADMIT, preemption=TENTH))
    stage.cycle()
    stage.submit(
        job("rival", "b", role(1, 2), at=4),
        job("again", "a", role(1, 2), at=5, evictions=1),
        job("small", "a", role(1, 1), at=6),
    )
    stage.cycle()
    assert stage.running() == {"one", "two", starts}
    assert stage.outcome("again").reason is Reason.WAITING_FOR_BORROWED


def test_less_than_a_card_is_nothing_to_leave_free() -> None:
    options = PreemptionOptions(readmission_headroom_permille=49)
    limits = tuple(
        replace(q, own_nominal=1_000) if q.resource is Resource.GPU_CORES else q for q in quotas(10)
    )
    snapshot = world(
        [node(f"n{number}", 10) for number in range(2)],
        [job("fill", "a", role(19, 1))],
        teams={"a": limits, "b": limits},
    )
    stage = Stage(snapshot, replace(ADMIT, preemption=options))
    stage.cycle()
    stage.submit(job("again", "a", role(1, 1), at=5, evictions=1))
    stage.cycle()
    assert "again" in stage.running()


def test_inside_the_nominal_nothing_is_left_free() -> None:
    stage = Stage(pool(job("other", "b", role(18, 1))), replace(ADMIT, preemption=TENTH))
    stage.cycle()
    stage.submit(job("again", "a", role(1, 2), at=5, evictions=2))
    stage.cycle()
    assert "again" in stage.running()


def test_a_job_that_leaves_nothing_unused_preempts_none_either() -> None:
    config = EngineConfig(actions=("admit",), fair_sharing=FairSharing(), preemption=TENTH)
    stage = Stage(pool(job("b1", "b", role(1, 10)), job("b2", "b", role(1, 7), at=1)), config)
    stage.cycle()
    stage.submit(job("a1", "a", role(1, 3), at=2))
    stage.cycle()
    assert stage.running() == {"b1", "b2", "a1"}
    stage.submit(job("again", "a", role(1, 8), at=5, evictions=1))
    stage.cycle()
    assert stage.evicted() == {}
    stage.submit(job("fresh", "a", role(1, 7), at=6))
    stage.cycle()
    assert set(stage.evicted()) == {"b2"}


@pytest.mark.parametrize(("beside", "starts"), [(True, True), (False, False)])
def test_at_the_cap_only_unevictable_jobs_count_against_it(beside: bool, starts: bool) -> None:
    """The other jobs of the queue, which can be evicted, then count as the borrowers."""
    options = PreemptionOptions(nominal_counts_unevictable_only=beside, readmission_headroom_permille=0)
    stage = Stage(pool(job("fill", "a", role(12, 1))), replace(ADMIT, preemption=options))
    stage.cycle()
    stage.submit(job("often", "a", role(1, 4), at=5, evictions=3))
    stage.cycle()
    assert ("often" in stage.running()) is starts


def test_those_at_the_cap_never_hold_more_than_the_nominal() -> None:
    capped = [job(f"often{number}", "a", role(1, 4), at=number, evictions=3) for number in range(3)]
    stage = Stage(pool(*capped))
    stage.cycle()
    assert stage.running() == {"often0", "often1"}
    assert stage.outcome("often2").reason is Reason.WAITING_FOR_QUOTA
    ended = stage.snapshot.jobs["often0"]
    assert (ended.state, ended.submitted_at) == (JobState.LIVE, Instant(0))
    stage.apply_end("often0")
    stage.cycle()
    assert stage.running() == {"often1", "often2"}


def test_where_borrowing_would_leave_too_little_the_next_flavor_is_taken() -> None:
    """The first has room for it, but only borrowed; in the second it stays inside what its queue owns."""
    kinds = ("near", "far")
    snapshot = world(
        [node(f"{kind}{number}", 10, labels={"kind": kind}) for kind in kinds for number in range(2)],
        [job("fill", "a", role(17, 1))],
        teams={"a": quotas(10, flavors=kinds), "b": quotas(10, flavors=kinds)},
        queues=[queue("a", flavors=kinds)],
        flavors=[flavor(kind, node_labels={"kind": kind}) for kind in kinds],
    )
    stage = Stage(snapshot, replace(ADMIT, preemption=TENTH))
    stage.cycle()
    stage.submit(job("again", "a", role(1, 2), at=5, evictions=1), job("fresh", "a", role(1, 2), at=6))
    stage.cycle()
    flavors = {key.job: key.flavor for key in stage.snapshot.allocations.values()}
    assert flavors == {"fill": "near", "fresh": "near", "again": "far"}


def test_a_job_that_was_drained_lately_keeps_to_its_own() -> None:
    stage = Stage(pool(job("fill", "a", role(9, 1))), ADMIT)
    stage.cycle()
    stage.submit(job("given-back", "a", role(2, 1), at=5, drained=True), job("fresh", "b", role(1, 1), at=6))
    stage.cycle()
    assert stage.running() == {"fill", "fresh"}
    assert stage.outcome("given-back").reason is Reason.WAITING_FOR_BORROWED
    stage.submit(job("own", "a", role(1, 1), at=7, drained=True))
    stage.cycle()
    assert stage.running() == {"fill", "fresh", "own"}
