"""The nodes of a quota tree by position, so that amounts of all of them stand in lists."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from quotas.tree.limits import Amount, add_amounts

NodeId = uuid.UUID
Parents = Mapping[NodeId, NodeId | None]


class NodeOrder:
    """The nodes in an order in which each follows its parent; the order of siblings is that of `parents`.

    A cell has hundreds of nodes and dozens of flavors and resources, and for each of these the same sums are
    computed over all nodes: positions in lists cost a third of what dictionaries by id cost there.
    """

    def __init__(self, parents: Parents) -> None:
        below: defaultdict[NodeId, list[NodeId]] = defaultdict(list)
        for node, parent in parents.items():
            if parent is not None:
                below[parent].append(node)
        self.nodes = [node for node, parent in parents.items() if parent is None]
        for node in self.nodes:
            self.nodes.extend(below[node])
        self.positions = {node: position for position, node in enumerate(self.nodes)}
        above = (parents[node] for node in self.nodes)
        self.parents: list[int | None] = [None if node is None else self.positions[node] for node in above]

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def children(self) -> Sequence[Sequence[int]]:
        """The positions of the children of each node."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for position, parent in enumerate(self.parents):
            if parent is not None:
                found[parent].append(position)
        return found

    def sum_amounts(self, amounts: Sequence[Amount]) -> list[Amount]:
        """Sum the amounts of each node and of all nodes below it; unlimited absorbs everything."""
        found = list(amounts)
        for position in range(len(found) - 1, -1, -1):
            amount, parent = found[position], self.parents[position]
            if parent is not None and amount != 0:
                found[parent] = add_amounts(found[parent], amount)
        return found

    def sum_counts(self, counts: Sequence[int]) -> list[int]:
        """Sum the counts of each node and of all nodes below it."""
        found = list(counts)
        for position in range(len(found) - 1, -1, -1):
            parent = self.parents[position]
            if parent is not None:
                found[parent] += found[position]
        return found
