"""Who goes next under fair sharing: a tournament from the leaves of the quota tree to its root.

At each node the best of its children's contenders wins. Children are compared by what their part of
the tree would use with the contender included, so a job is judged at every level by the level's own
usage. Source of the rule: Kueue's fair-sharing order of a cycle.

A node keeps the winners of its children in a heap, and the shares behind them until usage below changes. So
a step costs one look at each node of one path, not the whole tree.
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
"""A child's winner in the heap of its parent: its place in the order, and the child."""


@dataclass(slots=True)
class _Point:
    """One node of the tree on the way of some contender.

    `depth` is its distance from the root; `used` counts how often usage below it changed; `entry` is under
    what it stands in its parent's heap now, where older ones of it may still lie.
    """

    depth: int
    above: _Point | None
    used: int = 0
    winner: HeadEstimate | None = None
    entry: _Entry | None = None
    heap: list[_Entry] = field(default_factory=list)


class Tournament:
    """The contenders of one cycle over one tree; at most one for each leaf."""

    def __init__(self, tree: Tree, chain: Sequence[Order], contenders: Iterable[HeadEstimate]) -> None:
        self._tree = tree
        self._key = candidate_key(chain)
        self._heads: dict[str, HeadEstimate] = {}
        self._points: dict[str, _Point] = {}
        self._roots: list[_Point] = []
        self._paths: dict[str, tuple[str, ...]] = {}
        self._known: dict[tuple[str, str], tuple[int, tuple[Any, ...]]] = {}
        # Leaves above which winners are to be found anew.
        self._open: dict[str, None] = {}
        for contender in contenders:
            self.put(contender)

    def __bool__(self) -> bool:
        return bool(self._heads)

    def put(self, contender: HeadEstimate) -> None:
        """Let a job stand for its leaf, in place of any other."""
        if contender.leaf not in self._paths:
            self._grow(contender.leaf)
        self._heads[contender.leaf] = contender
        self._open[contender.leaf] = None

    def touch(self, leaf: str) -> None:
        """Usage at a leaf changed: the shares above it are others."""
        path = self._paths.get(leaf) or tuple(self._tree.path(leaf))
        for point in (self._points[node] for node in path if node in self._points):
            point.used += 1
        self._open[leaf] = None

    def pop(self) -> HeadEstimate:
        """Take out the job that goes next.

        Roots share no quota, so between them only the jobs themselves are compared.

        Raises:
            IndexError: when nobody is left.
        """
        self._settle()
        winners = [root.winner for root in self._roots if root.winner is not None]
        if not winners:
            raise IndexError("a tournament without contenders")
        best = min(winners, key=self._outright)
        del self._heads[best.leaf]
        self._open[best.leaf] = None
        return best

    def _grow(self, leaf: str) -> None:
        path = tuple(self._tree.path(leaf))
        self._paths[leaf] = path
        above: _Point | None = None
        for depth, node in enumerate(reversed(path)):
            if node not in self._points:
                self._points[node] = _Point(depth, above)
                if above is None:
                    self._roots.append(self._points[node])
            above = self._points[node]

    def _settle(self) -> None:
        """Find the winners above all open leaves, from the deepest nodes to the roots."""
        points: dict[str, _Point] = {}
        for leaf in self._open:
            for node in self._paths.get(leaf) or self._tree.path(leaf):
                if node in self._points:
                    points[node] = self._points[node]
        # One path goes from its leaf to the root as it is.
        ordered = len(self._open) < 2
        self._open.clear()
        for node in points if ordered else sorted(points, key=lambda node: -points[node].depth):
            self._decide(node, points[node])

    def _decide(self, node: str, point: _Point) -> None:
        point.winner = self._heads.get(node) or self._first(point.heap)
        point.entry = None
        if point.winner is not None and point.above is not None:
            point.entry = (self._at(node, point.winner), node)
            heappush(point.above.heap, point.entry)

    def _first(self, heap: list[_Entry]) -> HeadEstimate | None:
        while heap:
            point = self._points[heap[0][1]]
            if point.entry is heap[0]:
                return point.winner
            heappop(heap)
        return None

    def _at(self, node: str, contender: HeadEstimate) -> tuple[Any, ...]:
        """The contender's place in the order among the children of the node's parent."""
        used = self._points[node].used
        key = (node, contender.job.id)
        known = self._known.get(key)
        if known is None or known[0] != used:
            known = self._known[key] = (used, self._judged(node, contender))
        return known[1]

    def _judged(self, node: str, contender: HeadEstimate) -> tuple[Any, ...]:
        more = self._tree.carried(contender.leaf, node, contender.usage)
        borrows = self._tree.borrows_any(node, contender.usage, more)
        share = self._tree.share(node, more)
        return self._key(Candidate(contender.job, contender.borrow_level, borrows, share))

    def _outright(self, contender: HeadEstimate) -> tuple[Any, ...]:
        return self._key(Candidate(contender.job, contender.borrow_level))
