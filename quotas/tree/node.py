"""One node of the quota tree: its limits, the quota of its subtree, and its usage.

The formulas are those of Kueue's hierarchical quota (`pkg/cache/scheduler/resource_node.go`, SubtreeQuota,
localQuota, Usage), extended by an unlimited nominal. Usage is what admitted jobs reserve: at a leaf all of
it, at inner nodes what exceeds the local quota of the children.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from quotas.tree.limits import (
    NOTHING,
    Amount,
    NodeLimits,
    add_amounts,
    compute_lent_quota,
    compute_local_quota,
    compute_spilled_usage,
    min_amount,
)

K = TypeVar("K", bound=Hashable)


class TreeNode(Generic[K]):
    """State of one node; only `QuotaTree` builds and links it.

    `changes` counts how often its usage changed, `subtree_changes` how often that of the node or of a node
    below changed.
    """

    __slots__ = (
        "_borrowed",
        "_borrowed_at",
        "_over",
        "_over_at",
        "changes",
        "children",
        "height",
        "id",
        "limits",
        "local_quota",
        "parent",
        "subtree",
        "subtree_changes",
        "usage",
        "weight_milli",
    )

    def __init__(self, node_id: str, limits: Mapping[K, NodeLimits], weight_milli: int = 1000) -> None:
        self.id = node_id
        self.weight_milli = weight_milli
        self.limits: dict[K, NodeLimits] = dict(limits)
        self.parent: TreeNode[K] | None = None
        self.children: list[TreeNode[K]] = []
        self.subtree: dict[K, Amount] = {}
        self.local_quota: dict[K, Amount] = {}
        self.usage: dict[K, int] = {}
        self.height = self.changes = self.subtree_changes = 0
        # Cache: the keys over quota at the value `_over_at` of `changes`.
        self._over: frozenset[K] = frozenset()
        self._over_at = -1
        # Cache: the borrowed amount of each resource at the value `_borrowed_at` of `changes`.
        self._borrowed: dict[str, int] = {}
        self._borrowed_at = -1

    def copy(self) -> TreeNode[K]:
        """Return a copy of the node without parent and children."""
        twin = TreeNode(self.id, self.limits, self.weight_milli)
        twin.subtree, twin.local_quota, twin.usage = (
            dict(self.subtree),
            dict(self.local_quota),
            dict(self.usage),
        )
        twin.height = self.height
        return twin

    def get_subtree_quota(self, key: K) -> Amount:
        """Return the quota of the subtree: the node's own nominal and what its children lend upwards."""
        return self.subtree.get(key, 0)

    def get_usage(self, key: K) -> int:
        """Return the usage of the subtree without what its nodes hold in their local quota."""
        return self.usage.get(key, 0)

    def get_local_quota(self, key: K) -> Amount:
        """Return the part of the subtree's quota that may not be lent (Kueue: localQuota)."""
        return self.local_quota.get(key, 0)

    def lent_to_parent(self, key: K) -> int:
        """Return the part of the subtree's quota that counts for the parent."""
        return compute_lent_quota(self.get_subtree_quota(key), self.get_local_quota(key))

    def usage_at_parent(self, key: K) -> int:
        """Return the part of the usage that counts at the parent."""
        return compute_spilled_usage(self.get_usage(key), self.get_local_quota(key))

    def added_at_parent(self, key: K, extra: int) -> int:
        """Return how much of additional usage would count at the parent."""
        local = self.local_quota.get(key, 0)
        if not local:
            return 0 if local is None else extra
        return max(0, extra - max(0, local - self.get_usage(key)))

    def local_available(self, key: K) -> Amount:
        """Return what can be added to the usage before it counts at the parent."""
        local = self.local_quota.get(key, 0)
        if not local:
            return local
        return max(0, local - self.usage.get(key, 0))

    def available_quota(self, key: K, freed: Mapping[str, int] | None = None) -> Amount:
        """Return what can be added now; negative where other nodes use more than their quota.

        `freed` is by node id the amount by which usage is to be counted lower.
        """
        node, unused, bound = self, 0, None
        while True:
            quota, used = node.subtree.get(key, 0), node.usage.get(key, 0)
            if quota is None:
                return bound
            if freed is not None:
                used = max(0, used - freed.get(node.id, 0))
            above = node.parent
            if above is None:
                return min_amount(quota - used + unused, bound)
            local, own = node.local_quota.get(key, 0) or 0, node.limits.get(key)
            if used < local:
                unused += local - used
            if own is not None and own.borrowing_limit is not None:
                bound = min_amount(quota - max(local, used) + own.borrowing_limit + unused, bound)
            node = above

    def potential_quota(self, key: K) -> Amount:
        """Return what could be added if nothing were used."""
        quota = self.get_subtree_quota(key)
        if quota is None or self.parent is None:
            return quota
        reachable = add_amounts(self.get_local_quota(key), self.parent.potential_quota(key))
        borrowing = self.limits.get(key, NOTHING).borrowing_limit
        return reachable if borrowing is None else min_amount(quota + borrowing, reachable)

    def exceeds_quota(self, key: K, extra: int) -> bool:
        """Return whether usage with `extra` would be above the quota of the subtree."""
        quota = self.subtree.get(key, 0)
        return quota is not None and self.usage.get(key, 0) + extra > quota

    def is_over_quota(self, keys: Iterable[K]) -> bool:
        """Return whether usage of any of the keys is above the quota of the subtree."""
        if self._over_at != self.changes:
            self._over_at = self.changes
            self._over = frozenset(key for key in self.usage if self.exceeds_quota(key, 0))
        return not self._over.isdisjoint(keys)

    def sum_borrowed(self, resource_of: Callable[[K], str | None]) -> Mapping[str, int]:
        """Sum by resource the usage above the quota of the subtree, over its keys; no zeros."""
        if self._borrowed_at != self.changes:
            self._borrowed_at, self._borrowed = self.changes, {}
            for key, used in self.usage.items():
                quota, resource = self.subtree.get(key, 0), resource_of(key)
                if quota is not None and used > quota and resource is not None:
                    self._borrowed[resource] = self._borrowed.get(resource, 0) + used - quota
        return self._borrowed

    def change_of_borrowed(self, key: K, extra: int) -> int:
        """Return the change of the usage above the quota of the subtree if usage changed by `extra`."""
        quota = self.subtree.get(key, 0)
        if quota is None:
            return 0
        before = self.usage.get(key, 0) - quota
        after = before + extra
        return (after if after > 0 else 0) - (before if before > 0 else 0)

    def mark_changed(self) -> None:
        """Record that usage at this leaf changed, even if no node above changes."""
        node: TreeNode[K] | None = self
        while node is not None:
            node.subtree_changes += 1
            node = node.parent

    def add_usage(self, key: K, amount: int) -> None:
        """Add usage here, and at the nodes above as far as it exceeds local quota."""
        node = self
        while amount:
            used = node.usage.get(key, 0)
            node.changes += 1
            if used + amount:
                node.usage[key] = used + amount
            else:
                del node.usage[key]
            local, above = node.local_quota.get(key, 0), node.parent
            if above is None or local is None:
                return
            if used < local:
                amount -= min(amount, local - used)
            node = above

    def remove_usage(self, key: K, amount: int) -> None:
        """Remove usage here, and at the nodes above as far as it exceeded local quota."""
        node = self
        while amount:
            used = node.usage.get(key, 0)
            node.changes += 1
            if used - amount:
                node.usage[key] = used - amount
            else:
                node.usage.pop(key, None)
            local, above = node.local_quota.get(key, 0), node.parent
            if above is None or local is None or used <= local:
                return
            amount = min(amount, used - local)
            node = above

    def recompute_quota(self) -> None:
        """Recompute subtree quota, and usage of an inner node, from the children."""
        self._over_at = self._borrowed_at = -1
        keys = set(self.limits)
        for child in self.children:
            keys.update(child.subtree, child.usage)
        self.subtree = {key: self._gathered_quota(key) for key in keys}
        self.local_quota = {key: self._local_quota_of(key) for key in keys}
        if self.children:
            spills = ((key, sum(child.usage_at_parent(key) for child in self.children)) for key in keys)
            self.usage = {key: amount for key, amount in spills if amount}
        self.height = 1 + max(child.height for child in self.children) if self.children else 0

    def _gathered_quota(self, key: K) -> Amount:
        return add_amounts(
            self.limits.get(key, NOTHING).own_nominal,
            sum(child.lent_to_parent(key) for child in self.children),
        )

    def _local_quota_of(self, key: K) -> Amount:
        return compute_local_quota(self.subtree[key], self.limits.get(key, NOTHING).lending_limit)
