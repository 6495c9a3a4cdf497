"""Who goes next under fair sharing: a tournament from the leaves of the quota tree to its root.

At each node the best of its children's contenders wins. Children are compared by what their part of
the tree would use with the contender included, so a job is judged at every level by the level's own
usage. Source of the rule: Kueue's fair-sharing order of a cycle.

A node's winner is kept until another contender stands below it, and the shares behind it until usage there
changes, so that a step costs the children along one path and not the whole tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quotas.tree import QuotaTree
from scheduling.engine.model import FlavorResource, Job
from scheduling.engine.order.orders import candidate_key
from scheduling.engine.plugins.protocols import Candidate, Order


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A head of a queue. `leaf` is the queue's quota node, `usage` what the job would be charged."""

    job: Job
    leaf: str
    queue: str
    usage: Mapping[FlavorResource, int]
    borrow_level: int = 0


@dataclass(slots=True)
class _Point:
    """One node of the tree on the way of some contender. `used` counts how often usage below it changed.

    `settled` tells whether `winner` still holds.
    """

    children: list[str] = field(default_factory=list)
    used: int = 0
    settled: bool = False
    winner: Contender | None = None


class Tournament:
    """The contenders of one cycle over one tree; at most one for each leaf."""

    def __init__(
        self, tree: QuotaTree[FlavorResource], chain: Sequence[Order], contenders: Iterable[Contender]
    ) -> None:
        self._tree = tree
        self._key = candidate_key(chain)
        self._heads: dict[str, Contender] = {}
        self._points: dict[str, _Point] = {}
        self._roots: list[str] = []
        self._paths: dict[str, tuple[str, ...]] = {}
        self._known: dict[tuple[str, str], tuple[int, tuple[Any, ...]]] = {}
        for contender in contenders:
            self.put(contender)

    def __bool__(self) -> bool:
        return bool(self._heads)

    def put(self, contender: Contender) -> None:
        """Let a job stand for its leaf, in place of any other."""
        if contender.leaf not in self._paths:
            self._grow(contender.leaf)
        self._heads[contender.leaf] = contender
        self._open(contender.leaf)

    def touch(self, leaf: str) -> None:
        """Usage at a leaf changed: everything decided above it is open again."""
        for point in self._open(leaf):
            point.used += 1

    def pop(self) -> Contender:
        """Take out the job that goes next.

        Roots share no quota, so between them only the jobs themselves are compared.

        Raises:
            IndexError: when nobody is left.
        """
        winners = [winner for root in self._roots if (winner := self._winner(root)) is not None]
        if not winners:
            raise IndexError("a tournament without contenders")
        best = min(winners, key=self._outright)
        del self._heads[best.leaf]
        self._open(best.leaf)
        return best

    def _open(self, leaf: str) -> list[_Point]:
        """Let the winners above a leaf be found anew."""
        points = [self._points[node] for node in self._path(leaf) if node in self._points]
        for point in points:
            point.settled = False
        return points

    def _grow(self, leaf: str) -> None:
        path = tuple(self._tree.path(leaf))
        self._paths[leaf] = path
        for index, node in enumerate(path):
            known = node in self._points
            self._points.setdefault(node, _Point())
            if index:
                self._points[node].children.append(path[index - 1])
            if known:
                return
        self._roots.append(path[-1])

    def _path(self, leaf: str) -> tuple[str, ...]:
        known = self._paths.get(leaf)
        return tuple(self._tree.path(leaf)) if known is None else known

    def _winner(self, node: str) -> Contender | None:
        point = self._points[node]
        if not point.settled:
            rivals = self._rivals(node, point)
            point.winner = min(rivals, key=lambda rival: rival[0])[1] if rivals else None
            point.settled = True
        return point.winner

    def _rivals(self, node: str, point: _Point) -> list[tuple[tuple[Any, ...], Contender]]:
        own = self._heads.get(node)
        if own is not None:
            return [((), own)]
        found = ((child, self._winner(child)) for child in point.children)
        return [(self._at(child, winner), winner) for child, winner in found if winner is not None]

    def _at(self, node: str, contender: Contender) -> tuple[Any, ...]:
        """The contender's place in the order among the children of the node's parent."""
        used = self._points[node].used
        key = (node, contender.job.id)
        known = self._known.get(key)
        if known is None or known[0] != used:
            known = self._known[key] = (used, self._judged(node, contender))
        return known[1]

    def _judged(self, node: str, contender: Contender) -> tuple[Any, ...]:
        more = self._tree.carried(contender.leaf, node, contender.usage)
        borrows = any(self._tree.borrows(node, key, more.get(key, 0)) for key in contender.usage)
        share = self._tree.share(node, more)
        return self._key(Candidate(contender.job, contender.borrow_level, borrows, share))

    def _outright(self, contender: Contender) -> tuple[Any, ...]:
        return self._key(Candidate(contender.job, contender.borrow_level))
