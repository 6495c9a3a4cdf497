"""The domains of a topology: rows of the fleet numbered by rack, zone or another node label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.model import Flavor, TopologyRule
from scheduling.engine.state.fleet import Fleet, Ints

NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Domains by level, coarse to fine: `codes[level][row]` is a row's domain, `NOWHERE` without one.

    Domains are numbered in the order of their label paths; `above[level][domain]` is the domain of the
    next coarser level around it.
    """

    labels: tuple[str, ...]
    codes: tuple[Ints, ...]
    above: tuple[Ints, ...]

    def sums(self, level: int, amounts: Ints) -> Ints:
        """Amounts per row added up by domain."""
        codes = self.codes[level]
        inside = codes != NOWHERE
        total = np.bincount(codes[inside], weights=amounts[inside], minlength=len(self.above[level]))
        return total.astype(np.int64)


def levels_of(fleet: Fleet, labels: Sequence[str]) -> Levels:
    """The domains of the fleet's rows, kept while the fleet lives."""
    key = ("levels", tuple(labels))
    known = fleet.memo.get(key)
    if not isinstance(known, Levels):
        known = fleet.memo[key] = _number(fleet, tuple(labels))
    return known


def _number(fleet: Fleet, labels: tuple[str, ...]) -> Levels:
    codes: list[Ints] = []
    above: list[Ints] = []
    ranks: dict[tuple[str, ...], int] = {}
    for depth in range(1, len(labels) + 1):
        paths = [
            tuple(node.labels[label] for label in labels[:depth])
            if all(label in node.labels for label in labels[:depth])
            else None
            for node in fleet.nodes
        ]
        upper = ranks
        ranks = {path: rank for rank, path in enumerate(sorted({path for path in paths if path}))}
        codes.append(np.array([NOWHERE if path is None else ranks[path] for path in paths], np.int64))
        above.append(np.array([upper.get(path[:-1], 0) for path in ranks], np.int64))
    return Levels(labels, tuple(codes), tuple(above))


def topology_labels(rule: TopologyRule, flavors: Sequence[Flavor]) -> tuple[str, ...]:
    """The levels of the first flavor that knows the rule's level; the level alone where none does."""
    for flavor in flavors:
        if rule.level in flavor.topology:
            return flavor.topology
    return tuple(dict.fromkeys(label for label in (rule.level, rule.preferred_level) if label))
