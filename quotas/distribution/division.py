"""Dividing what a node has among its children, and no more.

A node *has* what it keeps for itself and what its children have: its total. Rows store what is kept,
which is what the quota tree calculates with, so whatever is given to a child leaves the parent and the
sum over the tree stays as it was. An admin says what a child is to have; what the parent keeps follows.
Pure arithmetic over one flavor and resource; None is unlimited.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from quotas.tree.limits import Amount, plus

NodeId = uuid.UUID
Parents = Mapping[NodeId, NodeId | None]
Amounts = Mapping[NodeId, Amount]


class Keep(Enum):
    """A limit that is not mentioned."""

    AS_IS = "as-is"


@dataclass(frozen=True, slots=True)
class Excess:
    """A node whose children would have more than it has. `children` is what each would have."""

    node: NodeId
    has: Amount
    children: Mapping[NodeId, Amount]


@dataclass(frozen=True, slots=True)
class Division:
    """What each node would keep for itself afterwards, and where the sums do not allow it."""

    kept: Mapping[NodeId, Amount]
    excesses: Sequence[Excess]


def totals(parents: Parents, kept: Amounts) -> dict[NodeId, Amount]:
    """What each node has: kept for itself and given to its children."""
    found: dict[NodeId, Amount] = {}
    children = _children(parents)
    for node in children_first(parents):
        total = kept.get(node, 0)
        for child in children[node]:
            total = plus(total, found[child])
        found[node] = total
    return found


def divide(parents: Parents, kept: Amounts, wanted: Amounts, *, on_top: bool = False) -> Division:
    """Give each node of `wanted` that total; every other node keeps the total it has.

    What a node gains leaves its parent, unless the parent's total is set as well. With `on_top` it is
    created, or destroyed, instead: the totals of all nodes above change with it.
    """
    children, before = _children(parents), totals(parents, kept)
    after = dict(kept)
    excesses = []
    for node in wanted if on_top else {n for w in wanted for n in (w, parents[w]) if n is not None}:
        has = wanted.get(node, before[node])
        given = {child: wanted.get(child, before[child]) for child in children[node]}
        left, fits = _left(node in wanted, has, kept.get(node, 0), before, given)
        after[node] = left
        if not fits:
            excesses.append(Excess(node, has, given))
    return Division(after, sorted(excesses, key=lambda excess: excess.node))


def _left(is_set: bool, has: Amount, kept: Amount, before: Amounts, given: Amounts) -> tuple[Amount, bool]:
    """What a node keeps when it gives that much, and whether it has that much."""
    if has is not None:
        spent = sum(amount or 0 for amount in given.values())
        limited = all(amount is not None for amount in given.values())
        return max(0, has - spent), limited and spent <= has
    if is_set or kept is None:
        return None, True
    # The total is unlimited because a child's is. It stays unlimited when that child becomes limited.
    if any(before[child] is None and amount is not None for child, amount in given.items()):
        return None, True
    # What a child gains comes first from the amount that the parent keeps, then from the unlimited rest.
    gained = sum((amount or 0) - (before[child] or 0) for child, amount in given.items())
    return max(0, kept - gained), True


def _children(parents: Parents) -> defaultdict[NodeId, list[NodeId]]:
    found: defaultdict[NodeId, list[NodeId]] = defaultdict(list)
    for node, parent in parents.items():
        if parent is not None:
            found[parent].append(node)
    return found


def children_first(parents: Parents) -> list[NodeId]:
    """All nodes, each after those below it."""
    children = _children(parents)
    ordered = [node for node, parent in parents.items() if parent is None]
    for node in ordered:
        ordered.extend(children[node])
    return ordered[::-1]


def nodes_below(parents: Parents, node: NodeId) -> list[NodeId]:
    """All nodes below one, in no order."""
    children = _children(parents)
    found = list(children[node])
    for each in found:
        found.extend(children[each])
    return found


def way_up(parents: Parents, node: NodeId) -> list[NodeId]:
    """A node, what is above it, and so on to the root."""
    way = [node]
    while (above := parents[way[-1]]) is not None:
        way.append(above)
    return way
