"""A job inside its queue's own quota is decided before all borrowers, whatever becomes free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    Delta,
    EngineConfig,
    FairSharing,
    JobPut,
    Snapshot,
)
from scheduling.engine.model import (
    GpuMode,
    Instant,
    Job,
    JobState,
    PreemptionPolicy,
    PreemptOthers,
    QuotaNode,
    Reason,
)
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.actions.worlds import live, place_tasks
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role

RECLAIM = PreemptionPolicy(reclaim=PreemptOthers.ANY)
HIGH = 1


def gang(name: str, cards: int, **facts: Any) -> Job:
    """Return a gang of that many cards, on a node each, in the queue that its name begins with."""
    return job(name, name[0], role(cards), **facts)


def mark_for_eviction(snapshot: Snapshot, entry: Job) -> None:
    """Mark a running job for eviction."""
    held = snapshot.allocations_of(entry.id)
    gone, still = (
        map(AllocationRemoved, (task.id for task in held)),
        (replace(task, leaving=True) for task in held),
    )
    snapshot.apply_delta(Delta((JobPut(entry), *gone, *map(AllocationPut, still))))


@dataclass(frozen=True)
class Scene:
    """Owned quota, running and pending jobs; then the jobs with a claim or an admission in one cycle.

    `parents` puts queues into departments. There are as many cards as are owned, one to a node.
    """

    owned: Mapping[str, int]
    running: tuple[Job, ...]
    waiting: tuple[Job, ...]
    served: set[str]
    parents: Mapping[str, str] = field(default_factory=dict)
    fair: bool = False

    def stage(self) -> Stage:
        """Return the stage before the cycle."""
        whole, tops = {"mode": GpuMode.WHOLE}, sorted(set(self.parents.values()))
        snapshot = Snapshot(
            nodes=[node(f"n{index}", 1, device=whole) for index in range(sum(self.owned.values()))],
            flavors=[flavor(mode=GpuMode.WHOLE)],
            quota_nodes=[
                QuotaNode(id="root"),
                *(QuotaNode(id=name, parent="root") for name in tops),
                *(
                    QuotaNode(id=name, parent=self.parents.get(name, "root"), quotas=quotas(cards))
                    for name, cards in self.owned.items()
                ),
            ],
            queues=[queue(name, preemption=RECLAIM) for name in self.owned],
            jobs=[*map(live, self.running), *self.waiting],
        )
        for entry in self.running:
            place_tasks(snapshot, snapshot.jobs[entry.id], [])
            if entry.state is JobState.LEAVING:
                mark_for_eviction(snapshot, entry)
        return Stage(
            snapshot, EngineConfig(actions=("admit",), fair_sharing=FairSharing() if self.fair else None)
        )


SCENES = {
    "a second job of the owner goes before a borrower of a higher rank": Scene(
        owned={"a": 4, "b": 1, "c": 1},
        running=(gang("b-old", 2), gang("c-old", 4)),
        waiting=(
            gang("b-capped", 2, priority=HIGH, evictions=3),
            gang("b-more", 3, priority=HIGH, at=1),
            gang("a0", 1),
            gang("a1", 2),
            gang("a2", 1),
        ),
        served={"a0", "a1", "a2"},
    ),
    "the borrower gets what no owner asks for": Scene(
        owned={"a": 4, "b": 1, "c": 1},
        running=(gang("b-old", 2), gang("c-old", 4)),
        waiting=(
            gang("b-capped", 2, priority=HIGH, evictions=3),
            gang("b-more", 3, priority=HIGH, at=1),
            gang("a0", 1),
            gang("a1", 2),
        ),
        served={"a0", "a1", "b-more"},
    ),
    "it does not wait for owners who can have nothing of it": Scene(
        owned={"a": 4, "b": 1},
        running=(gang("b-old", 5),),
        waiting=(
            gang("a0", 1),
            gang("a1", 1, state=JobState.SUSPENDED),
            job("a2", "a", role(1, 2)),
            gang("b-more", 3, priority=HIGH),
        ),
        served={"a0", "b-more"},
    ),
    "what a queue owns once its own have left it owns now": Scene(
        owned={"a": 2, "b": 2, "c": 1},
        running=(gang("b-old", 3), gang("c-old", 1)),
        waiting=(gang("a0", 2), gang("c-more", 2, priority=HIGH), gang("b-less", 2)),
        served={"a0", "b-less"},
    ),
    "in fair order a department that gives back borrows no more": Scene(
        owned={"a": 3, "b": 1, "c": 1},
        parents={"a": "left", "b": "left"},
        running=(gang("b-old", 4), gang("c-old", 1)),
        waiting=(gang("c-more", 2, priority=HIGH), gang("a0", 1), gang("a1", 1), gang("a2", 1)),
        served={"a0", "a1", "a2"},
        fair=True,
    ),
    "in fair order an owner goes first though his department borrows more": Scene(
        owned={"a": 2, "b": 1, "c": 1, "d": 2},
        parents={"a": "left", "b": "left"},
        running=(gang("b-old", 4), gang("c-old", 1), gang("d-old", 1, state=JobState.LEAVING)),
        waiting=(gang("c-more", 1, priority=HIGH), gang("a0", 1)),
        served={"a0"},
        fair=True,
    ),
    "in fair order an owner gets its own from long-running jobs though its department borrows": Scene(
        owned={"a": 3, "b": 4, "c": 1},
        parents={"a": "left", "b": "left"},
        running=(*(gang(f"b{index}", 1) for index in range(5)), gang("c0", 1), gang("c1", 2)),
        waiting=(gang("a0", 3),),
        served={"a0"},
        fair=True,
    ),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_who_is_served(scene: Scene) -> None:
    stage = scene.stage()
    before = stage.running()
    stage.cycle()
    assert set(stage.snapshot.claims) | (stage.running() - before) == scene.served


@pytest.mark.parametrize("fair", [False, True])
def test_who_starts_while_others_are_protected_does_not_make_the_owner_wait_longer(fair: bool) -> None:
    scene = Scene(
        owned={"a": 4, "b": 1, "c": 1},
        running=(
            gang("b-own", 1, preemptible=False),
            gang("b-more", 2),
            gang("c-own", 1, preemptible=False),
            gang("c-young", 2, min_run_s=600),
        ),
        waiting=(
            gang("a0", 1, at=1_000),
            gang("a1", 3, at=1_000),
            gang("c-next", 1, priority=HIGH, min_run_s=600),
        ),
        served={"a0", "c-next"},
        fair=fair,
    )
    stage = scene.stage()
    stage.put(JobPut(replace(stage.snapshot.jobs["c-young"], running_since=Instant(990))))
    stage.cycle()
    assert set(stage.snapshot.claims) == scene.served
    assert stage.outcome("a1").reason is Reason.PROTECTED
    stage.end_evicted("b-more")
    stage.now = 1_040
    stage.cycle()
    assert "c-next" in stage.running()
    stage.now = 1_060
    stage.cycle()
    assert "a1" in stage.snapshot.claims
    assert {"c-young", "c-next"} <= stage.evicted().keys()
