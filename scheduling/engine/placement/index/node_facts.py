"""This module keeps lasting facts of nodes as arrays: computed once, and again only for revised nodes.

Labels, taints and pressure of some nodes change between most cycles. Computing each derived fact for all
nodes again costs more than evaluating the jobs. It is meant for a small number of facts: they are kept as
long as the fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import Node
from scheduling.engine.state.fleet import Bools, Fleet, Ints
from scheduling.engine.state.memo import read_memo

NONE = -1


class NodeFacts:
    """One fact of each node, by row. Its function may read only what lasts of the node."""

    follows_fleet = True

    def __init__(self, fleet: Fleet, compute_fact: Callable[[Node], int], dtype: type[np.generic]) -> None:
        self._fleet, self._compute_fact = fleet, compute_fact
        self._facts: NDArray[Any] = np.zeros(len(fleet), dtype)
        self._epoch, self._seen = -1, 0

    def read_facts(self) -> NDArray[Any]:
        """Return the facts, `[rows]`; the array must not be written to."""
        fleet = self._fleet
        if self._epoch != fleet.epoch:
            self._facts[:] = [self._compute_fact(node) for node in fleet.nodes]
        else:
            for row in fleet.revised_rows[self._seen :]:
                self._facts[row] = self._compute_fact(fleet.nodes[row])
        self._epoch, self._seen = fleet.epoch, len(fleet.revised_rows)
        return self._facts


class NodeKinds(NodeFacts):
    """A fact that is no number: equal values have the same number, in `kinds`; `None` has -1."""

    def __init__(self, fleet: Fleet, of: Callable[[Node], Hashable]) -> None:
        self.kinds: dict[Hashable, int] = {}
        super().__init__(fleet, lambda node: self._number(of(node)), np.int64)

    def _number(self, kind: Hashable) -> int:
        return NONE if kind is None else self.kinds.setdefault(kind, len(self.kinds))


def marked_rows(fleet: Fleet, name: Hashable, marks: Callable[[Node], bool]) -> Bools:
    """Return the rows whose node is marked. Marks of the same name have the same function."""
    return read_memo(fleet.memo, name, lambda: NodeFacts(fleet, marks, np.bool_)).read_facts()


def number_facts(fleet: Fleet, name: Hashable, of: Callable[[Node], Hashable]) -> tuple[Ints, list[Any]]:
    """Return, for each row, the number of a fact among those that exist, or existed."""
    known = read_memo(fleet.memo, name, lambda: NodeKinds(fleet, of))
    codes = known.read_facts()
    return codes, list(known.kinds)
