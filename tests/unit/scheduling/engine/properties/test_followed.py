"""State that actions keep between cycles equals what a full scan would find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from foundation.core.quantities import Resource
from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    Change,
    Delta,
    JobPut,
    JobRemoved,
    NodePut,
    Snapshot,
)
from scheduling.engine.actions.consolidation.node_occupancy import NodeOccupancy, node_occupancy_of
from scheduling.engine.model import Allocation, Charge, DeviceSlice, Job, JobState
from tests.unit.scheduling.engine.actions.worlds import live
from tests.unit.scheduling.engine.builders import job, node, quotas, role, world
from tests.unit.scheduling.engine.properties.laws import law

NODES, TEAMS, JOBS, PRIORITIES = ("n0", "n1", "n2"), ("a", "b"), 4, (0, 5)
AT_FIRST = (range(3), range(3), range(2), range(1))
CHARGES = (Charge("a100", Resource.GPU_CARDS, 1),)
Step = tuple[str, int, int]


def entry(number: int, priority: int = 0) -> Job:
    """Return an elastic job, one that needs both of its tasks, or one that is broken below two tasks."""
    shape = (role(3, 1, least=1), role(4, 1, least=2), role(2, 1), role(4, 1, least=1))[number]
    return live(job(f"j{number}", TEAMS[number % 2], shape, at=number, priority=priority))


def task(owner: Job, index: int, place: int) -> Allocation:
    name = NODES[place % len(NODES)]
    part = DeviceSlice(device=f"{name}-gpu{index % 4}", cores=100, memory=0, exclusive=True)
    return Allocation(
        job=owner.id,
        queue=owner.queue,
        role="worker",
        index=index,
        flavor="a100",
        node=name,
        slices=(part,),
        charges=CHARGES,
    )


def toggled(snapshot: Snapshot, number: int, place: int) -> list[Change]:
    """Add a task of a job, or remove it if it exists."""
    owner = snapshot.jobs.get(f"j{number}")
    if owner is None:
        return []
    one = task(owner, place % owner.roles[0].replicas, place)
    return [AllocationRemoved(one.id)] if one.id in snapshot.allocations else [AllocationPut(one)]


def marked(snapshot: Snapshot, number: int, place: int) -> list[Change]:
    """Mark all tasks of a job for eviction."""
    held = snapshot.allocations_of(f"j{number}")
    return [
        change
        for one in held
        for change in (AllocationRemoved(one.id), AllocationPut(replace(one, leaving=True)))
    ]


def changed(snapshot: Snapshot, number: int, place: int) -> list[Change]:
    """Give a job another priority, make it not preemptible, or queue it."""
    one = entry(number, PRIORITIES[place % 2])
    facts = ({}, {"preemptible": False}, {"state": JobState.QUEUED}, {"state": JobState.LEAVING})[place % 4]
    return [JobPut(replace(one, **facts))]


def ended(snapshot: Snapshot, number: int, place: int) -> list[Change]:
    """Remove a job with all that it holds."""
    return [
        *(AllocationRemoved(one.id) for one in snapshot.allocations_of(f"j{number}")),
        JobRemoved(f"j{number}"),
    ]


def rebuilt(snapshot: Snapshot, number: int, place: int) -> list[Change]:
    """Add a node or change its cards, which numbers the rows anew."""
    return [NodePut(node(("m", *NODES)[number], 4 + place % 2))]


STEPS: dict[str, Callable[[Snapshot, int, int], list[Change]]] = {
    "toggled": toggled,
    "marked": marked,
    "changed": changed,
    "ended": ended,
    "rebuilt": rebuilt,
}
steps = st.lists(
    st.tuples(st.sampled_from((*STEPS, "toggled", "toggled")), st.integers(0, JOBS - 1), st.integers(0, 11)),
    max_size=20,
)


def of_occupants(known: NodeOccupancy) -> object:
    found = []
    for name in NODES:
        alone = known.sole_occupancy(name)
        parts = sorted((job.id, job.priority, [one.id for one in part.tasks]) for job, part in alone.parts)
        found.append((name, sorted(known.jobs_on(name)), parts, alone.cards, alone.cores))
    return found


@given(steps)
@law
def test_what_is_followed_equals_what_is_looked_up(taken: list[Step]) -> None:
    snapshot = world(
        [node(name) for name in NODES],
        [entry(number) for number in range(JOBS)],
        teams={team: quotas(100) for team in TEAMS},
    )
    standing = [task(entry(number), index, index) for number, tasks in enumerate(AT_FIRST) for index in tasks]
    snapshot.apply_delta(Delta(tuple(AllocationPut(one) for one in standing)))
    for kind, number, place in taken:
        snapshot.apply_delta(Delta(tuple(STEPS[kind](snapshot, number, place))))
        with snapshot.statement() as statement:
            for one in snapshot.allocations_of(f"j{place % JOBS}"):
                statement.release(one.id)
            if number % 2:
                of_occupants(node_occupancy_of(snapshot))
        fresh = NodeOccupancy(snapshot)
        fresh.follow_changes()
        assert of_occupants(node_occupancy_of(snapshot)) == of_occupants(fresh)
