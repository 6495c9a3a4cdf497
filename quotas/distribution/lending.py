"""Computation of what each node of a quota tree lends to others, for one flavor and resource."""

from __future__ import annotations

from collections.abc import Sequence

from quotas.distribution.node_order import NodeOrder
from quotas.tree.limits import NOTHING, Amount, NodeLimits


def compute_borrowed(nominals: Sequence[Amount], reserved: Sequence[int]) -> list[int]:
    """Compute by how much each node reserves more than its nominal."""
    pairs = zip(nominals, reserved, strict=True)
    return [0 if nominal is None or nominal >= amount else amount - nominal for nominal, amount in pairs]


def compute_lent(
    order: NodeOrder,
    limits: Sequence[NodeLimits | None],
    nominals: Sequence[Amount],
    reserved: Sequence[int],
) -> list[int]:
    """Compute what others reserve of each node's nominal, from the root down.

    All arguments hold one value per position of `order`. A borrower takes first the own nominal of a node
    above it, then what the children of that node leave free, in proportion; rounded so that the sums agree.
    """
    found, borrowed = [0] * len(order), compute_borrowed(nominals, reserved)
    if not any(borrowed):
        return found
    spare = _compute_spare(order, limits, nominals, reserved)
    for position, children in enumerate(order.children):
        own = (limits[position] or NOTHING).own_nominal
        if own is None or not children:
            continue
        inside = sum([borrowed[child] for child in children]) - borrowed[position]
        wanted = inside + found[position] - own
        if wanted <= 0:
            continue
        left = sum([spare[child] for child in children])
        rest = min(left, wanted)
        for child in children if rest else ():
            found[child] = rest * spare[child] // left if left else 0
            left -= spare[child]
            rest -= found[child]
    return found


def _compute_spare(
    order: NodeOrder,
    limits: Sequence[NodeLimits | None],
    nominals: Sequence[Amount],
    reserved: Sequence[int],
) -> list[int]:
    """Compute what each node leaves free and may lend."""
    found = [(of.own_nominal or 0) if of else 0 for of in limits]
    for position in range(len(order) - 1, -1, -1):
        nominal, of, parent = nominals[position], limits[position], order.parents[position]
        free = 0 if nominal is None or nominal <= reserved[position] else nominal - reserved[position]
        free = found[position] if found[position] < free else free
        if of is not None and of.lending_limit is not None and of.lending_limit < free:
            free = of.lending_limit
        found[position] = free
        if parent is not None:
            found[parent] += free
    return found
