"""Which of two flavors is better, and when the search over a queue's flavors ends.

The rules are those of Kueue's flavor fungibility. Where its documentation and its code differ about the
preference, the code is followed: `borrowing-over-preemption` prefers the flavor that only borrows.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduling.engine.model import Fungibility, Preference, WhenCan
from scheduling.engine.quota.assignment import Mode


class Rank(NamedTuple):
    """How well a flavor would do: by which means, and from how far up the tree."""

    mode: Mode
    borrow_level: int


BEST = Rank(Mode.FIT, 0)
WORST = Rank(Mode.NO_FIT, 0)


def is_preferred(one: Rank, other: Rank, preference: Preference) -> bool:
    """Whether `one` is strictly better than `other`.

    What does not fit is worst; then come flavors where nobody may be asked to give way, whatever they
    borrow, because nothing can start there now. Only between the rest does the preference decide.
    """
    if one.mode is Mode.NO_FIT or other.mode is Mode.NO_FIT:
        return one.mode is not Mode.NO_FIT
    stuck, other_stuck = one.mode is Mode.NO_CANDIDATES, other.mode is Mode.NO_CANDIDATES
    if stuck is not other_stuck:
        return other_stuck
    by_mode, by_level = other.mode - one.mode, one.borrow_level - other.borrow_level
    if preference is Preference.PREEMPTION_OVER_BORROWING:
        return (by_level, by_mode) < (0, 0)
    return (by_mode, by_level) < (0, 0)


def goes_on(rank: Rank, fungibility: Fungibility) -> bool:
    """Whether the next flavor is looked at although this one is this good."""
    if rank.mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
        return True
    if rank.mode is not Mode.FIT and fungibility.when_can_preempt is WhenCan.TRY_NEXT_FLAVOR:
        return True
    return rank.borrow_level > 0 and fungibility.when_can_borrow is WhenCan.TRY_NEXT_FLAVOR
