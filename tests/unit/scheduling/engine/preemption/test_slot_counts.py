"""Counted slots equal the number of tasks that can be placed one after the other."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import EngineConfig, Snapshot, resolve_config
from scheduling.engine.model import Allocation, Job, Role
from scheduling.engine.placement.placer import Placer, placer_for
from scheduling.engine.preemption.trials.slot_counts import FreeSlotCounter, ShapeSlots, is_countable
from scheduling.engine.state.task_shape import TaskShape, resolve_shape
from tests.unit.scheduling.engine.builders import commit, cycle, job, node, role, world

SHAPES = st.builds(
    lambda cards, cores, cpu: role(1, cards, cpu=cpu) if cores == 100 else role(1, 1, cores=cores, cpu=cpu),
    st.integers(1, 3),
    st.sampled_from((20, 50, 60, 100)),
    st.sampled_from((0, 8_000, 30_000)),
)


def count_placed(snapshot: Snapshot, placer: Placer, task: TaskShape, asked: Role, most: int) -> int:
    """Return how many tasks can be placed one after the other."""
    flavor = snapshot.flavors["a100"]
    with snapshot.statement() as statement:
        for index in range(most):
            seat = placer.find_placement(task, flavor)
            if seat is None:
                return index
            statement.allocate(
                Allocation(
                    job="x", queue="a", role=asked.name, index=index, flavor="a100", node=seat.node,
                    cpu=task.cpu, memory=task.memory, slices=seat.slices,
                )
            )  # fmt: skip
    return most


@given(st.lists(SHAPES, max_size=10), SHAPES, st.sets(st.integers(0, 9)))
@settings(max_examples=40, deadline=None)
def test_counting_is_seating(running: list[Role], asked: Role, leaving: set[int]) -> None:
    jobs: list[Job] = [job(f"r{index}", "a", own) for index, own in enumerate(running)]
    snapshot = world([node("n1"), node("n2", 3), node("n3", 1)], jobs)
    commit(snapshot, cycle(snapshot))
    flavor = snapshot.flavors["a100"]
    task = resolve_shape(asked.request, jobs[0].rules if jobs else job("x").rules, flavor)
    placer = placer_for(snapshot.fleet, resolve_config(EngineConfig()).rule)
    board = placer.get_board(task, flavor)
    assert is_countable(board)
    seats = FreeSlotCounter(ShapeSlots(board), 50)
    gone = [task for index in sorted(leaving) for task in snapshot.allocations_of(f"r{index}")]
    before = seats.total
    seats.remove_tasks(gone)
    counted = seats.total
    with snapshot.statement() as statement:
        for held in gone:
            statement.release(held.id)
        assert counted == count_placed(snapshot, placer, task, asked, 50)
    seats.remove_tasks(gone, -1)
    assert seats.total == before
