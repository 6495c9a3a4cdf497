"""Fragmentation Gradient Descent (Weng et al., ATC 2023): place where the least idle capacity becomes
useless to a task of the usual workload.

The score is `int(100·sigmoid((F before − F after) / card))`: F is the expected idle core units of the
node that such a task cannot use, `card` the core units of one card. For a part of a card it is the
best over the cards on which the part fits. How F is summed decides between 49 and 50 where it hardly
changes, see `waste`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduling.engine.placement.grid import (
    BY_PICKER,
    Grid,
    GridScore,
    LearningScore,
    NodeTable,
    ShapeTable,
)
from scheduling.engine.placement.waste import Cards, Floats, Waste
from scheduling.engine.placement.workload import Workload
from scheduling.engine.state.fleet import Bools, Fleet, Ints

# Nodes worked on at once when one shape is asked of many, which bounds memory.
BLOCK = 1024


class FragmentationGradient(LearningScore):
    """The policy before it knows a workload."""

    name = "fgd"

    def learnt(self, workload: Workload, fleet: Fleet) -> GridScore:
        """The policy for one workload on one inventory."""
        return Gradient(workload, fleet)


class Gradient(GridScore):
    """The policy for one workload. The card of a sliced task is the one with the best gradient."""

    name = "fgd"
    dtype = np.dtype(np.int8)

    def __init__(self, workload: Workload, fleet: Fleet) -> None:
        self._shapes = workload.typical()
        self._fleet = fleet
        self._card = float(fleet.card_cores.max(initial=1))
        self._by_model: dict[int, Waste] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gradient) and self._fleet is other._fleet and self._shapes == other._shapes

    def grid(self, asked: ShapeTable, nodes: NodeTable) -> Grid:
        """Scores and best cards: one node by tables of its cards, several by shape."""
        if len(nodes.cpu) == 1:
            scores, columns = self._column(asked, nodes)
            return Grid(scores[:, None], columns[:, None])
        rows = [self._row(asked, shape, nodes) for shape in range(len(asked))]
        return Grid(np.array([scores for scores, _ in rows]), np.array([columns for _, columns in rows]))

    def _model(self, code: int) -> Waste:
        known = self._by_model.get(code)
        if known is None:
            model = self._fleet.models[code] if code >= 0 else None
            known = self._by_model[code] = Waste(self._shapes, model)
        return known

    def _score(self, gradient: Floats) -> Ints:
        score: Ints = (1.0 / (1.0 + np.exp(-gradient / self._card)) * 100.0).astype(np.int64)
        return score

    def _column(self, asked: ShapeTable, nodes: NodeTable) -> tuple[Ints, Ints]:
        """All shapes on one node, `[shapes]`."""
        table: _Afters | None = nodes.cards.memo.get("fgd")
        if table is None:
            waste = self._model(int(nodes.cards.model[0].max(initial=-1)))
            table = nodes.cards.memo["fgd"] = _Afters(waste, asked, nodes)
        cpu = int(nodes.cpu[0])
        before, after = table.of(cpu, np.maximum(cpu - asked.cpu, -1))
        scores = np.where(table.allowed, self._score(before - after), -1)
        if not scores.shape[1]:
            return np.full(len(asked), self._score(np.zeros(1))[0]), np.full(len(asked), BY_PICKER)
        best = scores.argmax(axis=1)
        return scores.max(axis=1), np.where(asked.sliced, best, BY_PICKER)

    def _row(self, asked: ShapeTable, shape: int, nodes: NodeTable) -> tuple[Ints, Ints]:
        """One shape on all nodes, `[nodes]`."""
        model = nodes.cards.model.max(axis=1, initial=-1)
        scores, columns = np.zeros(len(model), np.int64), np.full(len(model), BY_PICKER)
        for code in np.unique(model).tolist():
            members = np.flatnonzero(model == code)
            for start in range(0, len(members), BLOCK):
                part = members[start : start + BLOCK]
                scores[part], columns[part] = self._some(self._model(code), asked, shape, nodes, part)
        return scores, columns

    def _some(
        self, waste: Waste, asked: ShapeTable, shape: int, nodes: NodeTable, part: Ints
    ) -> tuple[Ints, Ints]:
        """One shape on some nodes of one model."""
        cards = Cards(waste, nodes.cards.left[part], nodes.cards.present[part])
        cpu = nodes.cpu[part]
        cpu_after = cpu - asked.cpu[shape]
        before = waste.of(*waste.enough(cpu), cards.total, cards.fitting, cards.slivers)
        cores, count = asked.cores[shape], asked.cards[shape]
        if not asked.sliced[shape]:
            size = nodes.cards.whole[part].max(axis=1, initial=0)
            left = size * 0 if asked.whole[shape] else size - cores
            node = np.arange(len(part))
            after = waste.of(*waste.enough(cpu_after), *cards.changed(node, size, left, count))
            return self._score(before - after), np.full(len(part), BY_PICKER)
        node, column = np.nonzero(nodes.cards.fitting[shape, part])
        left = cards.left[node, column]
        after = waste.of(*waste.enough(cpu_after[node]), *cards.changed(node, left, left - cores, 1))
        scores = np.full(cards.left.shape, -1, np.int64)
        scores[node, column] = self._score(before[node] - after)
        return scores.max(axis=1, initial=-1), scores.argmax(axis=1)


class _Afters:
    """F before and after each shape on each card of one node, for every level of CPU.

    How much of F there is depends on the CPU only through which typical shapes it suffices for, so F
    is kept by that level and by what happens to the cards (`case`); the first case is no change.
    """

    def __init__(self, waste: Waste, asked: ShapeTable, nodes: NodeTable) -> None:
        self._waste = waste
        left = nodes.cards.left[0]
        cards = Cards(waste, nodes.cards.left, nodes.cards.present)
        before, after, count, self._case = _cases(asked, left, nodes.cards.whole[0])
        self.allowed: Bools = nodes.cards.fitting[:, 0] | ~asked.sliced[:, None]
        self._total, self._fitting, self._slivers = cards.changed(
            np.zeros(len(before), np.int64), before, after, count
        )
        self._known = np.zeros((waste.levels, len(before)))
        self._filled = np.zeros(waste.levels, np.bool_)

    def of(self, cpu: int, cpu_after: Ints) -> tuple[float, Floats]:
        """F now, and F after each shape on each card `[shapes, cards]`."""
        now = self._waste.level(cpu)
        levels = self._waste.level(cpu_after)
        if not (self._filled[now] and self._filled[levels].all()):
            wanted = np.zeros_like(self._filled)
            wanted[levels], wanted[now] = True, True
            self._fill(np.flatnonzero(wanted & ~self._filled))
        after: Floats = self._known[levels[:, None], self._case]
        return float(self._known[now, 0]), after

    def _fill(self, levels: Ints) -> None:
        has_cpu, bare = self._waste.enough_at(levels)
        self._known[levels] = self._waste.of(
            has_cpu[:, :, None], bare[:, :, None], self._total, self._fitting[:, None], self._slivers[:, None]
        )
        self._filled[levels] = True


def _cases(asked: ShapeTable, left: Ints, whole: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """What the shapes can do to the cards of a node, without repetition.

    Case by case the core units before and after on a card that changes and how many such cards;
    then the case of each shape on each card `[shapes, cards]`.
    """
    demand, of_shape = _demands(asked)
    values, of_card = np.unique(left, return_inverse=True)
    size = int(whole.max(initial=0))
    cases: dict[tuple[int, int, int], int] = {(0, 0, 0): 0}
    index = np.zeros((len(demand), len(values)), np.int64)
    for row, (cards, cores, sliced) in enumerate(demand):
        if not cards:
            continue
        if not sliced:
            index[row] = cases.setdefault((size, size - cores if cores else 0, cards), len(cases))
            continue
        for column, value in enumerate(values.tolist()):
            if value >= cores:
                index[row, column] = cases.setdefault((value, value - cores, 1), len(cases))
    changes: Any = np.array(list(cases), np.int64)
    return changes[:, 0], changes[:, 1], changes[:, 2], index[of_shape][:, of_card]


def _demands(asked: ShapeTable) -> tuple[list[tuple[int, int, bool]], Ints]:
    """What shapes want of cards, without repetition, and which of it each wants.

    Cores are 0 where cards are taken whole, whatever they have. Several parts of different cards are
    judged as if those cards were empty.
    """
    known: tuple[list[tuple[int, int, bool]], Ints] | None = asked.memo.get("demands")
    if known is None:
        wants = [
            (cards, 0 if whole else cores, sliced)
            for cards, cores, whole, sliced in zip(
                asked.cards.tolist(),
                asked.cores.tolist(),
                asked.whole.tolist(),
                asked.sliced.tolist(),
                strict=True,
            )
        ]
        listed = sorted(set(wants))
        place = {want: number for number, want in enumerate(listed)}
        known = listed, np.array([place[want] for want in wants], np.int64)
        asked.memo["demands"] = known
    return known
