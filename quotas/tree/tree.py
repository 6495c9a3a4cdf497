"""The quota tree: what each node may use, now and at most, and which nodes borrow.

Usage is added at leaves and counts at the nodes above as far as it exceeds their local quota. Adding and
removing are exact inverses, so a simulation can be undone without a copy. Source of the rules:
Kueue's hierarchical cohorts; the quota reference of this project states them as formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Generic

from quotas.tree.errors import CycleError, NotALeafError, OverdrawnError, UnknownNodeError
from quotas.tree.limits import NOTHING, Amount, NodeLimits, add_amounts
from quotas.tree.node import K, TreeNode
from quotas.tree.share import NO_SHARE, DominantResourceShare, Lendable, dominant_share, sum_lendable


@dataclass(frozen=True, slots=True)
class Branch(Generic[K]):
    """The description of one node: its id, its parent's id (None for a root) and its limits per key.

    `weight_milli` divides its dominant resource share, in thousandths; a borrower of weight zero has an
    infinite share.

    Raises:
        ValueError: on a negative weight.
    """

    id: str
    parent: str | None
    limits: Mapping[K, NodeLimits]
    weight_milli: int = 1000

    def __post_init__(self) -> None:
        if self.weight_milli < 0:
            raise ValueError(f"{self.id} has the weight {self.weight_milli}; a weight is not negative")


class QuotaTree(Generic[K]):
    """A forest of quota nodes over keys such as (flavor, resource).

    Amounts are whole numbers of the key's unit, None is unlimited. A key without limits has nominal
    zero and no borrowing limit. `resource_of` names the resource that a key is an amount of, because
    shares sum over flavors; keys for which it gives None take no part in shares.

    Raises:
        CycleError: when the parents form a cycle.
        UnknownNodeError: when a parent does not exist.
    """

    def __init__(self, branches: Iterable[Branch[K]], resource_of: Callable[[K], str | None] = str) -> None:
        described = {branch.id: branch for branch in branches}
        self._resource_of = cache(resource_of)
        self._lendable: dict[str, Lendable] = {}
        self._children: dict[str, tuple[str, ...]] = {}
        self._roots: dict[str, str] = {}
        self._rivals: dict[tuple[str, str], tuple[str, str]] = {}
        # The last share of each node, with the number of changes of its usage at that time.
        self._shares: dict[str, tuple[int, DominantResourceShare]] = {}
        # Deferred changes of usage that are not counted yet: leaf, amounts, how often.
        self._deferred: list[tuple[str, Mapping[K, int], int]] = []
        self._nodes: dict[str, TreeNode[K]] = {
            node_id: TreeNode(node_id, described[node_id].limits, described[node_id].weight_milli)
            for node_id in sorted(described)
        }
        for node_id, node in self._nodes.items():
            parent = described[node_id].parent
            if parent is None:
                continue
            if parent not in self._nodes:
                raise UnknownNodeError(parent, f"{node_id} has the parent {parent}, which does not exist")
            node.parent = self._nodes[parent]
            node.parent.children.append(node)
        for node in self._leaves_first():
            node.recompute_quota()

    def copy(self) -> QuotaTree[K]:
        """Return a copy with the same limits and usage; later changes of either affect one tree only."""
        self.settle()
        twin = copy(self)
        twin._deferred = []
        twin._lendable, twin._shares = dict(self._lendable), {}
        twin._nodes = {node_id: node.copy() for node_id, node in self._nodes.items()}
        for node in self._nodes.values():
            own = twin._nodes[node.id]
            own.parent = None if node.parent is None else twin._nodes[node.parent.id]
            own.children = [twin._nodes[child.id] for child in node.children]
        return twin

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._nodes

    def limits(self, node_id: str, key: K) -> NodeLimits:
        """Return the node's own limits; an own nominal of zero where none are set."""
        return self._node(node_id).limits.get(key, NOTHING)

    def subtree_quota(self, node_id: str, key: K) -> Amount:
        """Return the own nominal and what the children lend; at a leaf the nominal."""
        return self._node(node_id).get_subtree_quota(key)

    def usage(self, node_id: str, key: K) -> int:
        """Return the usage: at a leaf all of it, above that what exceeds the local quota of the children."""
        return self._node(node_id).get_usage(key)

    def usages(self, node_id: str) -> dict[K, int]:
        """All keys with usage at a node, a copy."""
        return dict(self._node(node_id).usage)

    def available(self, node_id: str, key: K, freed: Mapping[str, int] | None = None) -> Amount:
        """Return what may be added now; negative when limits were lowered or others use too much.

        `freed` asks for the same with the usage of some nodes, by id, lower by an amount.
        """
        return self._node(node_id).available_quota(key, freed)

    def potential(self, node_id: str, key: K) -> Amount:
        """Return the most that the node could ever use, if no other node used anything."""
        return self._node(node_id).potential_quota(key)

    def borrows(self, node_id: str, key: K, extra: int = 0) -> bool:
        """Return whether usage with `extra` is above the quota of the node's subtree."""
        return self._node(node_id).exceeds_quota(key, extra)

    def borrows_any(self, node_id: str, keys: Iterable[K], extra: Mapping[K, int]) -> bool:
        """`borrows` of any of the keys, each with its part of `extra`."""
        node = self._node(node_id)
        subtree, usage = node.subtree, node.usage
        for key in keys:
            quota = subtree.get(key, 0)
            if quota is not None and usage.get(key, 0) + extra.get(key, 0) > quota:
                return True
        return False

    def height(self, node_id: str) -> int:
        """The distance to the furthest leaf below."""
        return self._node(node_id).height

    def borrow_level(self, node_id: str, key: K, amount: int) -> int:
        """Return how far up a request must reach: 0 inside the own quota, else the height of the lowest
        ancestor whose subtree holds it; the root's height where none does."""
        return self.reach(node_id, key, amount)[0]

    def reach(self, node_id: str, key: K, amount: int) -> tuple[int, bool]:
        """Return the borrow level of a request, and whether the subtree that holds it has a parent: then jobs
        outside of the subtree may borrow its quota, and it can be reclaimed from them.
        """
        return self._reach(self._node(node_id), key, amount)

    def available_and_level(self, node_id: str, key: K, amount: int) -> tuple[Amount, int]:
        """Return `available` and the `borrow_level` of a request."""
        node = self._node(node_id)
        return node.available_quota(key), self._reach(node, key, amount)[0]

    def _reach(self, node: TreeNode[K], key: K, amount: int) -> tuple[int, bool]:
        quota = node.subtree.get(key, 0)
        if node.parent is None or quota is None or node.usage.get(key, 0) + amount <= quota:
            return 0, node.parent is not None
        remaining = amount - (node.local_available(key) or 0)
        while node.parent is not None:
            node = node.parent
            if not node.exceeds_quota(key, remaining):
                return node.height, node.parent is not None
            remaining -= node.local_available(key) or 0
        return node.height, False

    def own_room(self, node_id: str, key: K) -> Amount:
        """Return how much more has the borrow level 0: negative over quota, None for any amount."""
        node = self._node(node_id)
        quota = node.subtree.get(key, 0)
        return None if node.parent is None or quota is None else quota - node.usage.get(key, 0)

    def has_own_room(self, node_id: str, amounts: Mapping[K, int]) -> bool:
        """Return whether the amounts may be added now, each with the borrow level 0."""
        subtree = self._find(node_id).subtree
        limited = [(key, quota) for key in amounts if (quota := subtree.get(key, 0)) is not None]
        if not limited:
            return True
        node = self._node(node_id)
        for key, quota in limited:
            amount = amounts[key]
            if node.parent is not None and amount > quota - node.usage.get(key, 0):
                return False
            available = node.available_quota(key)
            if available is not None and amount > max(0, available):
                return False
        return True

    def inside(self, node_id: str, keys: Iterable[K]) -> bool:
        """Return whether usage of no key is above the quota of the subtree."""
        return not self._node(node_id).is_over_quota(keys)

    def leaves_above(self, node_id: str, keys: Collection[K]) -> list[str]:
        """Return the leaves below, or the node itself, that use more of one of the keys than their quota."""
        found, waiting = [], [self._node(node_id)]
        while waiting:
            node = waiting.pop()
            if node.children:
                waiting.extend(node.children)
            elif node.is_over_quota(keys):
                found.append(node.id)
        return found

    def subtree_changes(self, node_id: str) -> int:
        """Return a count that changes whenever usage at the node or anywhere below it changes."""
        return self._node(node_id).subtree_changes

    def local_available(self, node_id: str, key: K) -> Amount:
        """Return what may be added before it counts at the parent."""
        return self._node(node_id).local_available(key)

    def lendable(self, node_id: str) -> dict[str, Amount]:
        """Return per resource the most that the subtree could ever use, summed over flavors."""
        return dict(self._lendable_of(self._node(node_id)))

    def share(self, node_id: str, extra: Mapping[K, int] | None = None) -> DominantResourceShare:
        """Return the dominant resource share of a node, with `extra` on top of its usage; zero for a root."""
        node = self._node(node_id)
        if node.parent is None:
            return NO_SHARE
        if extra:
            return dominant_share(node, extra, self._lendable_of(node.parent), self._resource_of)
        known = self._shares.get(node_id)
        if known is None or known[0] != node.changes:
            share = dominant_share(node, None, self._lendable_of(node.parent), self._resource_of)
            known = self._shares[node_id] = (node.changes, share)
        return known[1]

    def weight_milli(self, node_id: str) -> int:
        """The weight for fair sharing, in thousandths."""
        return self._node(node_id).weight_milli

    def children(self, node_id: str) -> tuple[str, ...]:
        """The ids of the nodes right below, sorted."""
        known = self._children.get(node_id)
        if known is None:
            known = self._children[node_id] = tuple(child.id for child in self._node(node_id).children)
        return known

    def parent(self, node_id: str) -> str | None:
        """The node right above, None at a root."""
        above = self._node(node_id).parent
        return None if above is None else above.id

    def root(self, node_id: str) -> str:
        """The id of the node above all others, seen from a node; its own where it is that."""
        known = self._roots.get(node_id)
        if known is None:
            *_, known = self.path(node_id)
            self._roots[node_id] = known
        return known

    def path(self, node_id: str) -> Iterator[str]:
        """The ids from a node up to its root."""
        node: TreeNode[K] | None = self._node(node_id)
        while node is not None:
            yield node.id
            node = node.parent

    def rivals(self, node_id: str, other: str) -> tuple[str, str]:
        """Return the children, towards each of two leaves, of their lowest common ancestor.

        Raises:
            ValueError: when they are in different trees.
        """
        known = self._rivals.get((node_id, other))
        if known is None:
            above_mine = {above: below for below, above in pairwise(self.path(node_id))}
            meeting = next(
                ((n, above) for n, above in pairwise(self.path(other)) if above in above_mine), None
            )
            if meeting is None:
                raise ValueError(f"{node_id} and {other} stand in different trees")
            known = self._rivals[node_id, other] = (above_mine[meeting[1]], meeting[0])
        return known

    def carried(self, leaf: str, node_id: str, amounts: Mapping[K, int]) -> Mapping[K, int]:
        """Compute what a node on a leaf's path would use more if these amounts were used at the leaf."""
        node = self._node(leaf)
        while node.id != node_id and node.parent is not None:
            amounts = {
                key: carried for key, n in amounts.items() if (carried := node.added_at_parent(key, n))
            }
            node = node.parent
        return amounts

    def add_usage(self, node_id: str, key: K, amount: int) -> None:
        """Add `amount` to the usage of a leaf, without a check of limits: reserved quota may exceed a lowered
        limit.

        Raises:
            NotALeafError: when the node has children.
            ValueError: on a negative amount.
        """
        if amount < 0:
            raise ValueError(f"usage of {amount} can't be added; remove it instead")
        leaf = self._leaf(node_id)
        leaf.mark_changed()
        leaf.add_usage(key, amount)

    def remove_usage(self, node_id: str, key: K, amount: int) -> None:
        """Remove `amount` from the usage of a leaf; the exact inverse of `add_usage`.

        Raises:
            NotALeafError: when the node has children.
            OverdrawnError: when less than that is used.
            ValueError: on a negative amount.
        """
        leaf = self._leaf(node_id)
        if amount < 0:
            raise ValueError(f"usage of {amount} can't be removed; add it instead")
        if leaf.get_usage(key) < amount:
            raise OverdrawnError(node_id, f"{node_id} uses {leaf.get_usage(key)} of {key}, not {amount}")
        leaf.mark_changed()
        leaf.remove_usage(key, amount)

    def add_usages(self, node_id: str, amounts: Mapping[K, int]) -> None:
        """`add_usage` for several keys."""
        leaf = self._leaf(node_id)
        leaf.mark_changed()
        for key, amount in amounts.items():
            if amount < 0:
                raise ValueError(f"usage of {amount} can't be added; remove it instead")
            leaf.add_usage(key, amount)

    def remove_usages(self, node_id: str, amounts: Mapping[K, int]) -> None:
        """`remove_usage` for several keys."""
        leaf = self._leaf(node_id)
        leaf.mark_changed()
        for key, amount in amounts.items():
            if not 0 <= amount <= leaf.usage.get(key, 0):
                self.remove_usage(node_id, key, amount)
            leaf.remove_usage(key, amount)

    def defer_usage(self, node_id: str, amounts: Mapping[K, int], count: int) -> None:
        """Call `add_usages` `count` times, or `remove_usages` if negative; counted at the next read.

        A simulation adds and removes much usage that is never read in between: consecutive calls with the
        same mapping cancel out. Errors are raised when the usage is counted.
        """
        if self._deferred and self._deferred[-1][1] is amounts and self._deferred[-1][0] == node_id:
            count += self._deferred.pop()[2]
        if count:
            self._deferred.append((node_id, amounts, count))

    def settle(self) -> None:
        """Count the deferred usage, summed per leaf; every read calls this first.

        Raises:
            NotALeafError, OverdrawnError: as `add_usages` and `remove_usages`.
        """
        deferred, self._deferred = self._deferred, []
        changes: dict[str, dict[K, int]] = {}
        for node_id, amounts, count in deferred:
            change = changes.setdefault(node_id, {})
            for key, amount in amounts.items():
                change[key] = change.get(key, 0) + amount * count
        for node_id, change in changes.items():
            leaf = self._leaf(node_id)
            leaf.mark_changed()
            for key, amount in change.items():
                if amount >= 0:
                    leaf.add_usage(key, amount)
                elif -amount <= leaf.usage.get(key, 0):
                    leaf.remove_usage(key, -amount)
                else:
                    self.remove_usage(node_id, key, -amount)

    def set_limits(self, node_id: str, limits: Mapping[K, NodeLimits]) -> None:
        """Replace a node's limits, and recompute the quota and usage of all nodes above it."""
        node = self._node(node_id)
        node.limits = dict(limits)
        self._lendable.clear()
        self._shares.clear()
        node.recompute_quota()
        while node.parent is not None:
            node = node.parent
            node.recompute_quota()

    @contextmanager
    def raised(self, node_id: str, amounts: Mapping[K, int]) -> Iterator[None]:
        """Raise the node's own nominal by these amounts inside the block; unlimited stays unlimited."""
        node = self._node(node_id)
        before, limits = node.limits, dict(node.limits)
        for key, amount in amounts.items():
            own = limits.get(key, NOTHING)
            limits[key] = replace(own, own_nominal=add_amounts(own.own_nominal, amount))
        if amounts:
            self.set_limits(node_id, limits)
        try:
            yield
        finally:
            if amounts:
                self.set_limits(node_id, before)

    def _lendable_of(self, node: TreeNode[K]) -> Lendable:
        known = self._lendable.get(node.id)
        if known is None:
            known = self._lendable[node.id] = sum_lendable(node, self._resource_of)
        return known

    def _node(self, node_id: str) -> TreeNode[K]:
        if self._deferred:
            self.settle()
        return self._find(node_id)

    def _find(self, node_id: str) -> TreeNode[K]:
        try:
            return self._nodes[node_id]
        except KeyError:
            raise UnknownNodeError(node_id, f"quota node {node_id} not found") from None

    def _leaf(self, node_id: str) -> TreeNode[K]:
        node = self._node(node_id)
        if node.children:
            raise NotALeafError(node_id, f"{node_id} has children; usage is kept at the leaves")
        return node

    def _leaves_first(self) -> list[TreeNode[K]]:
        ordered = [node for node in self._nodes.values() if node.parent is None]
        for node in ordered:
            ordered.extend(node.children)
        if len(ordered) < len(self._nodes):
            reached = {node.id for node in ordered}
            lost = [node_id for node_id in self._nodes if node_id not in reached]
            raise CycleError(lost[0], f"the parents of {', '.join(lost)} form a cycle")
        ordered.reverse()
        return ordered
