"""A job inside what its queue owns, behind a job of its own queue that would borrow."""

from __future__ import annotations

from scheduling.engine import EngineConfig, FairSharing
from scheduling.engine.model import PreemptionPolicy, PreemptOthers, Strategy
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.actions.worlds import live, running_world
from tests.unit.scheduling.engine.builders import job, node, queue, quotas, role

RECLAIM = PreemptionPolicy(reclaim=PreemptOthers.ANY)
CONFIG = EngineConfig(actions=("admit", "consolidate"), fair_sharing=FairSharing())


def beside_a_borrower(strategy: Strategy = Strategy.BEST_EFFORT_FIFO) -> Stage:
    """Three nodes of four cards, the last of them free. `a` uses 4 of 9, `b` 4 of 3; first in the line of `a`
    is a gang that would borrow, behind it a job that would not, and `b` would borrow one more card."""
    snapshot = running_world(
        [node(f"n{number}", 4) for number in range(3)],
        {"a-old": ["n0"], "b0": ["n1"], "b1": ["n1"]},
        [
            live(job("a-old", "a", role(1, 4))),
            live(job("b0", "b", role(1, 2))),
            live(job("b1", "b", role(1, 2))),
            job("a-gang", "a", role(3, 4), at=1),
            job("a-next", "a", role(1, 4), at=2),
            job("b-more", "b", role(1, 1)),
        ],
        teams={"a": quotas(9), "b": quotas(3)},
        queues=[
            queue("a", preemption=RECLAIM, strategy=strategy),
            queue("b", preemption=RECLAIM),
        ],
    )
    return Stage(snapshot, CONFIG)


def test_it_gets_the_free_place_before_a_borrower_of_another_queue_without_evictions() -> None:
    stage = beside_a_borrower()
    for _ in range(5):
        stage.cycle()
    assert "a-next" in stage.running()
    assert stage.evicted() == {}


def test_in_a_queue_that_starts_in_order_alone_it_stays_behind() -> None:
    stage = beside_a_borrower(Strategy.STRICT_FIFO)
    for _ in range(5):
        stage.cycle()
    assert "a-next" not in stage.running()
    assert "b-more" in stage.running()


def test_the_borrower_of_its_own_queue_starts_where_it_leaves_room() -> None:
    stage = beside_a_borrower()
    stage.apply_end("a-old")
    stage.apply_end("b0")
    stage.apply_end("b1")
    stage.submit(job("a-small", "a", role(1, 1), at=4))
    for _ in range(5):
        stage.cycle()
    # What is inside the nominal of nine goes first: the gang of twelve waits for all of it.
    assert {"a-next", "a-small", "b-more"} <= stage.running()
    assert stage.evicted() == {}
