"""Which flavor is better, and when the search ends."""

from __future__ import annotations

from itertools import product

import pytest

from scheduling.engine.model import Fungibility, Preference, WhenCan
from scheduling.engine.quota.assignment import Mode
from scheduling.engine.quota.fungibility import Rank, goes_on, is_preferred

BORROW, PREEMPT = Preference.BORROWING_OVER_PREEMPTION, Preference.PREEMPTION_OVER_BORROWING
NEXT, STOP = WhenCan.TRY_NEXT_FLAVOR, WhenCan.MAY_STOP_SEARCH


@pytest.mark.parametrize(
    ("better", "worse", "preference"),
    [
        (Rank(Mode.FIT, 2), Rank(Mode.PREEMPT, 0), BORROW),
        (Rank(Mode.PREEMPT, 0), Rank(Mode.FIT, 2), PREEMPT),
        (Rank(Mode.FIT, 0), Rank(Mode.FIT, 1), BORROW),
        (Rank(Mode.FIT, 0), Rank(Mode.FIT, 1), PREEMPT),
        (Rank(Mode.FIT, 1), Rank(Mode.RECLAIM, 1), BORROW),
        (Rank(Mode.FIT, 1), Rank(Mode.RECLAIM, 1), PREEMPT),
        (Rank(Mode.RECLAIM, 1), Rank(Mode.PREEMPT, 0), BORROW),
        (Rank(Mode.PREEMPT, 0), Rank(Mode.RECLAIM, 1), PREEMPT),
        (Rank(Mode.FIT, 3), Rank(Mode.NO_CANDIDATES, 0), BORROW),
        (Rank(Mode.FIT, 3), Rank(Mode.NO_CANDIDATES, 0), PREEMPT),
        (Rank(Mode.PREEMPT, 3), Rank(Mode.NO_CANDIDATES, 0), PREEMPT),
        (Rank(Mode.NO_CANDIDATES, 0), Rank(Mode.NO_CANDIDATES, 1), PREEMPT),
        (Rank(Mode.NO_CANDIDATES, 3), Rank(Mode.NO_FIT, 0), BORROW),
        (Rank(Mode.NO_CANDIDATES, 3), Rank(Mode.NO_FIT, 0), PREEMPT),
    ],
)
def test_one_flavor_is_better_and_never_the_other_way_round(
    better: Rank, worse: Rank, preference: Preference
) -> None:
    assert is_preferred(better, worse, preference)
    assert not is_preferred(worse, better, preference)


@pytest.mark.parametrize("preference", list(Preference))
def test_the_preference_is_a_strict_order_with_what_does_not_fit_last(preference: Preference) -> None:
    ranks = [Rank(mode, level) for mode, level in product(Mode, range(3))]
    for one, other, third in product(ranks, repeat=3):
        if is_preferred(one, other, preference):
            assert one.mode is not Mode.NO_FIT
            assert not is_preferred(other, one, preference)
            if is_preferred(other, third, preference):
                assert is_preferred(one, third, preference)
    assert not any(is_preferred(rank, rank, preference) for rank in ranks)


@pytest.mark.parametrize(
    ("rank", "borrow", "preempt", "expected"),
    [
        (Rank(Mode.NO_FIT, 0), STOP, STOP, True),
        (Rank(Mode.NO_CANDIDATES, 0), STOP, STOP, True),
        (Rank(Mode.PREEMPT, 0), STOP, STOP, False),
        (Rank(Mode.PREEMPT, 0), STOP, NEXT, True),
        (Rank(Mode.RECLAIM, 0), STOP, NEXT, True),
        (Rank(Mode.RECLAIM, 0), NEXT, STOP, False),
        (Rank(Mode.PREEMPT, 1), NEXT, STOP, True),
        (Rank(Mode.FIT, 0), NEXT, NEXT, False),
        (Rank(Mode.FIT, 1), NEXT, NEXT, True),
        (Rank(Mode.FIT, 1), STOP, NEXT, False),
    ],
)
def test_when_the_next_flavor_is_looked_at(
    rank: Rank, borrow: WhenCan, preempt: WhenCan, expected: bool
) -> None:
    assert goes_on(rank, Fungibility(when_can_borrow=borrow, when_can_preempt=preempt)) is expected
