"""A tenant with demand inside its nominal is served within the grace period, whichever tenant borrowed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.core.quantities import Resource
from scheduling.engine import EngineConfig, FairSharing, Snapshot
from scheduling.engine.model import (
    FlavorResource,
    GpuMode,
    Job,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    QuotaNode,
    Role,
)
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role
from tests.unit.scheduling.engine.properties.laws import law

# Shrinking a counter-example takes minutes on a busy machine.
pytestmark = pytest.mark.timeout(900)

TENANTS = ("a", "b", "c")
CARDS = FlavorResource("a100", Resource.GPU_CARDS)
TOP = 1_000
STEP_S = 20
POLICIES = st.builds(
    PreemptionPolicy,
    within_queue=st.sampled_from(PreemptWithin),
    # A tenant that may not reclaim its own quota has waived the guarantee.
    reclaim=st.just(PreemptOthers.ANY),
    while_borrowing=st.sampled_from((PreemptOthers.NEVER, PreemptOthers.LOWER_PRIORITY)),
)


def land(
    nominal: Mapping[str, int],
    policies: Mapping[str, PreemptionPolicy],
    *,
    fair: bool,
    parents: Mapping[str, str] | None = None,
    lend: Mapping[str, int | None] | None = None,
    per_node: int = 1,
) -> Stage:
    """Return tenants below one root, or below folders, and exactly the cards of their nominal quotas."""
    parents, lend = parents or {}, lend or {}
    cards = sum(nominal.values())
    sizes = [per_node] * (cards // per_node) + [cards % per_node] * bool(cards % per_node)
    snapshot = Snapshot(
        nodes=[node(f"n{i}", size, device={"mode": GpuMode.WHOLE}) for i, size in enumerate(sizes)],
        flavors=[flavor(mode=GpuMode.WHOLE)],
        quota_nodes=[
            QuotaNode(id="root"),
            *(QuotaNode(id=folder, parent="root") for folder in sorted(set(parents.values()))),
            *(
                QuotaNode(id=name, parent=parents.get(name, "root"), quotas=quotas(own, lend=lend.get(name)))
                for name, own in nominal.items()
            ),
        ],
        queues=[queue(name, preemption=policies[name]) for name in nominal],
    )
    return Stage(snapshot, EngineConfig(actions=("admit",), fair_sharing=FairSharing() if fair else None))


def size(entry: Job) -> int:
    return sum(part.replicas for part in entry.roles)


def let_time_pass(stage: Stage, seconds: int) -> None:
    """Run a cycle every few seconds; evicted tasks have ended by the next one."""
    for _ in range(0, seconds + 1, STEP_S):
        for name in sorted(stage.snapshot.jobs):
            stage.end_evicted(name)
        stage.cycle()
        stage.now += STEP_S - 1
    for name in sorted(stage.snapshot.jobs):
        stage.end_evicted(name)
    stage.cycle()


def in_hand(stage: Stage, tenant: str) -> int:
    """Return the cards that a tenant's jobs hold or claim."""
    claims = (
        claim for key, claim in stage.snapshot.claims.items() if stage.snapshot.jobs[key].queue == tenant
    )
    promised = sum(len(claim.allocations) for claim in claims)
    return stage.snapshot.quota.usage(tenant, CARDS) + promised


@st.composite
def gangs(draw: st.DrawFn, name: str, tenant: str, most: int) -> Job:
    tasks = draw(st.integers(1, most))
    parts: tuple[Role, ...] = (role(tasks, least=draw(st.none() | st.integers(1, tasks))),)
    return job(
        name,
        tenant,
        *parts,
        priority=draw(st.sampled_from((0, 1, TOP))),
        preemptible=draw(st.sampled_from((True, True, False))),
        min_run_s=draw(st.none() | st.integers(1, 100_000)),
        max_run_s=draw(st.none() | st.integers(60, 100_000)),
        evictions=draw(st.integers(0, 3)),
    )


@st.composite
def late_comers(draw: st.DrawFn) -> tuple[Stage, dict[str, int]]:
    """Return tenants that hold all that they could get, and one that arrives when all is taken."""
    nominal = {name: draw(st.integers(1, 4)) for name in TENANTS}
    stage = land(
        nominal,
        {name: draw(POLICIES) for name in TENANTS},
        fair=draw(st.booleans()),
        parents=draw(st.sampled_from(({}, {"b": "left", "c": "left"}, {"a": "left", "b": "left"}))),
        lend={name: draw(st.none() | st.integers(0, 4)) for name in TENANTS},
        per_node=draw(st.integers(1, 4)),
    )
    for wave in range(draw(st.integers(1, 2))):
        for index in range(draw(st.integers(1, 4))):
            entry = draw(gangs(f"old{wave}{index}", draw(st.sampled_from("bc")), 4))
            stage.submit(replace(entry, submitted_at=stage.now))
        stage.cycle()
    stage.now += draw(st.integers(0, 200))
    left = nominal["a"]
    for index in range(draw(st.integers(1, 3))):
        if left:
            entry = draw(gangs(f"late{index}", "a", left))
            # The lowest priority, and none of the settings that could help the job.
            stage.submit(replace(entry, priority=-1, submitted_at=stage.now))
            left -= size(entry)
    return stage, nominal


@given(late_comers())
@law
def test_demand_inside_the_nominal_is_served_within_the_grace_period(
    drawn: tuple[Stage, dict[str, int]],
) -> None:
    stage, nominal = drawn
    let_time_pass(stage, stage.config.preemption.grace_s)
    for tenant in TENANTS:
        own = [entry for entry in stage.snapshot.jobs.values() if entry.queue == tenant]
        if sum(map(size, own)) <= nominal[tenant]:
            assert {entry.id for entry in own} <= stage.running()


@given(late_comers())
@law
def test_no_tenant_is_pushed_below_its_nominal_by_another(drawn: tuple[Stage, dict[str, int]]) -> None:
    stage, nominal = drawn
    for _ in range(6):
        before = {name: in_hand(stage, name) for name in TENANTS}
        count = len(stage.all_decisions)
        stage.cycle()
        for decision in stage.all_decisions[count:]:
            if not decision.beneficiary or not decision.released:
                continue
            victim = stage.snapshot.jobs[decision.job].queue
            if victim != stage.snapshot.jobs[decision.beneficiary].queue:
                assert before[victim] > nominal[victim]
        for name in sorted(stage.snapshot.jobs):
            stage.end_evicted(name)
        stage.now += STEP_S
