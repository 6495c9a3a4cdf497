"""The expected waste F of nodes that might be, to the last bit of the published order of summing.

F is the sum over typical shapes of frequency × idle core units that the shape cannot use. Each shape's
term goes to the sum of its bucket, in list order; then the buckets are added: lacks CPU and cards
(q1); lacks cards, and what is too little on single cards where the shape runs (q2); lacks CPU (q4);
shapes without cards for which the CPU suffices (xl) or not (xr); shapes that may not use the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.index.workload import WorkloadShape
from scheduling.engine.state.fleet import Bools, Ints

Floats = NDArray[np.float64]

# Of so many states it takes longer to find those where a shape lacks CPU than to treat all alike.
FEW = 256


class Terms(NamedTuple):
    """What each able shape adds to F in each state: `run` where the CPU suffices, else `idle`.

    `hosts` is whether the cards suffice. All `[shapes, states]`, `total` `[states]`.
    """

    total: Ints
    hosts: Bools
    run: Floats
    idle: Floats

    def at(self, states: Ints) -> Terms:
        """Those of some states, which may repeat."""
        return Terms(
            self.total.take(states),
            self.hosts.take(states, axis=1),
            self.run.take(states, axis=1),
            self.idle.take(states, axis=1),
        )


Weighed = tuple[tuple[WorkloadShape, float], ...]


class Sorts(NamedTuple):
    """Typical shapes in list order, by what a card model is to them.

    *Able* shapes want cards and may use the model, *barred* ones may not, *bare* ones want none.
    """

    able: Weighed
    barred: Weighed
    bare: Weighed

    @staticmethod
    def of(shapes: Sequence[tuple[WorkloadShape, float]], model: str | None) -> Sorts:
        """Shapes sorted for cards of one model; None: for nodes without cards."""

        def sort(shape: WorkloadShape) -> int:
            return 2 if not shape.cards else int(bool(shape.models) and model not in shape.models.split("|"))

        return Sorts(*(tuple(pair for pair in shapes if sort(pair[0]) == kind) for kind in range(3)))


class Waste:
    """F on nodes with cards of one model for typical shapes."""

    def __init__(self, sorts: Sorts) -> None:
        able, barred, bare = sorts
        self._able, self._barred, self._bare = (
            np.array([weight for _, weight in kind], np.float64) for kind in (able, barred, bare)
        )
        self._cpu = _figures(shape.cpu for shape, _ in able)
        self._bare_cpu = _figures(shape.cpu for shape, _ in bare)
        self._cards = _figures(shape.cards for shape, _ in able)
        self.cores = _figures(shape.cores for shape, _ in able)
        # Levels of CPU that no typical shape tells apart; level k has the first k amounts.
        self.amounts: Ints = np.unique(np.concatenate([self._cpu, self._bare_cpu]))
        self.levels = len(self.amounts) + 1
        self._enough = self.enough(np.concatenate([[-1], self.amounts]))

    def level(self, cpu: Any) -> Any:
        """The level of an amount of millicores, or of each of an array."""
        return self.amounts.searchsorted(cpu, "right")

    def enough_at(self, levels: Ints) -> tuple[Bools, Bools]:
        """For able and bare shapes, whether a level's CPU suffices. `[shapes, levels]`."""
        able, bare = self._enough
        return able.take(levels, axis=1), bare.take(levels, axis=1)

    def enough(self, cpu: Ints) -> tuple[Bools, Bools]:
        """For able and bare shapes, whether so much CPU suffices. `[shapes, states]`."""
        return cpu >= self._cpu[:, None], cpu >= self._bare_cpu[:, None]

    def terms(self, total: Ints, fitting: Ints, slivers: Ints) -> Terms:
        """What the able shapes waste of cards in each state, whatever its CPU.

        `total` `[states]` is the idle core units; `fitting` the number of cards with enough left for the
        shape and `slivers` the core units on cards with less, both `[shapes, states]`.
        """
        hosts: Bools = fitting >= self._cards[:, None]
        weights = self._able[:, None]
        return Terms(total, hosts, np.where(hosts, slivers, total) * weights, total * weights)

    def of(self, has_cpu: Bools, bare: Bools, terms: Terms) -> Floats:
        """F of each state, by the able and bare shapes for which its CPU suffices. `[states]`."""
        waste = _sum(np.where(has_cpu, terms.run, 0.0))
        if len(waste) > FEW:
            short = np.flatnonzero(~has_cpu.all(axis=0))
            if len(short):
                waste[short] = _without_cpu(waste[short], ~has_cpu.take(short, axis=1), terms.at(short))
        else:
            waste = _without_cpu(waste, ~has_cpu, terms)
        if len(self._bare):
            idle = terms.total * self._bare[:, None]
            waste = waste + _sum(np.where(bare, idle, 0.0))
            waste = waste + _sum(np.where(bare, 0.0, idle))
        if len(self._barred):
            waste = waste + _sum(terms.total * self._barred[:, None])
        return waste


class Cards:
    """What the able shapes find on the cards of nodes, and what they would find after a change."""

    def __init__(self, waste: Waste, left: Ints, present: Bools) -> None:
        """`left` and `present` are `[nodes, cards]`."""
        self.left = left
        self.total: Ints = left.sum(axis=1)
        self._cores = waste.cores[:, None]
        short = left < waste.cores[:, None, None]
        self.fitting: Ints = (present & ~short).sum(axis=2)
        self.slivers: Ints = np.where(short, left, 0).sum(axis=2)

    def changed(self, node: Ints, before: Ints, after: Ints, count: Any) -> tuple[Ints, Ints, Ints]:
        """Total, fitting and slivers when on a node so many cards go from `before` to `after`."""
        was, now = before < self._cores, after < self._cores
        fitting = self.fitting[:, node] + count * (was.astype(np.int64) - now)
        slivers = self.slivers[:, node] + count * (after * now - before * was)
        return self.total[node] - count * (before - after), fitting, slivers


def _without_cpu(waste: Floats, lacks: Bools, terms: Terms) -> Floats:
    """With what shapes waste that lack CPU; where none does, nothing changes."""
    waste = _sum(np.where(lacks & ~terms.hosts, terms.idle, 0.0)) + waste
    return waste + _sum(np.where(lacks & terms.hosts, terms.idle, 0.0))


def _figures(numbers: Any) -> Ints:
    return np.array(list(numbers), np.int64)


def _sum(terms: Any) -> Floats:
    """Sums over the first axis, strictly in its order.

    Numpy adds whole layers one after another, but folds pairwise what lies contiguous along the axis:
    a single column, or an array in another order of memory.
    """
    terms = np.ascontiguousarray(terms)
    if terms[:1].size == 1:
        folded: Floats = terms.cumsum(axis=0)[-1:].reshape(terms.shape[1:])
        return folded
    total: Floats = terms.sum(axis=0)
    return total
