"""Capacity is reserved for a large pending job: which jobs may start before it, and which may not."""

from __future__ import annotations

import pytest

from scheduling.engine.model import Decision, DecisionKind, Job, PreemptionPolicy, Reason
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import job, node, queue, quotas, role, world

# At 1000 the running job has 500 s left, and leaves two of four cards free.
RUNNING = job("running", "a", role(1, 2), max_run_s=500)
LARGE = job("large", "a", role(1, 4), at=1)


def stage(*jobs: Job, backfill: bool = True, nodes: int = 1) -> Stage:
    snapshot = world(
        [node(f"n{index}", 4) for index in range(nodes)],
        [RUNNING],
        teams={"a": quotas(8), "b": quotas(0)},
        queues=[queue("a", backfill=backfill), queue("b", preemption=PreemptionPolicy())],
    )
    made = Stage(snapshot)
    made.cycle()
    made.now = 1_000
    made.submit(LARGE, *jobs)
    made.cycle()
    return made


@pytest.mark.parametrize(("limit", "starts"), [(500, True), (499, True), (501, False), (None, False)])
def test_who_has_ended_by_then_may_pass(limit: int | None, starts: bool) -> None:
    made = stage(job("small", "a", role(1, 1), at=2, max_run_s=limit))
    assert ("small" in made.running()) is starts
    if not starts:
        found = made.outcome("small")
        assert found.reason is Reason.RESERVED_FOR_LARGER
        assert dict(found.numbers) == {"at": 1_500, "job": "large"}


def test_who_does_not_touch_the_reservation_may_pass() -> None:
    made = stage(job("small", "a", role(1, 2), at=2), nodes=2)
    # `large` starts at once on the empty node, so nothing is kept and the small job fits beside.
    assert made.running() == {"running", "large", "small"}


def test_the_reservation_moves_where_the_waiting_job_can_start_all_the_same() -> None:
    blocker = job("blocker", "a", role(1, 3), at=0, max_run_s=500)
    made = stage(job("small", "a", role(1, 1), at=2), nodes=1)
    assert "small" not in made.running()
    wide = world(
        [node("n0", 4), node("n1", 4)],
        [RUNNING, blocker],
        teams={"a": quotas(16)},
        queues=[queue("a")],
    )
    other = Stage(wide)
    other.cycle()
    other.now = 1_000
    other.submit(LARGE, job("small", "a", role(1, 1), at=2))
    other.cycle()
    # Both nodes will be empty at 1500; one is enough for `large`, so the other may be used.
    assert other.outcome("large").reason is Reason.NO_ROOM
    assert "small" in other.running()


def test_without_the_switch_whatever_fits_passes() -> None:
    assert "small" in stage(job("small", "a", role(1, 1), at=2), backfill=False).running()


def test_without_known_ends_nothing_is_kept() -> None:
    snapshot = world([node("n0", 4)], [job("running", "a", role(1, 2))], teams={"a": quotas(8)})
    made = Stage(snapshot)
    made.cycle()
    made.submit(LARGE, job("small", "a", role(1, 1), at=2))
    made.cycle()
    assert "small" in made.running()


def test_another_queue_is_held_back_where_it_would_borrow_without_the_name() -> None:
    made = stage(job("stranger", "b", role(1, 1), at=2))
    found = made.outcome("stranger")
    assert found.reason is Reason.RESERVED_FOR_LARGER
    assert dict(found.numbers) == {"at": 1_500}


def test_the_large_job_starts_at_its_time() -> None:
    made = stage(job("small", "a", role(1, 1), at=2, max_run_s=501))
    made.apply_end("running")
    made.now = 1_500
    made.cycle()
    assert "large" in made.running()


@pytest.mark.parametrize("queue_id", ["a", "b"])
@pytest.mark.parametrize(("limit", "promised"), [(500, True), (501, False), (None, False)])
def test_capacity_being_released_is_not_claimed_by_a_job_that_would_delay_it(
    queue_id: str, limit: int | None, promised: bool
) -> None:
    snapshot = world(
        [node("n0", 4)],
        [RUNNING, job("leaver", "a", role(1, 2))],
        teams={"a": quotas(8), "b": quotas(0)},
        queues=[queue("a"), queue("b", preemption=PreemptionPolicy())],
    )
    made = Stage(snapshot)
    made.cycle()
    held = tuple(task.id for task in snapshot.allocations_of("leaver"))
    made.apply(Decision(kind=DecisionKind.EVICT, job="leaver", released=held))
    made.now = 1_000
    made.submit(LARGE, job("small", queue_id, role(1, 1), at=2, max_run_s=limit))
    made.cycle()
    assert (set(made.snapshot.claims) == {"small"}) is promised
    if not promised:
        assert made.outcome("small").reason is Reason.RESERVED_FOR_LARGER
