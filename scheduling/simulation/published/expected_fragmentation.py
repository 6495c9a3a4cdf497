"""This module computes the expected fragmentation F of hypothetical nodes, to the last bit of the published
order of summing.

F is the sum over typical shapes of frequency × idle core units that the shape cannot use (Weng et al., ATC
2023). Each shape's term goes to the sum of its bucket, in list order; then the buckets are added: lacks CPU
and cards (q1); lacks cards, and what is too little on single cards where the shape runs (q2); lacks CPU (q4);
shapes without cards for which the CPU suffices (xl) or not (xr); shapes that may not use the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scheduling.engine import WorkloadShape
from scheduling.engine.scoring import Bools, Floats, Ints

# Up to this many states, finding those where a shape lacks CPU takes longer than computing all of them.
FEW = 256


class FragmentationTerms(NamedTuple):
    """The terms that each able shape adds to F in each state: `run` if the CPU suffices, else `idle`.

    `hosts` says whether the cards suffice. All are `[shapes, states]`, `total` is `[states]`.
    """

    total: Ints
    hosts: Bools
    run: Floats
    idle: Floats

    def select_states(self, states: Ints) -> FragmentationTerms:
        """Return the terms of some states, which may repeat."""
        return FragmentationTerms(
            self.total.take(states),
            self.hosts.take(states, axis=1),
            self.run.take(states, axis=1),
            self.idle.take(states, axis=1),
        )


Weighed = tuple[tuple[WorkloadShape, float], ...]


class SortedShapes(NamedTuple):
    """Typical shapes in list order, by their relation to a card model.

    *Able* shapes ask for cards and may use the model, *barred* ones may not, the others are *without cards*.
    """

    able: Weighed
    barred: Weighed
    without_cards: Weighed

    @staticmethod
    def sort_shapes(shapes: Sequence[tuple[WorkloadShape, float]], model: str | None) -> SortedShapes:
        """Return the shapes sorted for cards of one model; None means nodes without cards."""

        def sort_by_relation(shape: WorkloadShape) -> int:
            return 2 if not shape.cards else int(bool(shape.models) and model not in shape.models.split("|"))

        return SortedShapes(
            *(tuple(pair for pair in shapes if sort_by_relation(pair[0]) == kind) for kind in range(3))
        )


class ExpectedFragmentation:
    """F on nodes with cards of one model for typical shapes."""

    def __init__(self, sorts: SortedShapes) -> None:
        able, barred, no_cards = sorts
        self._able, self._barred, self._without_cards = (
            np.array([weight for _, weight in kind], np.float64) for kind in (able, barred, no_cards)
        )
        self._cpu = _figures(shape.cpu for shape, _ in able)
        self._cpu_without_cards = _figures(shape.cpu for shape, _ in no_cards)
        self._cards = _figures(shape.cards for shape, _ in able)
        self.cores = _figures(shape.cores for shape, _ in able)
        # Levels of CPU that no typical shape distinguishes; level k has the first k amounts.
        self.amounts: Ints = np.unique(np.concatenate([self._cpu, self._cpu_without_cards]))
        self.levels = len(self.amounts) + 1
        self._enough = self.has_enough_cpu(np.concatenate([[-1], self.amounts]))

    def cpu_level(self, cpu: Any) -> Any:
        """Return the level of an amount of millicores, or of each of an array."""
        return self.amounts.searchsorted(cpu, "right")

    def enough_at(self, levels: Ints) -> tuple[Bools, Bools]:
        """Return, for shapes with and without cards, whether a level's CPU suffices. `[shapes, levels]`."""
        able, no_cards = self._enough
        return able.take(levels, axis=1), no_cards.take(levels, axis=1)

    def has_enough_cpu(self, cpu: Ints) -> tuple[Bools, Bools]:
        """Return, for shapes with and without cards, whether this much CPU suffices. `[shapes, states]`."""
        return cpu >= self._cpu[:, None], cpu >= self._cpu_without_cards[:, None]

    def compute_terms(self, total: Ints, fitting: Ints, slivers: Ints) -> FragmentationTerms:
        """Return the core units that the able shapes waste in each state, whatever its CPU.

        `total` `[states]` is the idle core units; `fitting` the number of cards with enough left for the
        shape and `slivers` the core units on cards with less, both `[shapes, states]`.
        """
        hosts: Bools = fitting >= self._cards[:, None]
        weights = self._able[:, None]
        return FragmentationTerms(total, hosts, np.where(hosts, slivers, total) * weights, total * weights)

    def sum_terms(self, has_cpu: Bools, no_cards: Bools, terms: FragmentationTerms) -> Floats:
        """Return F of each state, by the shapes for which its CPU suffices. `[states]`."""
        waste = _sum(np.where(has_cpu, terms.run, 0.0))
        if len(waste) > FEW:
            short = np.flatnonzero(~has_cpu.all(axis=0))
            if len(short):
                waste[short] = _without_cpu(
                    waste[short], ~has_cpu.take(short, axis=1), terms.select_states(short)
                )
        else:
            waste = _without_cpu(waste, ~has_cpu, terms)
        if len(self._without_cards):
            idle = terms.total * self._without_cards[:, None]
            waste = waste + _sum(np.where(no_cards, idle, 0.0))
            waste = waste + _sum(np.where(no_cards, 0.0, idle))
        if len(self._barred):
            waste = waste + _sum(terms.total * self._barred[:, None])
        return waste


class ShapesOnCards:
    """The room of able shapes on the cards of nodes, now and after a change."""

    def __init__(self, waste: ExpectedFragmentation, left: Ints, present: Bools) -> None:
        """`left` and `present` are `[nodes, cards]`."""
        self.left = left
        self.total: Ints = left.sum(axis=1)
        self._cores = waste.cores[:, None]
        short = left < waste.cores[:, None, None]
        self.fitting: Ints = (present & ~short).sum(axis=2)
        self.slivers: Ints = np.where(short, left, 0).sum(axis=2)

    def count_after_change(
        self, node: Ints, before: Ints, after: Ints, count: Any
    ) -> tuple[Ints, Ints, Ints]:
        """Return total, fitting and slivers after this many cards of a node change from `before` to
        `after`."""
        was, now = before < self._cores, after < self._cores
        fitting = self.fitting[:, node] + count * (was.astype(np.int64) - now)
        slivers = self.slivers[:, node] + count * (after * now - before * was)
        return self.total[node] - count * (before - after), fitting, slivers


def _without_cpu(waste: Floats, lacks: Bools, terms: FragmentationTerms) -> Floats:
    """Add the terms of shapes that lack CPU; without such shapes nothing changes."""
    waste = _sum(np.where(lacks & ~terms.hosts, terms.idle, 0.0)) + waste
    return waste + _sum(np.where(lacks & terms.hosts, terms.idle, 0.0))


def _figures(numbers: Any) -> Ints:
    return np.array(list(numbers), np.int64)


def _sum(terms: Any) -> Floats:
    """Sum over the first axis, strictly in its order.

    Numpy adds whole layers one after another, but folds pairwise what lies contiguous along the axis: a
    single column, or an array in another order of memory.
    """
    terms = np.ascontiguousarray(terms)
    if terms[:1].size == 1:
        folded: Floats = terms.cumsum(axis=0)[-1:].reshape(terms.shape[1:])
        return folded
    total: Floats = terms.sum(axis=0)
    return total
