"""A round that ends for lack of room decides the same as one that evaluates every job."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import EngineConfig, FairSharing, run_cycle
from scheduling.engine.model import (
    DecisionKind,
    Fungibility,
    GpuMode,
    Instant,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    Preference,
    WhenCan,
)
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role, world
from tests.unit.scheduling.engine.properties.laws import EXAMPLES, law

POOLS, TEAMS = ("a100", "h100"), "abc"
POLICIES = st.builds(
    PreemptionPolicy, within_queue=st.sampled_from(PreemptWithin), reclaim=st.sampled_from(PreemptOthers)
)
WEIGHINGS = st.just(Fungibility()) | st.builds(
    Fungibility,
    when_can_borrow=st.sampled_from(WhenCan),
    when_can_preempt=st.sampled_from(WhenCan),
    preference=st.sampled_from(Preference),
)
CHOICES = st.sampled_from((POOLS, POOLS[::-1], POOLS[:1]))


@st.composite
def stages(draw: st.DrawFn) -> Stage:
    """A few waves of jobs, after each of which some are still leaving for others."""
    nodes = [
        node(f"{pool}-{n}", draw(st.integers(1, 4)), device={"mode": GpuMode.WHOLE}, labels={"pool": pool})
        for pool in POOLS
        for n in range(draw(st.integers(1, 2)))
    ]
    limits = {
        name: quotas(draw(st.integers(0, 5)), flavors=POOLS, lend=draw(st.none() | st.integers(0, 4)))
        for name in TEAMS
    }
    queues = [
        queue(name, flavors=draw(CHOICES), preemption=draw(POLICIES), fungibility=draw(WEIGHINGS))
        for name in TEAMS
    ]
    flavors = [flavor(pool, mode=GpuMode.WHOLE, node_labels={"pool": pool}) for pool in POOLS]
    fair = FairSharing() if draw(st.booleans()) else None
    config = EngineConfig(actions=("admit",), fair_sharing=fair)
    stage = Stage(world(nodes, teams=limits, queues=queues, flavors=flavors), config)
    for wave in range(4):
        for index in range(draw(st.integers(1, 4))):
            shape = role(
                draw(st.integers(1, 3)), draw(st.integers(1, 2)), least=draw(st.sampled_from((None, 1)))
            )
            team, at = draw(st.sampled_from(TEAMS)), draw(st.integers(0, 5))
            stage.submit(job(f"j{wave}{index}", team, shape, at=at, priority=draw(st.integers(0, 2))))
        if wave < 3:
            stage.cycle()
            for name in draw(st.sets(st.sampled_from(sorted(stage.snapshot.jobs)))):
                stage.end_evicted(name)
    return stage


@given(stages())
@settings(law, max_examples=-(-EXAMPLES // 3))
def test_a_round_that_ends_for_lack_of_room_starts_all_that_a_whole_one_starts(stage: Stage) -> None:
    whole = run_cycle(stage.snapshot, stage.config, Instant(stage.now))
    ended = run_cycle(
        stage.snapshot, replace(stage.config, stop_without_free_capacity=True), Instant(stage.now)
    )

    same = len(ended.decisions)
    assert ended.decisions == whole.decisions[:same]
    assert not any(made.kind is DecisionKind.ADMIT for made in whole.decisions[same:])
    assert "not_evaluated" in ended.counters or ended == whole
