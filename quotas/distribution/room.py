"""Computation of what a few nodes may reserve, for one flavor and resource.

The result depends on the nodes above, and on what all other nodes lend upwards and use of it. So the quota
tree is built only of the nodes on the path to the root, with one leaf for the other children of each node:
the tree of a whole cell has thousands of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from quotas.distribution.node_order import NodeOrder
from quotas.distribution.subtree_sums import SubtreeSums
from quotas.tree import Branch, NodeLimits, QuotaTree
from quotas.tree.limits import NOTHING, Amount

_KEY = ""


@dataclass(frozen=True, slots=True)
class QuotaRoom:
    """The amounts that a node may reserve: `available` now, in addition to what is reserved, and `potential`
    if nothing were reserved. None is unlimited; `available` is negative where other nodes reserve too much.
    """

    available: Amount
    potential: Amount


def compute_rooms(
    order: NodeOrder,
    limits: Sequence[NodeLimits | None],
    charged: Sequence[int],
    sums: SubtreeSums,
    wanted: Collection[int],
) -> dict[int, QuotaRoom]:
    """Compute the room of the nodes at the positions `wanted`.

    `limits` and `charged` hold one value per position; `charged` is what is reserved at a leaf itself. `sums`
    are those of both.
    """
    way = set(_list_ways(order, wanted))
    branches, usage = _reduce_tree(order, limits, charged, sums, way)
    tree = QuotaTree(branches)
    for node, amount in usage.items():
        tree.add_usage(node, _KEY, amount)
    return {
        position: QuotaRoom(tree.available(str(position), _KEY), tree.potential(str(position), _KEY))
        for position in wanted
    }


def _list_ways(order: NodeOrder, wanted: Collection[int]) -> Iterator[int]:
    """Yield the positions on the paths from some nodes to the root."""
    for position in wanted:
        at: int | None = position
        while at is not None:
            yield at
            at = order.parents[at]


def _reduce_tree(
    order: NodeOrder,
    limits: Sequence[NodeLimits | None],
    charged: Sequence[int],
    sums: SubtreeSums,
    way: set[int],
) -> tuple[list[Branch[str]], Counter[str]]:
    """Return the nodes on the path, with one leaf for the other children of each, and the usage at leaves."""
    branches, reserved = [], Counter[str]()
    for position in way:
        parent, children = order.parents[position], order.children[position]
        above = None if parent is None else str(parent)
        branches.append(Branch(str(position), above, {_KEY: limits[position] or NOTHING}))
        others = [child for child in children if child not in way]
        lendable = sum([sums.lendable[child] for child in others])
        spilled = sum([sums.spilled[child] for child in others])
        if lendable or spilled:
            rest = f"{position}/others"
            branches.append(Branch(rest, str(position), {_KEY: NodeLimits(lendable)}))
            reserved[rest] = spilled
        if not children:
            reserved[str(position)] = charged[position]
    return branches, reserved
