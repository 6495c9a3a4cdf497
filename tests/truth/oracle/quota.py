"""Quota by its definitions: what a subtree owns, lends and uses, and what a leaf can have.

Computed from the root downwards for each question. None is unlimited; an unlimited nominal
neither borrows nor lends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.engine.model import Quota, QuotaNode
from tests.truth.oracle.cell import Key

Amount = int | None
Used = Mapping[str, Counter[Key]]


def least_of(one: Amount, other: Amount) -> Amount:
    """Return the smaller of two amounts."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def total(one: Amount, other: Amount) -> Amount:
    """Return the sum of two amounts."""
    return None if one is None or other is None else one + other


def holds(available: Amount, asked: int) -> bool:
    """Return whether an amount suffices for a request."""
    return available is None or asked <= available


@dataclass(frozen=True)
class Tree:
    """Quota nodes, and the use of their leaves."""

    nodes: Mapping[str, QuotaNode]
    used: Used
    _known: dict[tuple[str, str, Key], Amount] = field(default_factory=dict, compare=False, repr=False)

    def limits(self, node: str, key: Key) -> Quota:
        """Return the limits of a node; without a row it owns nothing and may borrow."""
        for quota in self.nodes[node].quotas:
            if (quota.flavor, quota.resource) == key:
                return quota
        return Quota(flavor=key[0], resource=key[1], own_nominal=0)

    def children(self, node: str) -> list[str]:
        """Return the children of a node."""
        return sorted(name for name, each in self.nodes.items() if each.parent == node)

    def root(self, node: str) -> str:
        """Return the root of a node's tree."""
        above = self.nodes[node].parent
        return node if above is None else self.root(above)

    def owned(self, node: str, key: Key) -> Amount:
        """Return what a subtree owns: its own nominal and what its children lend it."""
        known = ("owned", node, key)
        if known not in self._known:
            amount: Amount = self.limits(node, key).own_nominal
            for child in self.children(node):
                amount = total(amount, self.lent(child, key))
            self._known[known] = amount
        return self._known[known]

    def kept(self, node: str, key: Key) -> Amount:
        """Return the part of what a subtree owns that only the subtree can use."""
        owned, lending = self.owned(node, key), self.limits(node, key).lending_limit
        if owned is None:
            return None
        return 0 if lending is None else max(0, owned - lending)

    def lent(self, node: str, key: Key) -> int:
        """Return the part of what a subtree owns that others may use."""
        owned, kept = self.owned(node, key), self.kept(node, key)
        return 0 if owned is None or kept is None else owned - kept

    def usage(self, node: str, key: Key) -> int:
        """Return what a subtree uses, of its own and of others."""
        known = ("usage", node, key)
        if known not in self._known:
            children = self.children(node)
            spilled = sum(self.spilled(child, key) for child in children)
            self._known[known] = spilled if children else self.used.get(node, Counter())[key]
        return self._known[known] or 0

    def spilled(self, node: str, key: Key) -> int:
        """Return what a subtree uses beyond what it keeps for itself."""
        kept = self.kept(node, key)
        return 0 if kept is None else max(0, self.usage(node, key) - kept)

    def available(self, node: str, key: Key) -> Amount:
        """Return what more may be used now; negative if too much is used already."""
        owned, used, above = self.owned(node, key), self.usage(node, key), self.nodes[node].parent
        if owned is None:
            return None
        if above is None:
            return owned - used
        kept = self.kept(node, key) or 0
        found = self.available(above, key)
        borrowing = self.limits(node, key).borrowing_limit
        if borrowing is not None:
            found = least_of(owned - kept - max(0, used - kept) + borrowing, found)
        return total(max(0, kept - used), found)

    def potential(self, node: str, key: Key) -> Amount:
        """Return what could be used if no job used anything."""
        return Tree(self.nodes, {}).available(node, key)

    def without_others(self, node: str) -> Tree:
        """Return the same tree with the use of one leaf only."""
        return Tree(self.nodes, {node: self.used.get(node, Counter())})
