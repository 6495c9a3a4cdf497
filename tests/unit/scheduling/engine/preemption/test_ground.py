"""What it takes to free an amount in each group of tasks, against trying all sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine.preemption.ground import Groups

Task = tuple[int, int, int, bool]
"""Group, amount, how hard it is to take, and whether it may be asked."""

GROUPS = 4
tasks = st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(1, 4), st.integers(1, 9), st.booleans()))


@given(tasks, st.lists(st.integers(1, 8), min_size=GROUPS, max_size=GROUPS))
@settings(max_examples=200, deadline=None)
def test_amounts_are_had_as_easily_as_the_easiest_first_allow(drawn: list[Task], wanted: list[int]) -> None:
    group, given_, hard, asked = (np.array([task[n] for task in drawn], np.int64) for n in range(4))
    groups = Groups(np.arange(len(drawn)), group, hard.astype(np.float64), given_)
    order, mask = groups.order, asked.astype(np.bool_)
    sums = groups.sums(given_[order] * mask[order], GROUPS)
    found = groups.easiest(mask[order], given_[order], np.array(wanted))
    for number in range(GROUPS):
        here = [task for task in drawn if task[0] == number and task[3]]
        assert sums[number] == sum(task[1] for task in here)
        if sums[number] < wanted[number]:
            assert np.isinf(found[number])
            continue
        least = min(
            sum(task[2] for task in some)
            for size in range(1, len(here) + 1)
            for some in combinations(here, size)
            if sum(task[1] for task in some) >= wanted[number]
        )
        # The easiest for what they give come first: at most one task more than the best set needs.
        assert least <= found[number] <= least + max(task[2] for task in here)
