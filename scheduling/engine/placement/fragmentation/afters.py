"""The expected waste F after each shape on each card of one node.

How much of F there is depends on the CPU only through which typical shapes it suffices for, its
*level*, and on what happens to the cards. So F is kept by level and demand, a demand being all that
shapes want of cards; it is worked out when a node first asks for it. Nodes on which equal amounts are
left in any order, on cards that nothing else tells apart, share one table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.engine.placement.fragmentation.waste import Cards, Floats, Waste
from scheduling.engine.placement.index.grid import ShapeTable
from scheduling.engine.state.fleet import Ints

UNKNOWN = -1


class Demands:
    """What shapes want of cards, and which of it each wants (`of_shape`, `[shapes]`).

    `cards`, `cores` and `sliced` are `[demands, 1]`. Cores are 0 where cards are taken whole, whatever
    they have. Several parts of different cards are judged as if those cards were empty. The last demand
    is none at all; no shape has it.
    """

    def __init__(self, asked: ShapeTable) -> None:
        cores = np.where(asked.whole, 0, asked.cores)
        wants = np.stack([asked.cards, cores, asked.sliced.astype(np.int64)], axis=1)
        wants, of_shape = np.unique(wants, axis=0, return_inverse=True)
        self.of_shape: Ints = of_shape.reshape(-1)
        self.cards, self.cores, self.sliced = np.concatenate([wants, np.zeros((1, 3), np.int64)]).T[
            :, :, None
        ]
        self.counts: Ints = np.where(self.sliced > 0, 1, self.cards)

    def __len__(self) -> int:
        return len(self.cards)


class Afters:
    """F before and after each demand on each card of a node, for every level of CPU.

    A *place* is a level and a demand. `values` are the core units left on cards, in ascending order, each
    of them once; a node without any has a single 0.
    """

    def __init__(self, waste: Waste, demands: Demands, left: Sequence[int], full: int) -> None:
        """`left` is what is left on the cards that have anything left, `full` the size of each card."""
        self._waste, self._width = waste, len(demands)
        self.values = sorted(set(left)) or [0]
        values, sliced = np.array(self.values, np.int64), demands.sliced > 0
        before = np.where(sliced, values, full * (demands.counts > 0))
        after = np.where(sliced | (demands.cores > 0), before - demands.cores, 0)
        # Where a card is taken in part it has to fit, and it matters which; else once is enough.
        self._forbidden = np.where(sliced, values < demands.cores, np.arange(len(values)) > 0)
        cards = Cards(waste, np.array([left or [0]], np.int64), np.array([[bool(left)] * max(len(left), 1)]))
        counts = np.broadcast_to(demands.counts, before.shape)
        node = np.zeros(before.size, np.int64)
        self._terms = waste.terms(
            *cards.changed(node, before.reshape(-1), after.reshape(-1), counts.reshape(-1))
        )
        self._slot = np.full(waste.levels * self._width, UNKNOWN, np.int64)
        self._after: Floats = np.zeros((0, len(values)))
        self._least: Floats = np.zeros(0)

    def least(self, places: Ints) -> Floats:
        """The least F in each place; infinite where no card takes what is wanted."""
        slots = self._slot.take(places)
        if slots.min() == UNKNOWN:
            self._fill(np.unique(places[slots == UNKNOWN]))
            slots = self._slot.take(places)
        return self._least.take(slots)

    def by_value(self, place: int) -> Floats:
        """F in a place for each value of the card that is used. `[values]`"""
        self.least(np.array((place,)))
        by_value: Floats = self._after[self._slot[place]]
        return by_value

    def _fill(self, places: Ints) -> None:
        levels, demands = np.divmod(places, self._width)
        count = len(self.values)
        cases = (demands[:, None] * count + np.arange(count)).reshape(-1)
        has_cpu, bare = self._waste.enough_at(levels.repeat(count))
        after = self._waste.of(has_cpu, bare, self._terms.at(cases)).reshape(-1, count)
        after[self._forbidden[demands]] = np.inf
        self._slot[places] = np.arange(len(self._least), len(self._least) + len(places))
        self._after = np.concatenate([self._after, after])
        self._least = np.concatenate([self._least, after.min(axis=1)])
