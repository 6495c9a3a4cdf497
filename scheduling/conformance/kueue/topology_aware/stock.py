"""The free amount of each resource in each leaf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from scheduling.conformance.kueue.topology_aware.result import Usage
from scheduling.conformance.kueue.topology_aware.tree import Ints, TopologyNode, TopologyTree

# Larger amounts count as unlimited; the sum of two such amounts fits in 64 bits.
_CEILING = 2**61
# The number of tasks that a leaf takes if nothing limits them.
COUNTLESS = 2**31 - 1


class Stock:
    """The free capacity of the leaves of one tree, as arrays of leaf by resource.

    There are two kinds of usage: that of tasks which were not placed by topology is never released; that of
    placed tasks can be released, and a search may ignore it (`if_empty`).
    """

    def __init__(self, tree: TopologyTree, nodes: Iterable[TopologyNode]) -> None:
        """Compute the sums of the allocatable amounts of the nodes of each leaf."""
        members = [node for node in nodes if node.name in tree.leaf_of]
        names = sorted({name for node in members for name in node.allocatable})
        self.tree = tree
        self._column = {name: column for column, name in enumerate(names)}
        shape = (tree.domain_count(tree.lowest), len(names))
        self._free = np.zeros(shape, dtype=np.int64)
        self._placed = np.zeros(shape, dtype=np.int64)
        for node in members:
            leaf = tree.leaf_of[node.name]
            self._free[leaf] = np.minimum(self._free[leaf] + self._vector(node.allocatable), _CEILING)

    def occupy_node(self, node: str, amounts: Mapping[str, int]) -> None:
        """Add the usage of a task on a node that was not placed by topology. Nodes outside the tree are
        ignored."""
        leaf = self.tree.leaf_of.get(node)
        if leaf is not None:
            self._free[leaf] -= self._vector(amounts)

    def hold_usages(self, usages: Iterable[Usage]) -> None:
        """Add the usage of placed tasks. Domains that no longer exist are ignored, because no task can be
        placed there."""
        self._add(self._placed, usages, 1)

    def release_usages(self, usages: Iterable[Usage]) -> None:
        """Remove the usage of placed tasks."""
        self._add(self._placed, usages, -1)

    def copy_free(self, assumed: Iterable[Usage] = (), *, if_empty: bool = False) -> Ints:
        """Return a copy of the free amounts minus `assumed`; with `if_empty` without the usage of placed
        tasks."""
        left = self._free.copy() if if_empty else self._free - self._placed
        self.take_usages(left, assumed)
        return left

    def take_usages(self, left: Ints, usages: Iterable[Usage]) -> None:
        """Subtract usages from an array that `copy_free` returned."""
        self._add(left, usages, -1)

    def fits_all(self, usages: Iterable[Usage]) -> bool:
        """Return whether all usages together still fit in their domains."""
        rows: dict[int, Ints] = {}
        for usage in usages:
            leaf = self.tree.leaf_index.get(usage.domain)
            if leaf is None:
                return False
            row = rows.setdefault(leaf, self._free[leaf : leaf + 1] - self._placed[leaf : leaf + 1])
            if int(self.count_tasks(row, usage.per_task)[0][0]) < usage.tasks:
                return False
            row -= self._vector(usage.per_task, usage.tasks)
        return True

    def count_tasks(self, left: Ints, per_task: Mapping[str, int]) -> tuple[Ints, Ints, list[str]]:
        """Return the number of tasks that fit in each leaf, and the resource that limits it.

        The second array indexes the returned list of resource names; ties go to the earlier name.
        """
        names = sorted(per_task)
        if not names:
            return np.zeros(len(left), np.int64), np.zeros(len(left), np.int64), names
        counts = np.empty((len(names), len(left)), dtype=np.int64)
        for row, name in enumerate(names):
            counts[row] = self._count_of(left, name, per_task[name])
        tightest = counts.argmin(axis=0)
        return counts.min(axis=0), tightest, names

    def subtract_amounts(self, left: Ints, amounts: Mapping[str, int], where: Ints) -> Ints:
        """Return `left` minus the amounts of one task in each leaf in `where` (leaf numbers)."""
        less = left.copy()
        less[where] -= self._vector(amounts)
        return less

    def _count_of(self, left: Ints, name: str, amount: int) -> Ints | int:
        if amount == 0:
            return COUNTLESS
        column = self._column.get(name)
        if column is None:
            return 0
        fitting: Ints = np.clip(left[:, column] // amount, 0, COUNTLESS)
        return fitting

    def _add(self, array: Ints, usages: Iterable[Usage], sign: int) -> None:
        for usage in usages:
            leaf = self.tree.leaf_index.get(usage.domain)
            if leaf is not None:
                array[leaf] += sign * self._vector(usage.per_task, usage.tasks)

    def _vector(self, amounts: Mapping[str, int], times: int = 1) -> Ints:
        """Return amounts as an array. A resource that no node offers has no column, and is left out."""
        row = np.zeros(len(self._column), dtype=np.int64)
        for name, amount in amounts.items():
            if name in self._column:
                row[self._column[name]] = min(amount * times, _CEILING)
        return row
