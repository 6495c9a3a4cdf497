"""Feature gates of Kueue's scheduling cycle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleOptions:
    """Choices of one cycle.

    `recompute_targets` searches victims again where an earlier head took one of them. With `judge_again` a
    head whose domains went to an earlier one is judged once more, in the flavors that it had. With
    `leave_unreplaced` a job that lost a node, and finds no place for what ran there, leaves as a whole; off,
    it stays as it is and is tried again.
    """

    recompute_targets: bool = True
    judge_again: bool = True
    leave_unreplaced: bool = True
