"""When a node still keeps what it is to lend, and where a loan is when it ends.

Pure arithmetic over one flavor and resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from quotas.distribution import NodeId, totals
from quotas.tree.limits import Amount, plus


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


@dataclass(frozen=True, slots=True)
class Holdings:
    """A quota tree at the end of a loan, of one flavor and resource.

    `kept` is what each node keeps for itself, `lent` what it has lent out less what it was lent itself by the
    other loans that run, `started` the `own_totals` at the start of the loan; who is not named had nothing.
    """

    parents: Mapping[NodeId, NodeId | None]
    kept: Mapping[NodeId, Amount]
    lent: Mapping[NodeId, int]
    started: Mapping[NodeId, Amount]


def own_totals(
    parents: Mapping[NodeId, NodeId | None], kept: Mapping[NodeId, Amount], lent: Mapping[NodeId, int]
) -> dict[NodeId, Amount]:
    """What each node and all below it would have if every loan of `lent` had been returned."""
    return totals(parents, {node: plus(kept.get(node, 0), lent.get(node, 0)) for node in parents})


def take_back(borrower: NodeId, amount: int, at: Holdings) -> dict[NodeId, int]:
    """From whom a loan returns, and how much from each; less than `amount` together where it is not there.

    First what the borrower keeps beside that of other loans, then what those below it gained since the start,
    and last what it keeps of other loans, which find what is theirs below in turn. Nobody below is left with
    less than at the start, however it was divided meanwhile; what is unlimited has as much as is asked.
    """
    children: defaultdict[NodeId, list[NodeId]] = defaultdict(list)
    for node, parent in at.parents.items():
        if parent is not None:
            children[parent].append(node)
    gained = {node: amount if more is None else more for node, more in gains(at).items()}
    parts: defaultdict[NodeId, int] = defaultdict(int)

    def take(node: NodeId, most: int, spare: int = 0) -> int:
        """Note what the node itself gives beside `spare`; returns how much."""
        kept = at.kept.get(node, 0)
        part = most if kept is None else max(0, min(most, kept - spare - parts[node]))
        parts[node] += part
        return part

    def give(node: NodeId, most: int) -> int:
        """Note what the node and all below it give, who gained most first; returns how much."""
        left = most - take(node, most, spare=max(0, -at.lent.get(node, 0)))
        for child in sorted(children[node], key=lambda each: (-gained[each], str(each))) if left else ():
            left -= give(child, min(left, gained[child]))
        return most - left + take(node, left)

    give(borrower, amount)
    return {node: part for node, part in parts.items() if part}


def gains(at: Holdings) -> dict[NodeId, Amount]:
    """What each node has more than at the start, as `own_totals` count; None where it has no limit now."""
    found: dict[NodeId, Amount] = {}
    for node, has in own_totals(at.parents, at.kept, at.lent).items():
        had = at.started.get(node, 0)
        found[node] = 0 if had is None else None if has is None else max(0, has - had)
    return found
