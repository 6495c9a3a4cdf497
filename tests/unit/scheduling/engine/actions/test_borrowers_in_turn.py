"""A borrower may not preempt a job that could preempt it at once: otherwise the two would alternate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from scheduling.engine import PreemptionOptions
from scheduling.engine.model import (
    DecisionKind,
    GpuMode,
    Job,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
)
from tests.unit.scheduling.engine.actions.stage import ADMIT, Stage
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role, world

NEWER = PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY
OWNER = PreemptionPolicy(within_queue=NEWER, reclaim=PreemptOthers.ANY)
BORROWER = PreemptionPolicy(
    reclaim=PreemptOthers.LOWER_PRIORITY, while_borrowing=PreemptOthers.LOWER_PRIORITY
)


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The cards of each node, the quota of `a`, `b` and `c`, `b`'s rules and jobs, and the new job of `c`.

    `evictions` are those of all jobs in the end, with the option off.
    """

    cards: tuple[int, ...]
    nominal: tuple[int, int, int]
    policy: PreemptionPolicy = OWNER
    jobs: tuple[Job, ...]
    comes: Job
    evictions: dict[str, int]


TURNS = {
    "its weaker ones make way for it, and borrow again": Turns(
        cards=(1, 1, 2),
        nominal=(0, 3, 1),
        jobs=(
            job("v", "b", role(1, 2)),
            job("equal", "b", role(1, 1)),
            job("newer", "b", role(1, 1), at=1),
        ),
        comes=job("p", "c", role(1, 2), at=2, priority=1),
        evictions={"v": 3, "newer": 3, "p": 3},
    ),
    "its queue keeps its nominal, but on other nodes": Turns(
        cards=(1, 1, 2),
        nominal=(1, 2, 1),
        policy=replace(OWNER, while_borrowing=PreemptOthers.LOWER_PRIORITY),
        jobs=(
            job("v", "b", role(1, 2)),
            job("one", "b", role(1, 1), at=1),
            job("two", "b", role(1, 1), at=1),
        ),
        comes=job("p", "c", role(1, 2), at=2, priority=1),
        evictions={"v": 3, "one": 3, "two": 3, "p": 3},
    ),
    "it starts again smaller": Turns(
        cards=(2,),
        nominal=(0, 1, 1),
        policy=PreemptionPolicy(reclaim=PreemptOthers.ANY),
        jobs=(job("v", "b", role(2, 1, least=1)),),
        comes=job("p", "c", role(1, 2), at=2, priority=1),
        evictions={"v": 1, "p": 1},
    ),
}


def played(turns: Turns, *, lasting: bool) -> Stage:
    """Run cycles until nothing changes any more."""
    whole = {"mode": GpuMode.WHOLE}
    snapshot = world(
        [node(f"n{index}", cards, device=whole) for index, cards in enumerate(turns.cards)],
        turns.jobs,
        teams={name: quotas(cards) for name, cards in zip("abc", turns.nominal, strict=True)},
        queues=[queue("b", preemption=turns.policy), queue("c", preemption=BORROWER)],
        flavors=[flavor(mode=GpuMode.WHOLE)],
    )
    stage = Stage(
        snapshot, replace(ADMIT, preemption=PreemptionOptions(borrowers_evict_borrowers_only=lasting))
    )
    stage.cycle()
    stage.submit(turns.comes)
    for _ in range(40):
        if not stage.cycle().decisions:
            break
        stage.end_evicted(*stage.snapshot.jobs)
    return stage


@pytest.mark.parametrize("turns", TURNS.values(), ids=TURNS)
def test_a_borrower_preempts_no_job_that_could_preempt_it(turns: Turns) -> None:
    stage = played(turns, lasting=True)
    assert stage.evicted() == {}
    assert stage.running() == {one.id for one in turns.jobs}


@pytest.mark.parametrize("turns", TURNS.values(), ids=TURNS)
def test_without_the_option_they_alternate(turns: Turns) -> None:
    stage = played(turns, lasting=False)
    pushed = {(d.beneficiary, d.job) for d in stage.all_decisions if d.kind is DecisionKind.EVICT}
    assert {("p", "v"), ("v", "p")} <= pushed
    found = {name: left.evictions for name, left in stage.snapshot.jobs.items() if left.evictions}
    assert found == turns.evictions
