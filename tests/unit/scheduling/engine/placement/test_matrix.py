"""The score matrix gives the same places as boards do, whatever happened to the fleet before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduling.engine import TaskWorkload, WorkloadShape, resolve_config
from scheduling.engine.model import Flavor, GpuMode, GpuRequest, Node, PlacementRules, Request
from scheduling.engine.placement.matrix import can_use_matrix
from scheduling.engine.placement.placer import Placer
from scheduling.engine.state import fleet as fleet_module
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import TaskShape, resolve_shape
from scheduling.simulation.published import published_config
from tests.unit.scheduling.engine.builders import flavor, node, role

POLICIES = ("compact", "spread", "bestfit", "dotprod", "packing", "clustering", "fgd", "foresight")
WORKLOAD = TaskWorkload.count_tasks(
    [
        *[WorkloadShape(4_000, 50, 1)] * 5,
        *[WorkloadShape(8_000, 100, 1)] * 4,
        *[WorkloadShape(16_000, 100, 2, "A100")] * 2,
        *[WorkloadShape(20_000, 100, 4, "L40|A100")] * 2,
        *[WorkloadShape(32_000, 0, 0)] * 3,
        WorkloadShape(2_000, 30, 1, "L40"),
    ]
)
ASKED = (
    role(cpu=9_000),
    role(1, 2, cpu=1_000),
    role(1, 4, models=("A100",)),
    role(1, 1, cores=30, cpu=4_000),
    role(1, 1, cores=70, card_memory=0),
    role(1, 1, cores=20, models=("L40",)),
    role(1, 2, cores=40, card_memory=0),
    role(1, 0, cpu=30_000),
    role(1, 0, memory=300_000),
)


def nodes(pods: int | None = None) -> list[Node]:
    return [
        *(node(f"a{index}", 4, pods=pods) for index in range(3)),
        node("a3", 8, used_cpu=20_000),
        node("l1", 2, model="L40"),
        node("l2", 4, model="L40", labels={"zone": "b"}),
        node("sick", 4, device={"healthy": False}),
        node("cordoned", 4, schedulable=False),
        node("bare", 0),
    ]


def shapes(pool: Flavor, *, zone: bool = False, sized: bool = True) -> list[TaskShape]:
    """Return shapes; cards of a node are counted, not inspected, while no shape asks for memory on them."""
    rules = [PlacementRules()] + ([PlacementRules(node_selector={"zone": "b"})] if zone else [])
    resolved = [resolve_shape(asked.request, rule, pool) for rule in rules for asked in ASKED]
    return [shape for shape in resolved if sized or shape.whole or not shape.card_memory]


RULE = resolve_config(
    replace(published_config(), policies=tuple((name, ((name, 1),)) for name in POLICIES))
).rule


def placer(fleet: Fleet) -> Placer:
    return Placer(fleet, RULE, WORKLOAD)


def fresh(fleet: Fleet, taught: Placer) -> Placer:
    """Return new boards, with the learnt state of the other placer."""
    found = Placer(fleet, RULE)
    found.adopt_scores(taught)
    return found


moves = st.lists(
    st.tuples(st.integers(0, 17), st.booleans(), st.integers(0, 8), st.integers(0, 3), st.integers(1, 30)),
    max_size=25,
)


# Fills the node with the largest group of cards, so that a later learner finds other risks.
LARGEST_GROUP_GONE = [
    *[(0, False, 0, 0, 1)] * 5,
    (0, False, 0, 0, 26),
    (1, True, 0, 0, 1),
    *[(shape, False, 0, 0, 1) for shape in (2, 2, 1, 2)],
    (0, True, 8, 0, 1),
]


@given(
    moves,
    st.sampled_from(POLICIES),
    st.integers(2, 40),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0, 2]),
)
@example([(shape, False, 0, 0, 1) for shape in (6, 0, 0, 0, 6)], "fgd", 2, False, True, None)
@example(LARGEST_GROUP_GONE, "foresight", 2, False, True, None)
@settings(max_examples=40, deadline=None)
def test_a_matrix_places_as_boards_do(
    steps: list[tuple[int, bool, int, int, int]],
    policy: str,
    kept: int,
    known: bool,
    sized: bool,
    pods: int | None,
) -> None:
    fleet = Fleet(nodes(pods))
    pool = flavor(policy=policy)
    listed = shapes(pool, zone=True, sized=sized)
    warm = placer(fleet)
    matrix = warm.find_matrix(policy)
    assert matrix is not None
    if known:
        matrix.add_shapes((shape, pool) for shape in listed)
    limit, fleet_module.MAX_LOGGED_CHANGES = fleet_module.MAX_LOGGED_CHANGES, kept
    try:
        for number, disturbed, row, column, amount in steps:
            shape = listed[number % len(listed)]
            if disturbed and column < len(fleet.nodes[row].devices):
                fleet.change_usage(row, amount * 100, amount * 50, ((column, amount, 0, False),))
            # Others may have changed the fleet by now.
            matrix.follow_fleet()
            seat = fresh(fleet, warm).find_placement(shape, pool)
            index = matrix.ensure_shape(shape, pool)
            best = matrix.find_best_node(index)
            assert best == (None if seat is None else seat.row)
            if seat is None or best is None:
                continue
            if number % 2:
                assert matrix.place_task(index, best) == seat.columns
            else:
                # The fleet is updated at once, as in a cycle.
                assert matrix.choose_cards(index, best)[0] == seat.columns
                cards = fleet.find_card_usages(best, seat.slices)
                fleet.change_usage(best, shape.cpu, shape.memory, cards)
                matrix.follow_placement(index)
        matrix.follow_fleet()
        for index, shape in enumerate(listed[: len(matrix)] if known else []):
            board = fresh(fleet, warm).get_board(shape, pool)
            fits = matrix.scores_of(index) != matrix.infeasible
            assert (fits == board.feasible_rows()).all()
    finally:
        fleet_module.MAX_LOGGED_CHANGES = limit


@pytest.mark.parametrize("sized", [False, True], ids=["cores", "cores and memory"])
@pytest.mark.parametrize("policy", POLICIES)
def test_rows_and_columns_of_scores_are_the_same(policy: str, sized: bool) -> None:
    fleet, pool = Fleet(nodes()), flavor(policy=policy)
    fleet.change_usage(1, 30_000, 0, ((0, 60, 0, False), (1, 25, 0, False)))
    fleet.change_usage(5, 1_000, 0, ((2, 100, 0, True),))
    # The remaining core units don't show whether a task uses the card, or holds it exclusively.
    fleet.change_usage(0, 0, 0, ((1, 0, 400, False),))
    fleet.change_usage(2, 0, 0, ((0, 20, 0, True),))
    listed = shapes(pool, sized=sized)
    together, apart = placer(fleet).find_matrix(policy), placer(fleet).find_matrix(policy)
    assert together is not None
    assert apart is not None
    together.add_shapes((shape, pool) for shape in listed)
    for shape in listed:
        # One by one a row is scored over all nodes; together each node is scored for all shapes.
        row, column = (
            apart.scores_of(apart.ensure_shape(shape, pool)),
            together.scores_of(together.ensure_shape(shape, pool)),
        )
        assert np.array_equal(row, column), shape


@pytest.mark.parametrize(
    ("facts", "served"),
    [
        ({}, True),
        ({"cards": 1, "cores": 30}, True),
        ({"node_name": "n1"}, True),
        ({"mode": GpuMode.MIG}, False),
    ],
)
def test_unusual_preferences_are_scored_by_boards(facts: dict[str, Any], served: bool) -> None:
    assert can_use_matrix(TaskShape("a100", "fgd", **facts), Fleet([node("n1")])) is served


def test_a_request_of_nothing_is_not_refused_for_overuse() -> None:
    fleet, pool = Fleet([node("n1", used_cpu=70_000, used_memory=600_000)]), flavor(policy="bestfit")
    matrix = placer(fleet).find_matrix("bestfit")
    assert matrix is not None
    idle = resolve_shape(Request(gpu=GpuRequest(cards=1)), PlacementRules(), pool)
    busy = resolve_shape(Request(cpu=1, gpu=GpuRequest(cards=1)), PlacementRules(), pool)
    matrix.add_shapes([(idle, pool), (busy, pool)])
    assert (matrix.find_best_node(0), matrix.find_best_node(1)) == (0, None)


def test_two_scores_have_no_matrix() -> None:
    config = replace(published_config(), policies=(("mixed", (("bestfit", 1), ("fgd", 1))),))
    assert Placer(Fleet(nodes()), resolve_config(config).rule).find_matrix("mixed") is None
