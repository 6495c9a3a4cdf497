"""When a node still keeps what it is to lend. Pure arithmetic over one flavor and resource."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from quotas.tree.limits import Amount


@dataclass(frozen=True, slots=True)
class Flow:
    """At `at` a node gets `amount`, or loses it where that is below zero."""

    at: datetime
    amount: int


def least_kept(kept: Amount, flows: Iterable[Flow], start: datetime, end: datetime) -> Amount:
    """The least that a node which keeps so much now will keep from `start` until before `end`.

    What flows at one moment flows at once: what returns then can be lent on from then.
    """
    if kept is None:
        return None
    ordered = sorted(flows, key=lambda flow: flow.at)
    at_start = kept + sum(flow.amount for flow in ordered if flow.at <= start)
    least, now = at_start, at_start
    moments = sorted({flow.at for flow in ordered if start < flow.at < end})
    for moment in moments:
        now += sum(flow.amount for flow in ordered if flow.at == moment)
        least = min(least, now)
    return least
