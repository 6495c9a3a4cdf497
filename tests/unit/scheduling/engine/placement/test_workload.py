"""The workload mix, and that a cycle which learnt it chooses as a packing run does."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduling.engine import (
    Delta,
    JobPut,
    JobRemoved,
    PlacementStream,
    Snapshot,
    TaskWorkload,
    WorkloadPut,
    WorkloadShape,
    recount_workload,
)
from scheduling.engine.model import Device, GpuMode, GpuRequest, Job, Request, Role
from scheduling.simulation.published import published_config
from tests.unit.scheduling.engine.builders import cycle, flavor, job, node, role, started, workload_of, world

CONFIG = published_config()
SMALL, LARGE, BARE = WorkloadShape(1_000, 50, 1), WorkloadShape(2_000, 100, 2), WorkloadShape(4_000, 0, 0)


def test_typical_shapes_cover_most_tasks_and_sum_to_one() -> None:
    found = TaskWorkload.count_tasks([SMALL] * 60 + [LARGE] * 36 + [BARE] * 4).list_typical()
    assert [shape for shape, _ in found] == [SMALL, LARGE]
    assert sum(weight for _, weight in found) == pytest.approx(1)
    assert found[0][1] == pytest.approx(60 / 96)


def test_equal_counts_are_in_descending_order() -> None:
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


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ([SMALL], [SMALL] * 7, 0),
        ([SMALL] * 3 + [LARGE], [SMALL, LARGE], 0.25),
        ([SMALL], [LARGE], 1),
        ([SMALL], [], 1),
        ([], [], 0),
    ],
)
def test_the_distance_is_the_share_of_tasks_that_differ(
    one: list[WorkloadShape], other: list[WorkloadShape], distance: float
) -> None:
    first, second = TaskWorkload.count_tasks(one), TaskWorkload.count_tasks(other)
    assert first.measure_distance(second) == second.measure_distance(first) == pytest.approx(distance)


def test_shares_do_not_depend_on_the_number_of_tasks() -> None:
    one = TaskWorkload.count_tasks([SMALL] * 3 + [LARGE])
    many = TaskWorkload.from_counts(Counter({SMALL: 9_000, LARGE: 3_000, BARE: 1}))
    assert one.to_shares() == many.to_shares() == TaskWorkload(((SMALL, 768), (LARGE, 256)))


def jobs_of(small: int, large: int) -> list[Job]:
    asked = [role(1, 1, cores=50)] * small + [role(1, 2)] * large
    return [job(f"j{number:03}", "a", each, at=number) for number, each in enumerate(asked)]


def test_a_mix_is_counted_again_when_an_eighth_of_the_tasks_differs() -> None:
    snapshot = world([node("n1", 8)], jobs_of(60, 40), flavors=[flavor(policy="default")])
    first = recount_workload(snapshot, CONFIG)
    assert first is not None
    assert snapshot.workload == first
    assert recount_workload(snapshot, CONFIG) is None
    snapshot.apply_delta(Delta(tuple(JobRemoved(f"j{number:03}") for number in range(20))))
    assert recount_workload(snapshot, CONFIG) is None, "40 of 80 instead of 60 of 100 is a tenth"
    snapshot.apply_delta(Delta(tuple(JobRemoved(f"j{number:03}") for number in range(20, 28))))
    second = recount_workload(snapshot, CONFIG)
    assert second is not None
    assert snapshot.workload == second != first
    assert Snapshot.from_json(snapshot.to_json()).workload == second


def test_a_mix_without_tasks_is_not_stored() -> None:
    snapshot = world([node("n1", 8)], jobs_of(1, 1), flavors=[flavor(policy="default")])
    stored = recount_workload(snapshot, CONFIG)
    snapshot.apply_delta(Delta(tuple(JobRemoved(name) for name in list(snapshot.jobs))))
    assert recount_workload(snapshot, CONFIG) is None
    assert snapshot.workload == stored


def test_nothing_is_counted_for_policies_that_learn_nothing() -> None:
    snapshot = world([node("n1", 8)], jobs_of(3, 1), flavors=[flavor(policy="bestfit")])
    assert recount_workload(snapshot, CONFIG) is None
    assert snapshot.workload == TaskWorkload()


def test_a_cycle_learns_from_the_stored_mix() -> None:
    """A part of 30 goes where the parts of the stored mix still fit: on the card with 60 free if they are of
    30, on that with 100 free if they are of 60."""
    cards = [
        Device(
            uuid=name, index=index, model="A100", mode=GpuMode.SLICE, memory=40_960,
            used_cores=used, holders=int(used > 0),
        )
        for index, (name, used) in enumerate([("used", 40), ("unused", 0)])
    ]  # fmt: skip
    nodes = [node("n1", devices=tuple(cards))]
    asked = job("j", "a", role(1, 1, cores=30))
    chosen = []
    for part in (30, 60):
        mix = TaskWorkload(((WorkloadShape(0, part, 1), 1_024),))
        snapshot = world(nodes, [asked], flavors=[flavor(policy="default")])
        snapshot.apply_delta(Delta((WorkloadPut(mix), JobPut(asked))))
        (decision,) = cycle(snapshot, CONFIG).decisions
        chosen.append(decision.allocations[0].slices[0].device)
    assert chosen == ["used", "unused"]
