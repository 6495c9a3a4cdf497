"""A job at its cap of evictions keeps what its queue owns, and nothing that another queue does."""

from __future__ import annotations

from scheduling.engine import EngineConfig, FairSharing
from scheduling.engine.model import EvictRule, GpuMode, Job, PreemptionPolicy, PreemptOthers
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.actions.worlds import live, running_world
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role

CAP = EngineConfig().preemption.eviction_cap
RECLAIM = PreemptionPolicy(reclaim=PreemptOthers.ANY)


def stage(a_owns: int, *running: Job, wanted: int) -> Stage:
    """One node of eight cards; what `a` does not own belongs to `b`, which asks for `wanted` of it."""
    whole = {"mode": GpuMode.WHOLE}
    snapshot = running_world(
        [node("n0", 8, device=whole)],
        {entry.id: ["n0"] for entry in running},
        [*map(live, running), job("owner", "b", role(1, wanted), at=900)],
        teams={"a": quotas(a_owns), "b": quotas(8 - a_owns)},
        queues=[queue("a", preemption=RECLAIM), queue("b", preemption=RECLAIM)],
        flavors=[flavor(mode=GpuMode.WHOLE)],
    )
    return Stage(snapshot, EngineConfig(actions=("admit",), fair_sharing=FairSharing()))


def settle(world: Stage) -> set[str]:
    for _ in range(4):
        world.cycle()
        for name in list(world.snapshot.jobs):
            world.end_evicted(name)
    return world.running()


def capped(name: str, cards: int) -> Job:
    return job(name, "a", role(1, cards), evictions=CAP)


def test_it_is_evicted_for_an_owner_where_its_queues_nominal_was_lowered() -> None:
    world = stage(0, capped("large", 8), wanted=8)
    assert settle(world) == {"owner"}
    assert world.evicted() == {"large": EvictRule.RECLAIM_NOMINAL}


def test_of_several_only_what_is_above_the_nominal_is_evicted() -> None:
    world = stage(4, capped("first", 4), capped("second", 4), wanted=4)
    assert settle(world) == {"owner", "first"} or settle(world) == {"owner", "second"}
    assert len(world.evicted()) == 1


def test_inside_the_nominal_it_is_not_taken() -> None:
    world = stage(4, capped("mine", 4), job("more", "a", role(1, 4)), wanted=4)
    assert settle(world) == {"owner", "mine"}
    world = stage(8, capped("mine", 8), wanted=1)
    assert settle(world) == {"mine"}
