"""Computation of what a few nodes may reserve, for one flavor and resource.

That depends on the nodes above them, and of all others only on what these lend upwards and use of it. So the
quota tree is built of the nodes on the way to the root alone, and of one leaf for the other children of each:
the tree of a whole cell has thousands of nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from quotas.distribution.node_order import NodeOrder
from quotas.tree import Branch, NodeLimits, QuotaTree
from quotas.tree.limits import (
    NOTHING,
    Amount,
    add_amounts,
    compute_lent_quota,
    compute_local_quota,
    compute_spilled_usage,
)

_KEY = ""


@dataclass(frozen=True, slots=True)
class QuotaRoom:
    """The amounts that a node may reserve: `available` now, beside what is reserved, and `potential` if
    nobody reserved anything. None is unlimited; `available` is negative where others reserve too much.
    """

    available: Amount
    potential: Amount


def compute_rooms(
    order: NodeOrder,
    limits: Sequence[NodeLimits | None],
    charged: Sequence[int],
    wanted: Collection[int],
) -> dict[int, QuotaRoom]:
    """Compute the room of the nodes at the positions `wanted`.

    `limits` and `charged` hold one value per position; `charged` is what is reserved at a leaf itself.
    """
    way = set(_list_ways(order, wanted))
    branches, usage = _reduce_tree(order, limits, charged, way)
    tree = QuotaTree(branches)
    for node, amount in usage.items():
        tree.add_usage(node, _KEY, amount)
    return {
        position: QuotaRoom(tree.available(str(position), _KEY), tree.potential(str(position), _KEY))
        for position in wanted
    }


def _list_ways(order: NodeOrder, wanted: Collection[int]) -> Iterator[int]:
    """The positions on the ways from some nodes to the root."""
    for position in wanted:
        at: int | None = position
        while at is not None:
            yield at
            at = order.parents[at]


def _reduce_tree(
    order: NodeOrder, limits: Sequence[NodeLimits | None], charged: Sequence[int], way: set[int]
) -> tuple[list[Branch[str]], Counter[str]]:
    """The nodes on the way with one leaf for the other children of each, and the usage at leaves."""
    quotas: list[Amount] = [0 if of is None else of.own_nominal for of in limits]
    used = list(charged)
    lent: Counter[int] = Counter()
    spilled: Counter[int] = Counter()
    for position in range(len(order) - 1, -1, -1):
        quota, usage, parent = quotas[position], used[position], order.parents[position]
        if parent is None or (quota == 0 and not usage):
            continue
        lending_limit = (limits[position] or NOTHING).lending_limit
        if quota is not None and lending_limit is None:
            up, over = quota, usage  # as of most nodes: nothing is kept, and nothing need be asked
        else:
            local = compute_local_quota(quota, lending_limit)
            up, over = compute_lent_quota(quota, local), compute_spilled_usage(usage, local)
        quotas[parent] = add_amounts(quotas[parent], up)
        used[parent] += over
        if parent in way and position not in way:
            lent[parent] += up
            spilled[parent] += over
    branches, reserved = [], Counter[str]()
    for position in way:
        parent = order.parents[position]
        above = None if parent is None else str(parent)
        branches.append(Branch(str(position), above, {_KEY: limits[position] or NOTHING}))
        if lent[position] or spilled[position]:
            rest = f"{position}/others"
            branches.append(Branch(rest, str(position), {_KEY: NodeLimits(lent[position])}))
            reserved[rest] = spilled[position]
        if not order.children[position]:
            reserved[str(position)] = charged[position]
    return branches, reserved
