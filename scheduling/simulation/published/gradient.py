"""Fragmentation Gradient Descent (Weng et al., ATC 2023): place where the least idle capacity becomes
useless to a task of the usual workload.

The score is `int(100·sigmoid((F before − F after) / card))`: F is the expected idle core units of the
node that such a task cannot use, `card` the core units of one card. For a part of a card it is the
best over the cards on which the part fits. How F is summed decides between 49 and 50 where it hardly
changes, see `waste`.
"""

from __future__ import annotations

import numpy as np

from scheduling.engine.scoring import (
    BY_PICKER,
    Fleet,
    Floats,
    GridScore,
    Ints,
    LearningScore,
    NodeColumns,
    NodeTable,
    ScoreGrid,
    ShapeTable,
    TaskWorkload,
    by_grid,
)
from scheduling.simulation.published.expected_fragmentation import (
    ExpectedFragmentation,
    ShapesOnCards,
    SortedShapes,
)
from scheduling.simulation.published.gradient_columns import GradientColumns

# Nodes worked on at once when one shape is asked of many, which bounds memory.
BLOCK = 1024


class FragmentationGradient(LearningScore):
    """The policy before it has learned a workload."""

    name = "fgd"

    def learn_from(self, workload: TaskWorkload, fleet: Fleet) -> GridScore:
        """Return the policy for one workload on one inventory."""
        return WorkloadGradient(workload, fleet)


class WorkloadGradient(GridScore):
    """The policy for one workload. The card of a sliced task is the one with the best gradient."""

    name = "fgd"
    dtype = np.dtype(np.int8)

    def __init__(self, workload: TaskWorkload, fleet: Fleet) -> None:
        self._shapes = workload.list_typical()
        self._fleet = fleet
        self._card = float(fleet.card_cores.max(initial=1))
        self._by_model: dict[int, ExpectedFragmentation] = {}
        self._by_sorts: dict[SortedShapes, ExpectedFragmentation] = {}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, WorkloadGradient)
            and self._fleet is other._fleet
            and self._shapes == other._shapes
        )

    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """Return scores and best cards, shape by shape."""
        rows = [self._row(asked, shape, nodes) for shape in range(len(asked))]
        return ScoreGrid(np.array([scores for scores, _ in rows]), np.array([columns for _, columns in rows]))

    def node_columns(self, asked: ShapeTable, fleet: Fleet) -> NodeColumns:
        """Return the same scores as `score_grid`, computed node by node."""
        return GradientColumns(asked, fleet, by_grid(self, asked), self._model, self.score_of)

    def _model(self, code: int) -> ExpectedFragmentation:
        known = self._by_model.get(code)
        if known is None:
            model = self._fleet.models[code] if code >= 0 else None
            sorts = SortedShapes.sort_shapes(self._shapes, model)
            # Models that suit equal shapes of the workload mix share one table.
            known = self._by_model[code] = self._by_sorts.setdefault(sorts, ExpectedFragmentation(sorts))
        return known

    def score_of(self, gradient: Floats) -> Ints:
        """Return the score of each gradient."""
        score: Ints = (1.0 / (1.0 + np.exp(-gradient / self._card)) * 100.0).astype(np.int8)
        return score

    def _row(self, asked: ShapeTable, shape: int, nodes: NodeTable) -> tuple[Ints, Ints]:
        """Return scores and best cards of one shape on all nodes, `[nodes]`."""
        model = nodes.cards.model.max(axis=1, initial=-1)
        scores, columns = np.zeros(len(model), np.int64), np.full(len(model), BY_PICKER)
        for code in np.unique(model).tolist():
            members = np.flatnonzero(model == code)
            for start in range(0, len(members), BLOCK):
                part = members[start : start + BLOCK]
                scores[part], columns[part] = self._some(self._model(code), asked, shape, nodes, part)
        return scores, columns

    def _some(
        self, waste: ExpectedFragmentation, asked: ShapeTable, shape: int, nodes: NodeTable, part: Ints
    ) -> tuple[Ints, Ints]:
        """Return scores and best cards of one shape on some nodes of one model."""
        cards = ShapesOnCards(waste, nodes.cards.left[part], nodes.cards.present[part])
        cpu = nodes.cpu[part]
        cpu_after = cpu - asked.cpu[shape]
        before = waste.sum_terms(
            *waste.has_enough_cpu(cpu), waste.compute_terms(cards.total, cards.fitting, cards.slivers)
        )
        cores, count = asked.cores[shape], asked.cards[shape]
        if not asked.sliced[shape]:
            size = nodes.cards.whole[part].max(axis=1, initial=0)
            left = size * 0 if asked.whole[shape] else size - cores
            node = np.arange(len(part))
            after = waste.sum_terms(
                *waste.has_enough_cpu(cpu_after),
                waste.compute_terms(*cards.count_after_change(node, size, left, count)),
            )
            return self.score_of(before - after), np.full(len(part), BY_PICKER)
        node, column = np.nonzero(nodes.cards.fitting[shape, part])
        left = cards.left[node, column]
        after = waste.sum_terms(
            *waste.has_enough_cpu(cpu_after[node]),
            waste.compute_terms(*cards.count_after_change(node, left, left - cores, 1)),
        )
        scores = np.full(cards.left.shape, -1, np.int64)
        scores[node, column] = self.score_of(before[node] - after)
        return scores.max(axis=1, initial=-1), scores.argmax(axis=1)
