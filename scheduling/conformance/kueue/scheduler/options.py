"""The feature gates of Kueue's scheduling cycle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleOptions:
    """The options of one cycle.

    `recompute_targets` searches victims again if an earlier head took one of them. With `judge_again` a head
    whose domains were taken by an earlier one is evaluated again, in the same flavors. With
    `leave_unreplaced` a job is evicted if the tasks on its failed node can't be placed; otherwise it stays
    and is tried again.
    """

    recompute_targets: bool = True
    judge_again: bool = True
    leave_unreplaced: bool = True
