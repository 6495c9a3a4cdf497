"""What lasts of each node, as arrays: told once, and again only of nodes that were revised.

Labels, taints and pressure of some nodes change between most cycles. To ask all nodes again for each of the
facts that are derived from them costs more than judging the jobs. For facts of which there are few: they are
kept as long as the fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import Node
from scheduling.engine.state.fleet import Bools, Fleet, Ints

NONE = -1


class NodeFacts:
    """One fact of each node, by row. What tells it may look at nothing but what lasts of the node."""

    follows_fleet = True

    def __init__(self, fleet: Fleet, tell: Callable[[Node], int], dtype: type[np.generic]) -> None:
        self._fleet, self._tell = fleet, tell
        self._facts: NDArray[Any] = np.zeros(len(fleet), dtype)
        self._epoch, self._seen = -1, 0

    def now(self) -> NDArray[Any]:
        """`[rows]`, not to be written to."""
        fleet = self._fleet
        if self._epoch != fleet.epoch:
            self._facts[:] = [self._tell(node) for node in fleet.nodes]
        else:
            for row in fleet.revised[self._seen :]:
                self._facts[row] = self._tell(fleet.nodes[row])
        self._epoch, self._seen = fleet.epoch, len(fleet.revised)
        return self._facts


class NodeKinds(NodeFacts):
    """A fact that is no number: equal ones have the same number, in `kinds`; `None` has -1."""

    def __init__(self, fleet: Fleet, of: Callable[[Node], Hashable]) -> None:
        self.kinds: dict[Hashable, int] = {}
        super().__init__(fleet, lambda node: self._number(of(node)), np.int64)

    def _number(self, kind: Hashable) -> int:
        return NONE if kind is None else self.kinds.setdefault(kind, len(self.kinds))


def marked(fleet: Fleet, name: Hashable, marks: Callable[[Node], bool]) -> Bools:
    """The rows whose node is marked. What has the same name is told in the same way."""
    known = fleet.memo.get(name)
    if not isinstance(known, NodeFacts):
        known = fleet.memo[name] = NodeFacts(fleet, marks, np.bool_)
    return known.now()


def numbered(fleet: Fleet, name: Hashable, of: Callable[[Node], Hashable]) -> tuple[Ints, list[Any]]:
    """For each row the number of a fact among those that there are, or were."""
    known = fleet.memo.get(name)
    if not isinstance(known, NodeKinds):
        known = fleet.memo[name] = NodeKinds(fleet, of)
    codes = known.now()
    return codes, list(known.kinds)
