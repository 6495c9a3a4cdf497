"""The tables of expected waste, against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scheduling.engine.placement.leftover import Demand, card_leftover, demands_of, node_leftover
from scheduling.engine.placement.workload import Workload, WorkloadShape


def test_without_work_all_is_waste() -> None:
    assert card_leftover([], 4, 3.0).tolist() == [0, 1, 2, 3, 4]
    assert node_leftover([], 3, 1, 2.5).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_one_size_leaves_the_remainder() -> None:
    """Everybody wants 3 of 10: what stays is 10 modulo 3, however many may be chosen from."""
    assert card_leftover([(3, 7)], 10, 1.0).tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]


def test_the_best_of_two_is_chosen() -> None:
    """Half want 2, half want 3, the better of two comes.

    w(2) = 3/4·0 + 1/4·2 = 1/2; w(3) = 3/4·w(0) + 1/4·w(1) = 1/4 as 3 leaves nothing and 2 leaves 1;
    w(4): 2 leaves w(2) = 1/2, 3 leaves w(1) = 1, so 3/4·1/2 + 1/4·1 = 5/8.
    """
    waste = card_leftover([(2, 5), (3, 5)], 4, 2.0)
    assert waste == pytest.approx([0, 1, 1 / 2, 1 / 4, 5 / 8])


def test_a_longer_queue_wastes_less() -> None:
    sizes = [(3, 2), (5, 1), (7, 3)]
    assert (card_leftover(sizes, 20, 8.0) <= card_leftover(sizes, 20, 1.0) + 1e-12).all()


def test_a_node_without_cpu_wastes_its_cards() -> None:
    """One kind: 2 steps of cores with 1 of CPU. Cores without CPU stay."""
    waste = node_leftover([Demand(2, 1, 1.0)], 4, 2, 2.5)
    assert waste.tolist() == [[0, 0, 0], [1, 1, 1], [2, 0, 0], [3, 1, 1], [4, 2, 0]]


def test_a_node_is_filled_by_the_best_of_two() -> None:
    """Half want (1 step, 1 CPU), half (2 steps, 1 CPU), two to choose from, CPU for one task.

    With 2 steps the larger leaves nothing, 3/4 of the time; the smaller leaves one step, 1/4.
    """
    waste = node_leftover([Demand(1, 1, 0.5), Demand(2, 1, 0.5)], 2, 1, 2.0)
    assert waste[2, 1] == pytest.approx(1 / 4)
    assert waste[1, 1] == pytest.approx(1 / 4), "only the smaller fits; nobody is chosen 1 time in 4"


def test_blocks_of_rows_do_not_change_the_table() -> None:
    """The least demand sets how many rows are worked out at once; a rare small one must not matter."""
    demands = [Demand(4, 1, 0.6), Demand(6, 2, 0.4)]
    small = [*demands, Demand(1, 9, 1e-12)]
    assert node_leftover(demands, 20, 5, 2.5) == pytest.approx(node_leftover(small, 20, 5, 2.5), abs=1e-4)


def test_demands_are_steps_of_the_frequent_kinds() -> None:
    """Rounded up, merged where equal, tasks without cards and the rarest 3 % left out."""
    workload = Workload(
        (
            (WorkloadShape(900, 25, 1), 60),
            (WorkloadShape(1000, 30, 1), 37),
            (WorkloadShape(4000, 100, 8), 3),
            (WorkloadShape(100, 0, 0), 2),
        )
    )
    assert demands_of(workload, 10, 500) == [Demand(3, 2, 1.0)]


def test_tables_are_whole_for_many_kinds() -> None:
    """More kinds than an index can tell apart: the first count, and shares still sum to one."""
    counts = tuple((WorkloadShape(500 * n, 10, 1), 400 - n) for n in range(1, 400))
    demands = demands_of(Workload(counts), 10, 500)
    assert len(demands) == 255
    assert sum(demand.share for demand in demands) == pytest.approx(1)
    assert np.isfinite(node_leftover(demands, 12, 30, 2.5)).all()
