"""Dominant resource share: the ratio of what a node borrows to what it could borrow, in its scarcest
resource.

Per resource, summed over flavors: what the node's subtree uses above its own quota, in thousandths of what
the parent's subtree could ever use. The highest ratio, divided by the node's weight, is the share. Source:
dominant resource fairness (Ghodsi et al., NSDI 2011) in the form of Kueue's fair sharing.

Shares are ratios of whole numbers and compare exactly. Rounded division could make equal shares of unequal
weights differ, and the order of queues would then depend on the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from quotas.tree.limits import Amount, add_amounts
from quotas.tree.node import K, TreeNode

HIGHEST = 2**63 - 1
"""The rounded share of a node of weight zero that borrows."""

Lendable = Mapping[str, Amount]


@dataclass(frozen=True, slots=True, eq=False)
class DominantResourceShare:
    """A share that orders exactly: `numerator / denominator` in weighted thousandths.

    `infinite` marks a borrower of weight zero: it orders above all finite shares, and the unweighted ratio
    orders it among other infinite shares. `resource` is the dominant one, empty at share zero. `borrows` is
    also true where nothing can be lent and the share is therefore zero.
    """

    numerator: int = 0
    denominator: int = 1
    infinite: bool = False
    resource: str = ""
    borrows: bool = False

    @property
    def zero(self) -> bool:
        """Return whether the share is zero: the node uses nothing that others could have."""
        return self.numerator == 0

    @property
    def precise(self) -> Fraction | None:
        """The exact value, None for infinite."""
        return None if self.infinite else Fraction(self.numerator, self.denominator)

    @property
    def rounded(self) -> int:
        """The value rounded up, as it is shown; `HIGHEST` for infinite."""
        return HIGHEST if self.infinite else -(-self.numerator // self.denominator)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DominantResourceShare):
            return NotImplemented
        return self.infinite == other.infinite and self._left(other) == other._left(self)

    def __lt__(self, other: DominantResourceShare) -> bool:
        if self.infinite != other.infinite:
            return other.infinite
        return self._left(other) < other._left(self)

    def __le__(self, other: DominantResourceShare) -> bool:
        return not other < self

    def __gt__(self, other: DominantResourceShare) -> bool:
        return other < self

    def __ge__(self, other: DominantResourceShare) -> bool:
        return not self < other

    def __hash__(self) -> int:
        return self.numerator // self.denominator

    def _left(self, other: DominantResourceShare) -> int:
        return self.numerator * other.denominator


NO_SHARE = DominantResourceShare()


def sum_lendable(node: TreeNode[K], resource_of: Callable[[K], str | None]) -> Lendable:
    """Return per resource the most that the node's subtree could ever use, over all keys of its tree."""
    root = node
    while root.parent is not None:
        root = root.parent
    total: dict[str, Amount] = {}
    for key in root.subtree:
        resource = resource_of(key)
        if resource is not None:
            total[resource] = add_amounts(total.get(resource, 0), node.potential_quota(key))
    return total


def dominant_share(
    node: TreeNode[K],
    extra: Mapping[K, int] | None,
    lendable_above: Lendable,
    resource_of: Callable[[K], str | None],
) -> DominantResourceShare:
    """Return the share of a node below a parent; `extra` counts as used."""
    borrowed = _borrowed(node, extra, resource_of)
    if not borrowed:
        return NO_SHARE
    best, amount, of = "", 0, 1
    for resource in sorted(borrowed) if len(borrowed) > 1 else borrowed:
        limit = lendable_above.get(resource, 0)
        # There is no ratio to an unlimited amount, nor to zero.
        if limit is None or limit <= 0:
            continue
        if borrowed[resource] * of > amount * limit:
            best, amount, of = resource, borrowed[resource], limit
    if not amount:
        return DominantResourceShare(borrows=True)
    if not node.weight_milli:
        return DominantResourceShare(1000 * amount, of, infinite=True, resource=best, borrows=True)
    return DominantResourceShare(1_000_000 * amount, of * node.weight_milli, resource=best, borrows=True)


def _borrowed(
    node: TreeNode[K], extra: Mapping[K, int] | None, resource_of: Callable[[K], str | None]
) -> Mapping[str, int]:
    """Sum by resource what is above the node's own quota; no zeros."""
    borrowed = node.sum_borrowed(resource_of)
    if not extra:
        return borrowed
    total: dict[str, int] | None = None
    for key, more in extra.items():
        added = node.change_of_borrowed(key, more)
        if added and (resource := resource_of(key)) is not None:
            total = dict(borrowed) if total is None else total
            total[resource] = total.get(resource, 0) + added
    if total is None:
        return borrowed
    return {resource: amount for resource, amount in total.items() if amount}
