"""This module orders heads under fair sharing, by a tournament from the leaves of the quota tree to its root.

At each node the best head of its children wins. Children are compared by the usage of their subtree with the
head included, so a job is compared at every level by that level's own usage. Source of the rule: Kueue's
fair-sharing iterator (KEP-1714, fair sharing in the order of admission).

A node keeps the winners of its children in a heap. So a step costs one comparison at each node of one path,
not the whole tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from scheduling.engine.actions.head_estimate import HeadEstimate, Tree
from scheduling.engine.order.orders import candidate_key
from scheduling.engine.order.protocols import Candidate, Order

_Entry = tuple[tuple[Any, ...], str]
"""An entry of a node's heap: the sort key of a child's winner, and the child."""


@dataclass(slots=True)
class _TreePoint:
    """One node of the tree on the path of some head.

    `depth` is its distance from the root; `entry` is its present entry in its parent's heap, where outdated
    ones may still be.
    """

    depth: int
    above: _TreePoint | None
    winner: HeadEstimate | None = None
    entry: _Entry | None = None
    heap: list[_Entry] = field(default_factory=list)


class FairSharingIterator:
    """The heads of one cycle over one quota tree, at most one for each leaf.

    `tree` may be replaced by one of the same nodes, limits and usage.
    """

    def __init__(self, tree: Tree, chain: Sequence[Order], heads: Iterable[HeadEstimate]) -> None:
        self.tree = tree
        self._key = candidate_key(chain)
        self._heads: dict[str, HeadEstimate] = {}
        self._points: dict[str, _TreePoint] = {}
        self._roots: list[_TreePoint] = []
        self._paths: dict[str, tuple[str, ...]] = {}
        # Leaves above which winners are outdated.
        self._open: dict[str, None] = {}
        for head in heads:
            self.put_head(head)

    def __bool__(self) -> bool:
        return bool(self._heads)

    def put_head(self, head: HeadEstimate) -> None:
        """Make a job the head of its leaf, in place of any other."""
        if head.leaf not in self._paths:
            self._add_path(head.leaf)
        self._heads[head.leaf] = head
        self._open[head.leaf] = None

    def update_leaf(self, leaf: str) -> None:
        """Mark the winners above a leaf as outdated after its usage changed."""
        self._open[leaf] = None

    def pop_next(self) -> HeadEstimate:
        """Remove and return the next head.

        Roots share no quota, so between them only the jobs themselves are compared.

        Raises:
            IndexError: when no head is left.
        """
        self._update_winners()
        winners = [root.winner for root in self._roots if root.winner is not None]
        if not winners:
            raise IndexError("a tournament without contenders")
        best = min(winners, key=lambda head: self._key(Candidate(head.job, head.borrow_level)))
        del self._heads[best.leaf]
        self._open[best.leaf] = None
        return best

    def _add_path(self, leaf: str) -> None:
        path = tuple(self.tree.path(leaf))
        self._paths[leaf] = path
        above: _TreePoint | None = None
        for depth, node in enumerate(reversed(path)):
            if node not in self._points:
                self._points[node] = _TreePoint(depth, above)
                if above is None:
                    self._roots.append(self._points[node])
            above = self._points[node]

    def _update_winners(self) -> None:
        """Find the winners above all outdated leaves, from the deepest nodes to the roots."""
        points: dict[str, _TreePoint] = {}
        for leaf in self._open:
            for node in self._paths.get(leaf) or self.tree.path(leaf):
                if node in self._points:
                    points[node] = self._points[node]
        # A single path is in order from its leaf to the root already.
        ordered = len(self._open) < 2
        self._open.clear()
        for node in points if ordered else sorted(points, key=lambda node: -points[node].depth):
            self._decide(node, points[node])

    def _decide(self, node: str, point: _TreePoint) -> None:
        point.winner = self._heads.get(node) or self._first(point.heap)
        point.entry = None
        if point.winner is not None and point.above is not None:
            point.entry = (self._place(node, point.winner), node)
            heappush(point.above.heap, point.entry)

    def _first(self, heap: list[_Entry]) -> HeadEstimate | None:
        while heap:
            point = self._points[heap[0][1]]
            if point.entry is heap[0]:
                return point.winner
            heappop(heap)
        return None

    def _place(self, node: str, head: HeadEstimate) -> tuple[Any, ...]:
        """Return the head's sort key among the children of the node's parent."""
        more = self.tree.carried(head.leaf, node, head.usage)
        borrows = self.tree.borrows_any(node, head.usage, more)
        share = self.tree.share(node, more)
        return self._key(Candidate(head.job, head.borrow_level, borrows, share))
