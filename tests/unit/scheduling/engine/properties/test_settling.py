"""Invariants while jobs preempt each other, in any world."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine import EngineConfig, FairSharing, Snapshot, run_cycle
from scheduling.engine.model import (
    DecisionKind,
    GpuMode,
    Instant,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
)
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role, world
from tests.unit.scheduling.engine.properties.laws import law

QUIET = 5
POLICIES = st.builds(
    PreemptionPolicy,
    within_queue=st.sampled_from(PreemptWithin),
    reclaim=st.sampled_from(PreemptOthers),
    while_borrowing=st.sampled_from((PreemptOthers.NEVER, PreemptOthers.LOWER_PRIORITY)),
)


@st.composite
def stages(draw: st.DrawFn) -> Stage:
    # Whole cards: in slice flavors their number takes no part in shares.
    whole = {"mode": GpuMode.WHOLE}
    nodes = [
        node(f"n{index}", draw(st.integers(1, 4)), device=whole) for index in range(draw(st.integers(1, 3)))
    ]
    limits = {
        name: quotas(draw(st.integers(0, 6)), lend=draw(st.none() | st.integers(0, 4))) for name in "abc"
    }
    queues = [queue(name, preemption=draw(POLICIES)) for name in "abc"]
    waves = [
        [
            job(
                f"j{wave}{index}",
                draw(st.sampled_from("abc")),
                role(draw(st.integers(1, 3)), draw(st.integers(1, 2)), least=1),
                at=draw(st.integers(0, 5)),
                priority=draw(st.integers(0, 2)),
                preemptible=draw(st.sampled_from((True, True, True, False))),
            )
            for index in range(draw(st.integers(1, 4)))
        ]
        for wave in range(3)
    ]
    fair = FairSharing() if draw(st.booleans()) else None
    config = EngineConfig(actions=("admit",), fair_sharing=fair)
    snapshot = world(nodes, teams=limits, queues=queues, flavors=[flavor(mode=GpuMode.WHOLE)])
    stage = Stage(snapshot, config)
    for wave_jobs in waves:
        stage.submit(*wave_jobs)
        stage.cycle()
    return stage


def sound(snapshot: Snapshot) -> None:
    """Check that no card is given twice, and that admissions stay within the quota tree."""
    for row in range(len(snapshot.fleet)):
        for device in snapshot.fleet.export_node(row).devices:
            assert 0 <= device.used_cores <= device.cores
            assert not device.exclusive or device.holders == 1
    for key in {charge.key for held in snapshot.allocations.values() for charge in held.charges}:
        top = snapshot.quota.subtree_quota("root", key)
        assert top is None or snapshot.quota.usage("root", key) <= top


def repeats_itself(stage: Stage) -> None:
    """Check that a cycle leaves the snapshot unchanged, and that the same snapshot gives the same cycle."""
    before = stage.snapshot.to_json()
    first = run_cycle(stage.snapshot, stage.config, Instant(stage.now))
    assert stage.snapshot.to_json() == before
    assert run_cycle(Snapshot.from_json(before), stage.config, Instant(stage.now)) == first


def keeps_claims(stage: Stage) -> None:
    """Check that a claim names its victims, and that its job starts once these are gone."""
    for name, claim in stage.snapshot.claims.items():
        assert claim.allocations
        assert all(held.job == name for held in claim.allocations)
    for victim in list(stage.snapshot.jobs):
        stage.end_evicted(victim)
    promised = {
        name
        for name, claim in stage.snapshot.claims.items()
        if not any(key in stage.snapshot.allocations for key in claim.leaving)
    }
    stage.cycle()
    sound(stage.snapshot)
    assert promised <= stage.running()


def comes_to_rest(stage: Stage) -> None:
    """Check that cycles settle once all evicted tasks are gone, and that no job is evicted too often."""
    quiet = 0
    for _ in range(60):
        for name in sorted(stage.snapshot.jobs):
            stage.end_evicted(name)
        result = stage.cycle()
        sound(stage.snapshot)
        quiet = 0 if result.decisions else quiet + 1
        if quiet == QUIET:
            break
    assert quiet == QUIET
    # No two jobs preempt each other in turn.
    pushed = {(d.beneficiary, d.job) for d in stage.all_decisions if d.kind is DecisionKind.EVICT}
    assert not {(victim, winner) for winner, victim in pushed} & pushed
    times = Counter(d.job for d in stage.all_decisions if d.kind is DecisionKind.EVICT)
    assert max(times.values(), default=0) <= stage.config.preemption.eviction_cap


@given(stages())
@law
def test_preemption_settles(stage: Stage) -> None:
    """Check everything in one world, because building a world costs more than the checks."""
    sound(stage.snapshot)
    repeats_itself(stage)
    keeps_claims(stage)
    comes_to_rest(stage)
