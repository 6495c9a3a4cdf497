"""The expected waste F after each shape on each card of one node.

How much of F there is depends on the CPU only through which typical shapes it suffices for, its
*level*, and on what happens to the cards. So F is kept by level and demand, a demand being all that
shapes want of cards; it is worked out when a node first asks for it. Where cards of a node are alike
but for what is left, nodes with equal amounts left in any order share one table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduling.engine.placement.grid import CardTable, NodeCards, ShapeTable
from scheduling.engine.placement.waste import Cards, Floats, Waste
from scheduling.engine.state.fleet import Bools, Ints

UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """What shapes want of cards, and which of it each wants (`of_shape`, `[shapes]`).

    `cards`, `cores` and `sliced` are `[demands]`. Cores are 0 where cards are taken whole, whatever
    they have. Several parts of different cards are judged as if those cards were empty.
    """

    cards: Ints
    cores: Ints
    sliced: Bools
    of_shape: Ints


class Afters:
    """F before and after each demand on each card of one node, for every level of CPU.

    A *place* is a level and a demand; the last demand of each level is none at all. `values` are the
    core units left on the cards that are told apart, `allowed` `[demands, values]` where a demand fits.
    """

    def __init__(self, waste: Waste, demands: Demands, cards: Cards, size: int, values: Ints, allowed: Bools):
        self._waste, self._demands = waste, demands
        self._values = values
        self._width = width = len(demands.cards) + 1
        sliced = demands.sliced[:, None]
        before = np.where(sliced, values, size)
        after = np.where(sliced | (demands.cores == 0)[:, None], values * sliced, size) - np.where(
            sliced | (demands.cores > 0)[:, None], demands.cores[:, None], 0
        )
        self._allowed = np.concatenate([allowed, np.ones((1, len(values)), np.bool_)])
        nothing = np.zeros((1, len(values)), np.int64)
        changes = [np.concatenate([part, nothing]).reshape(-1) for part in (before, after)]
        count = np.where(sliced, 1, demands.cards[:, None]) * np.ones_like(before)
        count = np.concatenate([count, nothing]).reshape(-1)
        node = np.zeros(len(count), np.int64)
        self._terms = waste.terms(*cards.changed(node, changes[0], changes[1], count))
        self._slot = np.full(waste.levels * width, UNKNOWN, np.int32)
        self._after: Floats = np.zeros((0, len(values)))
        self._least: Floats = np.zeros(0)

    def of(self, cpu: int, asked: ShapeTable) -> tuple[float, Floats]:
        """F now, and the least F after each shape. `[shapes]`; infinite where no card takes it."""
        demands, width = self._demands, self._width
        now = int(self._waste.level(cpu)) * width + width - 1
        places = self._waste.level(cpu - asked.cpu) * width
        places += demands.of_shape
        # A shape that lacks CPU is not asked about.
        places[asked.cpu > cpu] = now
        slots = self._slot.take(places)
        if self._slot[now] == UNKNOWN or slots.min(initial=0) == UNKNOWN:
            wanted = np.append(places[slots == UNKNOWN], now)
            self._fill(np.unique(wanted[self._slot[wanted] == UNKNOWN]))
            slots = self._slot.take(places)
        return float(self._least[self._slot[now]]), self._least.take(slots)

    def by_value(self, cpu: int, asked: ShapeTable, shape: int) -> tuple[float, Floats]:
        """F now, and F after a shape that was asked about on each of the values."""
        width = self._width
        now = int(self._waste.level(cpu)) * width + width - 1
        place = int(self._waste.level(cpu - int(asked.cpu[shape]))) * width
        slot = self._slot[place + int(self._demands.of_shape[shape])]
        return float(self._least[self._slot[now]]), self._after[slot]

    def columns(self, cards: CardTable) -> Ints:
        """The number of the value that is left on each card."""
        if not _alike(cards):
            return np.arange(len(self._values))
        numbers: Ints = self._values.searchsorted(cards.left[0])
        return numbers

    def _fill(self, places: Ints) -> None:
        levels, demands = places // self._width, places % self._width
        at, value = np.nonzero(self._allowed[demands])
        case = demands[at] * len(self._values) + value
        after = np.full((len(places), len(self._values)), np.inf)
        if len(at):
            has_cpu, bare = self._waste.enough_at(levels[at])
            after[at, value] = self._waste.of(has_cpu, bare, self._terms.at(case))
        self._slot[places] = np.arange(len(self._least), len(self._least) + len(places))
        self._after = np.concatenate([self._after, after])
        self._least = np.concatenate([self._least, after.min(axis=1)])


def afters(waste: Waste, asked: ShapeTable, cards: CardTable) -> Afters:
    """The table for the cards of one node."""
    left, size = cards.left, int(cards.whole.max(initial=0))
    if not _alike(cards):
        demands = _demands(asked, apart=True)
        # A node without cards has one value that nobody asks about.
        values = left[0] if left.shape[1] else np.zeros(1, np.int64)
        allowed = np.zeros((len(asked), len(values)), np.bool_)
        allowed[:, 0] = ~asked.sliced
        if left.shape[1]:
            allowed |= cards.fitting[:, 0] & asked.sliced[:, None]
        return Afters(waste, demands, Cards(waste, left, cards.present), size, values, allowed)
    demands = _demands(asked)
    known: dict[object, Afters] = asked.memo.setdefault("fgd", {})
    key = waste, size, tuple(sorted(left[0].tolist())), int(np.count_nonzero(cards.present))
    table = known.get(key)
    if table is None:
        values = np.unique(left[0])
        allowed = values >= demands.cores[:, None]
        whole = np.zeros_like(allowed)
        whole[:, 0] = np.count_nonzero(left[0] == size) >= demands.cards
        allowed = np.where(demands.sliced[:, None], allowed, whole)
        known[key] = table = Afters(waste, demands, Cards(waste, left, cards.present), size, values, allowed)
    return table


def _demands(asked: ShapeTable, *, apart: bool = False) -> Demands:
    """The demands of shapes, each of them once, or one for each shape."""
    known: Demands | None = asked.memo.get(("demands", apart))
    if known is None:
        cores = np.where(asked.whole, 0, asked.cores)
        wants = np.stack([asked.cards, cores, asked.sliced.astype(np.int64)], axis=1)
        of_shape = np.arange(len(asked))
        if not apart:
            wants, of_shape = np.unique(wants, axis=0, return_inverse=True)
        known = Demands(wants[:, 0], wants[:, 1], wants[:, 2] > 0, of_shape.reshape(-1))
        asked.memo["demands", apart] = known
    return known


def _alike(cards: CardTable) -> bool:
    return isinstance(cards, NodeCards) and cards.full is not None
