"""This module tabulates the expected fragmentation F after each shape on each card of one node.

The CPU matters to F only through which typical shapes it suffices for, its *level*, and through what happens
to the cards. So F is kept by level and demand, a demand being all that a shape asks of cards; it is computed
when a node first needs it. Nodes with equal free amounts in any order, on otherwise equal cards, share one
table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.engine.scoring import Floats, Ints, ShapeTable
from scheduling.simulation.published.expected_fragmentation import ExpectedFragmentation, ShapesOnCards

UNKNOWN = -1


class CardDemands:
    """The requests of shapes for cards, and the demand of each shape (`by_shape`, `[shapes]`).

    `cards`, `cores` and `sliced` are `[demands, 1]`. Cores are 0 where cards are taken whole. Several parts
    of different cards are treated as if those cards were empty. The last demand is empty; no shape has it.
    """

    def __init__(self, asked: ShapeTable) -> None:
        cores = np.where(asked.whole, 0, asked.cores)
        wants = np.stack([asked.cards, cores, asked.sliced.astype(np.int64)], axis=1)
        wants, of_shape = np.unique(wants, axis=0, return_inverse=True)
        self.by_shape: Ints = of_shape.reshape(-1)
        self.cards, self.cores, self.sliced = np.concatenate([wants, np.zeros((1, 3), np.int64)]).T[
            :, :, None
        ]
        self.counts: Ints = np.where(self.sliced > 0, 1, self.cards)

    def __len__(self) -> int:
        return len(self.cards)


class ExpectedFragmentationTable:
    """F before and after each demand on each card of a node, for every level of CPU.

    A *place* is a level and a demand. `values` are the free core units of cards, in ascending order, each of
    them once; a node without any has a single 0.
    """

    def __init__(
        self, waste: ExpectedFragmentation, demands: CardDemands, left: Sequence[int], full: int
    ) -> None:
        """`left` are the free amounts of cards that are not full, `full` is the size of each card."""
        self._waste, self._width = waste, len(demands)
        self.values = sorted(set(left)) or [0]
        values, sliced = np.array(self.values, np.int64), demands.sliced > 0
        before = np.where(sliced, values, full * (demands.counts > 0))
        after = np.where(sliced | (demands.cores > 0), before - demands.cores, 0)
        # A part must fit on its card, and the choice of the card matters; otherwise one entry is enough.
        self._forbidden = np.where(sliced, values < demands.cores, np.arange(len(values)) > 0)
        cards = ShapesOnCards(
            waste, np.array([left or [0]], np.int64), np.array([[bool(left)] * max(len(left), 1)])
        )
        counts = np.broadcast_to(demands.counts, before.shape)
        node = np.zeros(before.size, np.int64)
        self._terms = waste.compute_terms(
            *cards.count_after_change(node, before.reshape(-1), after.reshape(-1), counts.reshape(-1))
        )
        self._slot = np.full(waste.levels * self._width, UNKNOWN, np.int64)
        self._after: Floats = np.zeros((0, len(values)))
        self._least: Floats = np.zeros(0)

    def minimum_at(self, places: Ints) -> Floats:
        """Return the least F in each place; infinite if no card takes the demand."""
        slots = self._slot.take(places)
        if slots.min() == UNKNOWN:
            self._fill(np.unique(places[slots == UNKNOWN]))
            slots = self._slot.take(places)
        return self._least.take(slots)

    def by_card_value(self, place: int) -> Floats:
        """Return F in a place for each free amount of the card that is used. `[values]`."""
        self.minimum_at(np.array((place,)))
        by_value: Floats = self._after[self._slot[place]]
        return by_value

    def _fill(self, places: Ints) -> None:
        levels, demands = np.divmod(places, self._width)
        count = len(self.values)
        cases = (demands[:, None] * count + np.arange(count)).reshape(-1)
        has_cpu, no_cards = self._waste.enough_at(levels.repeat(count))
        after = self._waste.sum_terms(has_cpu, no_cards, self._terms.select_states(cases)).reshape(-1, count)
        after[self._forbidden[demands]] = np.inf
        self._slot[places] = np.arange(len(self._least), len(self._least) + len(places))
        self._after = np.concatenate([self._after, after])
        self._least = np.concatenate([self._least, after.min(axis=1)])
