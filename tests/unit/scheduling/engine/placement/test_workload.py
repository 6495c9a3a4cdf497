"""What work is usual, and that a cycle which learnt it chooses as a packing run does."""

from __future__ import annotations

import pytest

from scheduling.engine import PlacementStream, TaskWorkload, WorkloadShape
from scheduling.engine.model import GpuMode, GpuRequest, Job, Request, Role
from scheduling.simulation.published import published_config
from tests.unit.scheduling.engine.builders import cycle, flavor, job, node, role, started, workload_of, world

SMALL, LARGE, BARE = WorkloadShape(1_000, 50, 1), WorkloadShape(2_000, 100, 2), WorkloadShape(4_000, 0, 0)


def test_typical_shapes_cover_most_tasks_and_sum_to_one() -> None:
    found = TaskWorkload.count_tasks([SMALL] * 60 + [LARGE] * 36 + [BARE] * 4).list_typical()
    assert [shape for shape, _ in found] == [SMALL, LARGE]
    assert sum(weight for _, weight in found) == pytest.approx(1)
    assert found[0][1] == pytest.approx(60 / 96)


def test_equal_counts_stand_in_descending_order() -> None:
    assert [shape for shape, _ in TaskWorkload.count_tasks([SMALL, BARE, LARGE]).counts] == [
        BARE,
        LARGE,
        SMALL,
    ]


def test_nothing_is_usual_where_there_is_no_work() -> None:
    assert TaskWorkload.count_tasks([]).list_typical() == []


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (role(3, 0, cpu=500), [(WorkloadShape(500, 0, 0), 3)]),
        (role(2, 2, cpu=500), [(WorkloadShape(500, 100, 2), 2)]),
        (role(1, 1, cores=30, models=("B", "A")), [(WorkloadShape(0, 30, 1, "A|B"), 1)]),
        (role(1, 1, cores=200), [(WorkloadShape(0, 100, 1), 1)]),
    ],
)
def test_jobs_count_by_tasks(asked: Role, expected: list[tuple[WorkloadShape, int]]) -> None:
    assert list(workload_of([job("j", "a", asked)]).counts) == expected


def test_instances_of_divided_cards_are_left_out() -> None:
    gpu = GpuRequest(cards=1, mode=GpuMode.MIG, profile="1g.5gb")
    assert (
        workload_of([job("j", "a", Role(name="w", replicas=1, request=Request(gpu=gpu)))]) == TaskWorkload()
    )


@pytest.mark.parametrize("policy", ["fgd", "clustering", "bestfit"])
def test_a_cycle_places_as_a_stream_that_learnt_from_its_jobs(policy: str) -> None:
    sizes = [30, 60, 100, 20, 50, 70, 100, 40, 10, 80, 30, 60]
    jobs: list[Job] = [
        job(f"j{number:02}", "a", role(1, 1, cores=size, card_memory=0, cpu=1_000 * size % 7_000), at=number)
        for number, size in enumerate(sizes)
    ]
    nodes = [node("n1", 2), node("n2", 4), node("n3", 4, used_cpu=50_000)]
    pool = flavor(policy=policy)
    result = cycle(world(nodes, jobs, flavors=[pool]), published_config())
    assert len(started(result)) == len(jobs)
    stream = PlacementStream(nodes, pool, published_config(), workload_of(jobs))
    for decision, asked in zip(result.decisions, jobs, strict=True):
        seat = stream.place_task(asked.roles[0].request)
        assert seat is not None
        assert [(a.node, a.slices) for a in decision.allocations] == [(seat.node, seat.slices)]
