"""A cycle on a snapshot after changes and cycles decides what one on a fresh copy decides."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import Delta, EngineConfig, FairSharing, Snapshot, run_cycle
from scheduling.engine.model import Instant, PreemptionPolicy, PreemptOthers, PreemptWithin
from tests.unit.scheduling.engine.builders import node, queue, quotas, world
from tests.unit.scheduling.engine.state.test_delta import (
    add_node,
    cancel,
    cordon,
    end,
    lose_node,
    promote,
    relabel,
    relate,
    run,
    submit,
)

CONFIG = EngineConfig(actions=("admit", "elastic", "consolidate"), fair_sharing=FairSharing())
ASKING = PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.ANY)
STEPS = [submit, submit, submit, run, cancel, promote, end, add_node, cordon, relabel, relate, lose_node]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 40)), max_size=12))
@settings(max_examples=15, deadline=None)
def test_warm_decides_as_cold(steps: list[tuple[Callable[[Snapshot, int], Delta], int]]) -> None:
    warm = world(
        [node("n1"), node("n2", 2)],
        teams={"a": quotas(3), "b": quotas(3)},
        queues=[queue("a", preemption=ASKING), queue("b", preemption=ASKING)],
    )
    for number, (step, pick) in enumerate(steps):
        warm.apply_delta(step(warm, pick))
        now = Instant(1_000 + number)
        cold = Snapshot.from_json(warm.to_json())
        assert run_cycle(warm, CONFIG, now) == run_cycle(cold, CONFIG, now)
