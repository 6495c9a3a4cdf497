"""Who goes next in classical order: who reaches less far up the tree, then one of each queue in turn.

All jobs inside what their queues own go before the first that borrows: what others leave for an owner, and
he does not need, belongs to the next owner. Among those that reach equally far, queues take turns, so that
nobody borrows more by waiting with more jobs. Source of the turns: Kueue's cycle, which takes one head of
each queue.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from scheduling.engine.actions.head_estimate import HeadEstimate, Tree, compute_borrow_level
from scheduling.engine.order.orders import candidate_key
from scheduling.engine.order.protocols import Candidate, Order


class Rounds:
    """The contenders of one cycle over one tree; at most one for each leaf."""

    def __init__(self, tree: Tree, chain: Sequence[Order], contenders: Iterable[HeadEstimate]) -> None:
        self._tree = tree
        self._key = candidate_key(chain)
        self._heads: dict[str, HeadEstimate] = {}
        self._turns: Counter[tuple[int, str]] = Counter()
        # Leaves by the part of the tree below the root that they are in: how far one of them reaches up
        # depends on the others.
        self._parts: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._part: dict[str, str] = {}
        self._heap: list[tuple[tuple[Any, ...], str]] = []
        self._places: dict[str, tuple[Any, ...]] = {}
        for contender in contenders:
            self.put(contender)

    def __bool__(self) -> bool:
        return bool(self._heads)

    def put(self, contender: HeadEstimate) -> None:
        """Let a job stand for its leaf, in place of any other."""
        self._parts[self._part_of(contender.leaf)][contender.leaf] = None
        self._heads[contender.leaf] = contender
        self._place(contender)

    def touch(self, leaf: str) -> None:
        """Usage at a leaf changed: others beside it may reach less far now, or farther."""
        for other in self._parts[self._part_of(leaf)]:
            if other in self._heads:
                self._place(self._heads[other])

    def pop(self) -> HeadEstimate:
        """Take out the job that goes next.

        Raises:
            IndexError: when nobody is left.
        """
        while True:
            place, leaf = heappop(self._heap)
            if self._places.get(leaf) == place:
                del self._places[leaf]
                self._turns[place[0], leaf] += 1
                return self._heads.pop(leaf)

    def _place(self, contender: HeadEstimate) -> None:
        level = compute_borrow_level(self._tree, contender.leaf, contender.usage)
        place = (level, self._turns[level, contender.leaf], *self._key(Candidate(contender.job, level)))
        if self._places.get(contender.leaf) != place:
            self._places[contender.leaf] = place
            heappush(self._heap, (place, contender.leaf))

    def _part_of(self, leaf: str) -> str:
        part = self._part.get(leaf)
        if part is None:
            part = self._part[leaf] = (leaf, *self._tree.path(leaf))[-2]
        return part
