"""Division of a node's nominal among its children.

The nominal of a node is its own nominal plus the nominals of its children. Rows store the own nominal, which
the quota tree calculates with; quota that is distributed to a child is subtracted from the parent, so the sum
over the tree does not change. An admin sets the nominal of a child; the own nominal of the parent follows.
Pure arithmetic over one flavor and resource; None is unlimited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from quotas.distribution.node_order import NodeId, NodeOrder, Parents
from quotas.tree.limits import Amount

Amounts = Mapping[NodeId, Amount]


class Keep(Enum):
    """A limit that is not mentioned."""

    AS_IS = "as-is"


@dataclass(frozen=True, slots=True)
class Excess:
    """A node whose children would have more than its nominal `has`. `children` are their nominals."""

    node: NodeId
    has: Amount
    children: Mapping[NodeId, Amount]


@dataclass(frozen=True, slots=True)
class Division:
    """The own nominal of each node after a change, and the nodes whose sums do not allow it."""

    own_nominal: Mapping[NodeId, Amount]
    excesses: Sequence[Excess]


def compute_nominals(parents: Parents, own_nominal: Amounts) -> dict[NodeId, Amount]:
    """Compute the nominal of each node: its own and what it distributed to its children."""
    order = NodeOrder(parents)
    nominals = order.sum_amounts([own_nominal.get(node, 0) for node in order.nodes])
    return dict(zip(order.nodes, nominals, strict=True))


def divide_nominal(
    parents: Parents, own_nominal: Amounts, wanted: Amounts, *, on_top: bool = False
) -> Division:
    """Give each node of `wanted` that nominal; the nominal of every other node stays.

    What a node gains leaves its parent, unless the parent's nominal is set as well. With `on_top` it is
    created, or destroyed, instead: the nominals of all nodes above change with it.
    """
    children, before = _children(parents), compute_nominals(parents, own_nominal)
    after = dict(own_nominal)
    excesses = []
    for node in wanted if on_top else {n for w in wanted for n in (w, parents[w]) if n is not None}:
        has = wanted.get(node, before[node])
        distributed = {child: wanted.get(child, before[child]) for child in children[node]}
        own, fits = _own_after(node in wanted, has, own_nominal.get(node, 0), before, distributed)
        after[node] = own
        if not fits:
            excesses.append(Excess(node, has, distributed))
    return Division(after, sorted(excesses, key=lambda excess: excess.node))


def _own_after(
    is_set: bool, has: Amount, own: Amount, before: Amounts, distributed: Amounts
) -> tuple[Amount, bool]:
    """The own nominal of a node that distributes these amounts, and whether it has that much."""
    if has is not None:
        spent = sum(amount or 0 for amount in distributed.values())
        limited = all(amount is not None for amount in distributed.values())
        return max(0, has - spent), limited and spent <= has
    if is_set or own is None:
        return None, True
    # The nominal is unlimited because a child's is. It stays unlimited when that child becomes limited.
    if any(before[child] is None and amount is not None for child, amount in distributed.items()):
        return None, True
    # What a child gains comes first from the parent's own nominal, then from the unlimited rest.
    gained = sum((amount or 0) - (before[child] or 0) for child, amount in distributed.items())
    return max(0, own - gained), True


def _children(parents: Parents) -> defaultdict[NodeId, list[NodeId]]:
    found: defaultdict[NodeId, list[NodeId]] = defaultdict(list)
    for node, parent in parents.items():
        if parent is not None:
            found[parent].append(node)
    return found


def children_first(parents: Parents) -> list[NodeId]:
    """All nodes, each after those below it."""
    return NodeOrder(parents).nodes[::-1]


def nodes_below(parents: Parents, node: NodeId) -> list[NodeId]:
    """All nodes below one, in no order."""
    children = _children(parents)
    found = list(children[node])
    for each in found:
        found.extend(children[each])
    return found


def path_to_root(parents: Parents, node: NodeId) -> list[NodeId]:
    """A node, what is above it, and so on to the root."""
    way = [node]
    while (above := parents[way[-1]]) is not None:
        way.append(above)
    return way
