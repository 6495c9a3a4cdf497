"""Computation of what each node of a quota tree borrows and lends, for one flavor and resource."""

from __future__ import annotations

from collections.abc import Sequence

from quotas.distribution.node_order import NodeOrder
from quotas.distribution.subtree_sums import SubtreeSums
from quotas.tree.limits import NOTHING, NodeLimits


def compute_borrowed(sums: SubtreeSums) -> list[int]:
    """Compute by how much the usage of each subtree is above its quota.

    Where all quota may be lent, that is what the node reserves above its nominal. Quota that a child keeps
    for itself doesn't serve its siblings: they borrow although the nominal of their parent isn't reserved.
    """
    pairs = zip(sums.quotas, sums.usage, strict=True)
    return [0 if quota is None or quota >= usage else usage - quota for quota, usage in pairs]


def compute_lent(order: NodeOrder, limits: Sequence[NodeLimits | None], sums: SubtreeSums) -> list[int]:
    """Compute what others reserve of each node's nominal, from the root down.

    All arguments hold one value per position of `order`. A borrower takes first the own nominal of a node
    above it, then what the children of that node leave free, in proportion; rounded so that the sums agree.
    """
    found, borrowed = [0] * len(order), compute_borrowed(sums)
    if not any(borrowed):
        return found
    for position, children in enumerate(order.children):
        own = (limits[position] or NOTHING).own_nominal
        if own is None or not children:
            continue
        inside = sum([borrowed[child] for child in children]) - borrowed[position]
        wanted = inside + found[position] - own
        if wanted <= 0:
            continue
        spare = [max(0, sums.lendable[child] - sums.spilled[child]) for child in children]
        left = sum(spare)
        rest = min(left, wanted)
        for child, free in zip(children, spare, strict=True):
            if not rest:
                break
            found[child] = rest * free // left
            left -= free
            rest -= found[child]
    return found
