"""The comparison of two flavors, and the end of the search over a queue's flavors.

Source: Kueue, KEP-582 "Preempt based on flavor order". Where its documentation and its code differ about the
preference, this module follows the code: `borrowing-over-preemption` prefers the flavor that only borrows.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduling.engine.model import Fungibility, Preference, WhenCan
from scheduling.engine.quota.assignment import AssignmentMode


class FlavorRank(NamedTuple):
    """The quality of a flavor: its mode, and the level of the tree from which it borrows."""

    mode: AssignmentMode
    borrow_level: int


BEST = FlavorRank(AssignmentMode.FIT, 0)
WORST = FlavorRank(AssignmentMode.NO_FIT, 0)


def is_preferred(one: FlavorRank, other: FlavorRank, preference: Preference) -> bool:
    """Return whether `one` is strictly better than `other`.

    A flavor without fit is worst, then one without candidates, whatever it borrows, because no job can start
    there now. The preference decides only between the others.
    """
    if one.mode is AssignmentMode.NO_FIT or other.mode is AssignmentMode.NO_FIT:
        return one.mode is not AssignmentMode.NO_FIT
    stuck, other_stuck = one.mode is AssignmentMode.NO_CANDIDATES, other.mode is AssignmentMode.NO_CANDIDATES
    if stuck is not other_stuck:
        return other_stuck
    by_mode, by_level = other.mode - one.mode, one.borrow_level - other.borrow_level
    if preference is Preference.PREEMPTION_OVER_BORROWING:
        return (by_level, by_mode) < (0, 0)
    return (by_mode, by_level) < (0, 0)


def tries_next_flavor(rank: FlavorRank, fungibility: Fungibility) -> bool:
    """Return whether the search continues with the next flavor after one of this rank."""
    if rank.mode in (AssignmentMode.NO_FIT, AssignmentMode.NO_CANDIDATES):
        return True
    if rank.mode is not AssignmentMode.FIT and fungibility.when_can_preempt is WhenCan.TRY_NEXT_FLAVOR:
        return True
    return rank.borrow_level > 0 and fungibility.when_can_borrow is WhenCan.TRY_NEXT_FLAVOR
