"""The tables of expected waste, against figures computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from scheduling.engine.model import TaskWorkload, WorkloadShape
from scheduling.engine.placement.fragmentation.expected_waste import (
    NodeDemand,
    Table,
    demands_of,
    expected_card_waste,
    expected_node_waste,
)
from scheduling.engine.placement.fragmentation.look_ahead_weights import WEIGHTS
from scheduling.engine.placement.fragmentation.node_costs import InventoryExtent, NodeCosts


def of_nodes(demands: Sequence[NodeDemand], cores: int, cpu: int, choice: float) -> Table:
    return expected_node_waste(demands, cores, cpu, choice).look_up(np.arange(cores + 1))


def test_without_work_all_is_waste() -> None:
    assert expected_card_waste([], 4, 3.0).tolist() == [0, 1, 2, 3, 4]
    assert of_nodes([], 3, 1, 2.5).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_one_size_leaves_the_remainder() -> None:
    """Every task needs 3 of 10: the rest is 10 modulo 3, however many may be chosen from."""
    assert expected_card_waste([(3, 7)], 10, 1.0).tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]


def test_the_best_of_two_is_chosen() -> None:
    """Half want 2, half want 3, the better of two comes.

    w(2) = 3/4·0 + 1/4·2 = 1/2; w(3) = 3/4·w(0) + 1/4·w(1) = 1/4 as 3 leaves nothing and 2 leaves 1;
    w(4): 2 leaves w(2) = 1/2, 3 leaves w(1) = 1, so 3/4·1/2 + 1/4·1 = 5/8.
    """
    waste = expected_card_waste([(2, 5), (3, 5)], 4, 2.0)
    assert waste == pytest.approx([0, 1, 1 / 2, 1 / 4, 5 / 8])


def test_a_longer_queue_wastes_less() -> None:
    sizes = [(3, 2), (5, 1), (7, 3)]
    assert (expected_card_waste(sizes, 20, 8.0) <= expected_card_waste(sizes, 20, 1.0) + 1e-12).all()


def test_a_node_without_cpu_wastes_its_cards() -> None:
    """One kind: 2 steps of cores with 1 of CPU. Cores without CPU stay."""
    waste = of_nodes([NodeDemand(2, 1, 1.0)], 4, 2, 2.5)
    assert waste.tolist() == [[0, 0, 0], [1, 1, 1], [2, 0, 0], [3, 1, 1], [4, 2, 0]]


def test_a_node_is_filled_by_the_best_of_two() -> None:
    """Half want (1 step, 1 CPU), half (2 steps, 1 CPU), two to choose from, CPU for one task.

    With 2 steps the larger leaves nothing, 3/4 of the time; the smaller leaves one step, 1/4.
    """
    waste = of_nodes([NodeDemand(1, 1, 0.5), NodeDemand(2, 1, 0.5)], 2, 1, 2.0)
    assert waste[2, 1] == pytest.approx(1 / 4)
    assert waste[1, 1] == pytest.approx(1 / 4), "only the smaller fits; nobody is chosen 1 time in 4"


def test_blocks_of_rows_do_not_change_the_table() -> None:
    """The least demand sets how many rows are computed at once; a rare small one must not matter."""
    demands = [NodeDemand(4, 1, 0.6), NodeDemand(6, 2, 0.4)]
    small = [*demands, NodeDemand(1, 9, 1e-12)]
    assert of_nodes(demands, 20, 5, 2.5) == pytest.approx(of_nodes(small, 20, 5, 2.5), abs=1e-4)


def test_demands_are_steps_of_the_frequent_kinds() -> None:
    """Rounded up, merged where equal, tasks without cards and the rarest 3 % left out."""
    workload = TaskWorkload(
        (
            (WorkloadShape(900, 25, 1), 60),
            (WorkloadShape(1000, 30, 1), 37),
            (WorkloadShape(4000, 100, 8), 3),
            (WorkloadShape(100, 0, 0), 2),
        )
    )
    assert demands_of(workload, 10, 500) == [NodeDemand(3, 2, 1.0)]


def test_tables_are_whole_for_many_kinds() -> None:
    """More kinds than an index can hold: the first ones count, and shares still sum to one."""
    counts = tuple((WorkloadShape(500 * n, 10, 1), 400 - n) for n in range(1, 400))
    demands = demands_of(TaskWorkload(counts), 10, 500)
    assert len(demands) == 255
    assert sum(demand.share for demand in demands) == pytest.approx(1)
    assert np.isfinite(of_nodes(demands, 12, 30, 2.5)).all()


@pytest.mark.parametrize("cards", [8, 40])
def test_rows_of_costs_do_not_depend_on_what_was_asked_before(cards: int) -> None:
    """For nodes with many cards rows are computed when they are needed."""
    usual = TaskWorkload(((WorkloadShape(2000, 100, 1), 5), (WorkloadShape(500, 25, 1), 3)))
    extent = InventoryExtent(
        card=100, most_cards=cards, most_cpu=64000, most_cores=cards * 100, average_cpu=80.0
    )
    asked = np.array([350, 0, 125, -3, cards * 100 + 7])
    at_once, piecewise = (NodeCosts(usual, extent) for _ in range(2))
    rows = at_once.start_rows(asked)
    assert [int(piecewise.start_rows(asked[[at]])[0]) for at in (4, 2, 0, 1, 3)] == rows[
        [4, 2, 0, 1, 3]
    ].tolist()
    both = np.concatenate([rows, rows + at_once.flat.size // 2])
    entries = both[:, None] + np.arange(257)
    assert np.array_equal(at_once.flat[entries], piecewise.flat[entries])
    assert rows[1] == rows[3] == 0
    wasted, paid = at_once.flat[entries[:5]], at_once.flat[entries[5:]]
    assert (wasted >= 0).all(), wasted.min()
    assert (paid >= wasted).all()
    assert paid[4, -1] - wasted[4, -1] == pytest.approx(WEIGHTS.free_cards + WEIGHTS.free_cpu)
