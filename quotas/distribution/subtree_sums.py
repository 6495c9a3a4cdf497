"""Quota and usage of the subtrees of a quota tree as they count for the nodes above.

The amounts are those of `quotas.tree.node` for one flavor and resource, of all nodes in lists: a page reads
dozens of flavors and resources of thousands of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quotas.distribution.node_order import NodeOrder
from quotas.tree.limits import (
    Amount,
    NodeLimits,
    add_amounts,
    compute_lent_quota,
    compute_local_quota,
    compute_spilled_usage,
)


@dataclass(frozen=True, slots=True)
class SubtreeSums:
    """Amounts by position of the nodes.

    `quotas` is the own nominal of a node and what its children may lend, `usage` what is charged to it and
    what its children use beyond the part of their quota that they keep. `lendable` and `spilled` are the
    parts of both that count at the parent: neither counts of a node with unlimited quota.
    """

    quotas: Sequence[Amount]
    usage: Sequence[int]
    lendable: Sequence[int]
    spilled: Sequence[int]


def sum_subtrees(
    order: NodeOrder, limits: Sequence[NodeLimits | None], charged: Sequence[int]
) -> SubtreeSums:
    """Sum quota and usage from the leaves up; `charged` is what is reserved at a node itself."""
    quotas: list[Amount] = [0 if of is None else of.own_nominal for of in limits]
    usage = list(charged)
    lendable, spilled = [0] * len(order), [0] * len(order)
    for position in range(len(order) - 1, -1, -1):
        quota, used, of, parent = quotas[position], usage[position], limits[position], order.parents[position]
        if quota == 0 and not used:
            continue
        if quota is not None and (of is None or of.lending_limit is None):
            up, over = quota, used  # most nodes have no local quota
        else:
            local = compute_local_quota(quota, None if of is None else of.lending_limit)
            up, over = compute_lent_quota(quota, local), compute_spilled_usage(used, local)
        lendable[position], spilled[position] = up, over
        if parent is not None:
            quotas[parent] = add_amounts(quotas[parent], up)
            usage[parent] += over
    return SubtreeSums(quotas, usage, lendable, spilled)
