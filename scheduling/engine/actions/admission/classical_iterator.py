"""This module orders heads without fair sharing: by borrow level, then queue by queue.

All jobs inside their queues' own quota come before the first that borrows: what is released for an owner that
does not need it belongs to the next owner. Among heads of equal borrow level queues alternate, so that no
queue borrows more by submitting more jobs. Source: Kueue's cycle, which takes one head of each queue.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from scheduling.engine.actions.head_estimate import HeadEstimate, Tree, compute_borrow_level
from scheduling.engine.order.orders import candidate_key
from scheduling.engine.order.protocols import Candidate, Order


class ClassicalIterator:
    """The heads of one cycle over one quota tree, at most one for each leaf.

    `tree` may be replaced by one of the same nodes, limits and usage.
    """

    def __init__(self, tree: Tree, chain: Sequence[Order], heads: Iterable[HeadEstimate]) -> None:
        self.tree = tree
        self._key = candidate_key(chain)
        self._heads: dict[str, HeadEstimate] = {}
        self._turns: Counter[tuple[int, str]] = Counter()
        # Leaves by their subtree below the root: the borrow level of one depends on the usage of the others.
        self._parts: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._part: dict[str, str] = {}
        self._heap: list[tuple[tuple[Any, ...], str]] = []
        self._places: dict[str, tuple[Any, ...]] = {}
        for head in heads:
            self.put_head(head)

    def __bool__(self) -> bool:
        return bool(self._heads)

    def put_head(self, head: HeadEstimate) -> None:
        """Make a job the head of its leaf, in place of any other."""
        self._parts[self._part_of(head.leaf)][head.leaf] = None
        self._heads[head.leaf] = head
        self._place(head)

    def update_leaf(self, leaf: str) -> None:
        """Reorder the heads near a leaf after its usage changed: their borrow levels may be others now."""
        for other in self._parts[self._part_of(leaf)]:
            if other in self._heads:
                self._place(self._heads[other])

    def pop_next(self) -> HeadEstimate:
        """Remove and return the next head.

        Raises:
            IndexError: when no head is left.
        """
        while True:
            place, leaf = heappop(self._heap)
            if self._places.get(leaf) == place:
                del self._places[leaf]
                self._turns[place[0], leaf] += 1
                return self._heads.pop(leaf)

    def _place(self, head: HeadEstimate) -> None:
        level = compute_borrow_level(self.tree, head.leaf, head.usage)
        place = (level, self._turns[level, head.leaf], *self._key(Candidate(head.job, level)))
        if self._places.get(head.leaf) != place:
            self._places[head.leaf] = place
            heappush(self._heap, (place, head.leaf))

    def _part_of(self, leaf: str) -> str:
        part = self._part.get(leaf)
        if part is None:
            part = self._part[leaf] = (leaf, *self.tree.path(leaf))[-2]
        return part
