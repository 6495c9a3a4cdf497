"""The better of two flavors, and the end of the search."""

from __future__ import annotations

from itertools import product

import pytest

from scheduling.engine.model import Fungibility, Preference, WhenCan
from scheduling.engine.quota.assignment import AssignmentMode
from scheduling.engine.quota.fungibility import FlavorRank, is_preferred, tries_next_flavor

BORROW, PREEMPT = Preference.BORROWING_OVER_PREEMPTION, Preference.PREEMPTION_OVER_BORROWING
NEXT, STOP = WhenCan.TRY_NEXT_FLAVOR, WhenCan.MAY_STOP_SEARCH


@pytest.mark.parametrize(
    ("better", "worse", "preference"),
    [
        (FlavorRank(AssignmentMode.FIT, 2), FlavorRank(AssignmentMode.PREEMPT, 0), BORROW),
        (FlavorRank(AssignmentMode.PREEMPT, 0), FlavorRank(AssignmentMode.FIT, 2), PREEMPT),
        (FlavorRank(AssignmentMode.FIT, 0), FlavorRank(AssignmentMode.FIT, 1), BORROW),
        (FlavorRank(AssignmentMode.FIT, 0), FlavorRank(AssignmentMode.FIT, 1), PREEMPT),
        (FlavorRank(AssignmentMode.FIT, 1), FlavorRank(AssignmentMode.RECLAIM, 1), BORROW),
        (FlavorRank(AssignmentMode.FIT, 1), FlavorRank(AssignmentMode.RECLAIM, 1), PREEMPT),
        (FlavorRank(AssignmentMode.RECLAIM, 1), FlavorRank(AssignmentMode.PREEMPT, 0), BORROW),
        (FlavorRank(AssignmentMode.PREEMPT, 0), FlavorRank(AssignmentMode.RECLAIM, 1), PREEMPT),
        (FlavorRank(AssignmentMode.FIT, 3), FlavorRank(AssignmentMode.NO_CANDIDATES, 0), BORROW),
        (FlavorRank(AssignmentMode.FIT, 3), FlavorRank(AssignmentMode.NO_CANDIDATES, 0), PREEMPT),
        (FlavorRank(AssignmentMode.PREEMPT, 3), FlavorRank(AssignmentMode.NO_CANDIDATES, 0), PREEMPT),
        (FlavorRank(AssignmentMode.NO_CANDIDATES, 0), FlavorRank(AssignmentMode.NO_CANDIDATES, 1), PREEMPT),
        (FlavorRank(AssignmentMode.NO_CANDIDATES, 3), FlavorRank(AssignmentMode.NO_FIT, 0), BORROW),
        (FlavorRank(AssignmentMode.NO_CANDIDATES, 3), FlavorRank(AssignmentMode.NO_FIT, 0), PREEMPT),
    ],
)
def test_one_flavor_is_better_and_never_the_other_way_round(
    better: FlavorRank, worse: FlavorRank, preference: Preference
) -> None:
    assert is_preferred(better, worse, preference)
    assert not is_preferred(worse, better, preference)


@pytest.mark.parametrize("preference", list(Preference))
def test_the_preference_is_a_strict_order_with_what_does_not_fit_last(preference: Preference) -> None:
    ranks = [FlavorRank(mode, level) for mode, level in product(AssignmentMode, range(3))]
    for one, other, third in product(ranks, repeat=3):
        if is_preferred(one, other, preference):
            assert one.mode is not AssignmentMode.NO_FIT
            assert not is_preferred(other, one, preference)
            if is_preferred(other, third, preference):
                assert is_preferred(one, third, preference)
    assert not any(is_preferred(rank, rank, preference) for rank in ranks)


@pytest.mark.parametrize(
    ("rank", "borrow", "preempt", "expected"),
    [
        (FlavorRank(AssignmentMode.NO_FIT, 0), STOP, STOP, True),
        (FlavorRank(AssignmentMode.NO_CANDIDATES, 0), STOP, STOP, True),
        (FlavorRank(AssignmentMode.PREEMPT, 0), STOP, STOP, False),
        (FlavorRank(AssignmentMode.PREEMPT, 0), STOP, NEXT, True),
        (FlavorRank(AssignmentMode.RECLAIM, 0), STOP, NEXT, True),
        (FlavorRank(AssignmentMode.RECLAIM, 0), NEXT, STOP, False),
        (FlavorRank(AssignmentMode.PREEMPT, 1), NEXT, STOP, True),
        (FlavorRank(AssignmentMode.FIT, 0), NEXT, NEXT, False),
        (FlavorRank(AssignmentMode.FIT, 1), NEXT, NEXT, True),
        (FlavorRank(AssignmentMode.FIT, 1), STOP, NEXT, False),
    ],
)
def test_when_the_next_flavor_is_looked_at(
    rank: FlavorRank, borrow: WhenCan, preempt: WhenCan, expected: bool
) -> None:
    assert tries_next_flavor(rank, Fungibility(when_can_borrow=borrow, when_can_preempt=preempt)) is expected
