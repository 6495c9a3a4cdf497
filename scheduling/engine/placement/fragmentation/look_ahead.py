"""This module implements the platform's packing policy: it keeps what is left of a node useful for the
workload mix.

The worth of a placement is what it leaves. All terms are in cards, and a higher sum wins: less expected waste
on the card that is used (`expected_waste.expected_card_waste`); less expected waste of the node's cards and
CPU together (`expected_waste.expected_node_waste`); fewer cards that no task can use for lack of CPU; no use
of card models that tasks which accept no other will ask for (`scarcity.model_pressure`); no breaking of
groups of empty cards that many-card tasks are about to lack (`scarcity.group_risks`); a little for fuller
nodes.

The tables come from the workload mix and the risks from the fleet at the time of learning; scores are then a
function of the node alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.model import TaskWorkload
from scheduling.engine.placement.fragmentation.look_ahead_columns import LookAheadColumns
from scheduling.engine.placement.fragmentation.look_ahead_tables import (
    Floats,
    LookAheadLevels,
    LookAheadTables,
    learn_tables,
)
from scheduling.engine.placement.fragmentation.look_ahead_weights import WEIGHTS
from scheduling.engine.placement.fragmentation.scarcity import GroupRisk, group_risks
from scheduling.engine.placement.index.grid import (
    BY_PICKER,
    CardTable,
    GridScore,
    LearningScore,
    NodeColumns,
    NodeTable,
    ScoreGrid,
    ShapeTable,
    by_grid,
)
from scheduling.engine.placement.index.question import Question
from scheduling.engine.state.fleet import Fleet, Ints
from scheduling.engine.state.memo import read_memo

# The workload mix alternates where a kind of task is about twice as frequent as another. Tables of nodes with
# many cards are large, so few are kept; the rest of a policy is small.
MAX_TABLES = 2
MAX_POLICIES = 32


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """The requests of shapes as the rule needs them. All but `parts` are `[1 + shapes, 1]` or `[shapes, 1]`.

    `cpu`, `need` and `opened` (empty cards that are taken) start with an entry for no task, whose result is
    the unchanged node. `sliced` are the numbers of the shapes that take a part of one card, `parts` `[sliced,
    1, 1]` their core units; the whole cards of these are 0.
    """

    cpu: Ints
    need: Ints
    opened: Ints
    whole_cards: Ints
    sliced: Ints
    parts: Ints


@dataclass(slots=True, eq=False)
class _CardFigures:
    """The figures that depend on the cards of nodes alone.

    `node_columns` and `gain` are `[shapes, nodes]`; `cost_rows` and `worth_rows` `[1 + shapes, nodes]` are
    the first entries of the table rows for what is left.
    """

    gain: Floats
    columns: Ints
    cost_rows: Ints
    worth_rows: Ints


class LookAheadScore(GridScore):
    """The policy for one workload and inventory, and for the present risks of groups of cards."""

    name = "foresight"
    dtype = np.dtype(np.float32)

    def __init__(self, tables: LookAheadTables, risks: tuple[GroupRisk, ...], models: Sequence[str]) -> None:
        self._tables = tables
        self._risks = risks
        self._levels = LookAheadLevels(tables, risks, models)

    def __eq__(self, other: object) -> bool:
        facts = self._tables, self._risks
        return isinstance(other, LookAheadScore) and facts == (other._tables, other._risks)

    def score_grid(self, asked: ShapeTable, nodes: NodeTable) -> ScoreGrid:
        """Return the worth of each placement in cards, and the card for it."""
        wanted, cards, levels = _wanted(asked), nodes.cards, self._levels
        figures = self._figures(wanted, cards)
        left = nodes.cpu - wanted.cpu
        at = figures.cost_rows + levels.cost_column(left)
        worth = figures.gain + levels.cost.take(at[0]) - levels.cost_left.take(at[1:])
        if self._risks:
            held = levels.worth.take(figures.worth_rows + levels.worth_column(left))
            worth -= held[0] - held[1:]
        return ScoreGrid(worth.astype(self.dtype), figures.columns)

    def best_card(self, question: Question, row: int) -> int:
        """Return the preferred card for a part of one card; whole cards are left to the picker."""
        task = question.task
        return super().best_card(question, row) if task.cards == 1 and not task.whole else BY_PICKER

    def node_columns(self, asked: ShapeTable, fleet: Fleet) -> NodeColumns:
        """Return the same results as `score_grid`, node after node."""
        pressed = self._tables.pressure * self._pressing
        levels, grid = self._levels, by_grid(self, asked)
        return LookAheadColumns(asked, fleet, self._tables, levels, pressed, grid, risky=bool(self._risks))

    @property
    def _pressing(self) -> float:
        return WEIGHTS.bound_models / self._tables.extent.card

    def _figures(self, wanted: _Wanted, cards: CardTable) -> _CardFigures:
        tables, left, sliced = self._tables, cards.left, wanted.sliced
        untouched = cards.present & (left == cards.whole)
        empty = np.add.reduce(untouched, axis=1)
        # Code -1, a node without cards, selects the last entry of tables by model.
        model = np.maximum.reduce(cards.model, axis=1, initial=-1)
        pressed = tables.pressure.take(model, mode="wrap") * self._pressing
        gain = wanted.whole_cards * (tables.card_waste[-1] / tables.extent.card) - wanted.need[1:] * pressed
        column = np.full(gain.shape, BY_PICKER, np.int64)
        cached = np.maximum(empty - wanted.opened, 0)
        if len(sliced):
            saved = self._saved_waste(wanted, cards, left)
            column[sliced] = chosen = saved.argmax(axis=2)
            gain[sliced] += np.maximum.reduce(saved, axis=2)
            cached[1 + sliced] = empty - untouched[np.arange(len(left)), chosen]
        cost_rows = self._levels.cost_row(cards.total - wanted.need)
        return _CardFigures(gain, column, cost_rows, self._levels.worth_row(model, cached))

    def _saved_waste(self, wanted: _Wanted, cards: CardTable, left: Ints) -> Floats:
        """Return the saved waste on each card, in cards, for the sliced shapes. `[sliced, nodes, cards]`."""
        waste, fitting = self._tables.card_waste, cards.fitting.take(wanted.sliced, axis=0)
        saved = waste.take(left, mode="clip") - waste.take(left - wanted.parts, mode="clip")
        saved *= 1 / self._tables.extent.card
        return np.where(fitting, saved, -1.0)


class _PolicyCache:
    """The policies learnt from an inventory: tables by workload, with scores by the risks of groups.

    Labels, health and usage of nodes play no part in tables.
    """

    # No revision of a fleet changes them.
    follows_fleet = True

    def __init__(self) -> None:
        self._known: dict[
            TaskWorkload, tuple[LookAheadTables, dict[tuple[GroupRisk, ...], LookAheadScore]]
        ] = {}

    def get_policy(self, workload: TaskWorkload, fleet: Fleet) -> LookAheadScore:
        """Return the policy for this workload and for the present groups of cards of the fleet."""
        # The most recently used entry is last.
        found = self._known.pop(workload, None) or (learn_tables(workload, fleet), {})
        self._known[workload] = tables, policies = found
        while len(self._known) > MAX_TABLES:
            del self._known[next(iter(self._known))]
        risks = group_risks(workload, fleet)
        if risks not in policies:
            while len(policies) >= MAX_POLICIES:
                del policies[next(iter(policies))]
            policies[risks] = LookAheadScore(tables, risks, fleet.models)
        return policies[risks]


class LookAheadPolicy(LearningScore):
    """The policy before it has learnt."""

    name = "foresight"
    dtype = np.dtype(np.float32)

    def learn_from(self, workload: TaskWorkload, fleet: Fleet) -> GridScore:
        """Return the score for this workload, and for the present groups of cards of the fleet."""
        return read_memo(fleet.memo, _PolicyCache, _PolicyCache).get_policy(workload, fleet)


def _wanted(asked: ShapeTable) -> _Wanted:
    wanted: _Wanted | None = asked.memo.get("foresight")
    if wanted is None:
        cards, sliced = np.where(asked.sliced, 0, asked.cards), np.flatnonzero(asked.sliced)
        wanted = asked.memo["foresight"] = _Wanted(
            cpu=_after_nothing(asked.cpu),
            need=_after_nothing(asked.need),
            opened=_after_nothing(cards),
            whole_cards=cards[:, None],
            sliced=sliced,
            parts=asked.cores[sliced][:, None, None],
        )
    return wanted


def _after_nothing(amounts: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), amounts])[:, None]
