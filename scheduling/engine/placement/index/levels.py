"""This module numbers the domains of a topology: each row by rack, zone or another node label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.model import Flavor
from scheduling.engine.state.fleet import Fleet, Ints
from scheduling.engine.state.memo import read_memo

NO_DOMAIN = -1


@dataclass(frozen=True, slots=True, eq=False)
class TopologyLevels:
    """Domains by level, coarse to fine: `codes[level][row]` is a row's domain, `NO_DOMAIN` without one.

    Domains are numbered in the order of their label paths; `above[level][domain]` is the domain of the next
    coarser level around it.
    """

    labels: tuple[str, ...]
    codes: tuple[Ints, ...]
    above: tuple[Ints, ...]

    def sum_by_domain(self, level: int, amounts: Ints) -> Ints:
        """Return the amounts per row, summed by domain."""
        codes = self.codes[level]
        inside = codes != NO_DOMAIN
        total = np.bincount(codes[inside], weights=amounts[inside], minlength=len(self.above[level]))
        return total.astype(np.int64)


def levels_of(fleet: Fleet, labels: Sequence[str]) -> TopologyLevels:
    """Return the domains of the fleet's rows, kept as long as the fleet lives."""
    names = tuple(labels)
    return read_memo(fleet.memo, ("levels", names), lambda: _number(fleet, names))


def _number(fleet: Fleet, labels: tuple[str, ...]) -> TopologyLevels:
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
        codes.append(np.array([NO_DOMAIN if path is None else ranks[path] for path in paths], np.int64))
        above.append(np.array([upper.get(path[:-1], 0) for path in ranks], np.int64))
    return TopologyLevels(labels, tuple(codes), tuple(above))


def topology_labels(asked: Sequence[str], flavors: Sequence[Flavor]) -> tuple[str, ...]:
    """Return the levels of the first flavor that has the first of these; these alone if none has it."""
    known = (flavor.topology for flavor in flavors if asked[0] in flavor.topology)
    return next(known, tuple(dict.fromkeys(asked)))
