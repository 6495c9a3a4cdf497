"""The platform's packing policy: keep what is left of a node useful for the work that is usual.

A place is worth what it leaves. All terms are in cards, and a higher sum wins:

- less expected waste on the card that is used (`leftover.card_leftover`);
- less expected waste of the node's cards and CPU together (`leftover.node_leftover`);
- fewer cards that nobody can use for want of CPU;
- no use of card models that those who are bound to them will ask for (`scarcity.pressure`);
- no breaking of groups of empty cards that many-card tasks are about to run short of
  (`scarcity.group_risks`);
- a little for fuller nodes.

The tables come from usual work and the risks from the fleet as it is when they are learnt; scores
are then a function of the node alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.placement.fragmentation.foresight_columns import LookAheadColumns
from scheduling.engine.placement.fragmentation.foresight_tables import Floats, Levels, Tables, learn_tables
from scheduling.engine.placement.fragmentation.foresight_weights import WEIGHTS, Foresight
from scheduling.engine.placement.fragmentation.scarcity import GroupRisk, group_risks
from scheduling.engine.placement.index.grid import (
    BY_PICKER,
    CardTable,
    Columns,
    Grid,
    GridScore,
    LearningScore,
    NodeTable,
    ShapeTable,
    by_grid,
)
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.workload import Workload
from scheduling.engine.state.fleet import Fleet, Ints

# Usual work changes to and fro where a kind of task is about twice as frequent as another. Tables of nodes
# with many cards are large, so few are kept; the rest of a policy is small.
KEPT_TABLES = 2
KEPT_POLICIES = 32


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """What shapes want, as the rule needs it. All but `parts` are `[1 + shapes, 1]` or `[shapes, 1]`.

    `cpu`, `need` and `opened` (empty cards that are taken) start with an entry for no task at all, whose
    outcome is the node as it is. `sliced` are the numbers of the shapes that take a part of one card,
    `parts` `[sliced, 1, 1]` their core units; the whole cards of these are 0.
    """

    cpu: Ints
    need: Ints
    opened: Ints
    whole_cards: Ints
    sliced: Ints
    parts: Ints


@dataclass(slots=True, eq=False)
class _CardFigures:
    """What depends on the cards of nodes alone.

    `columns` and `gain` are `[shapes, nodes]`; `cost_rows` and `worth_rows` `[1 + shapes, nodes]` are
    where the rows of the tables for what is left start.
    """

    gain: Floats
    columns: Ints
    cost_rows: Ints
    worth_rows: Ints


class LookAhead(GridScore):
    """The policy for one workload and inventory, and for the risks that groups of cards run."""

    name = "foresight"
    dtype = np.dtype(np.float32)

    def __init__(
        self, tables: Tables, risks: tuple[GroupRisk, ...], models: Sequence[str], weights: Foresight
    ) -> None:
        self._tables = tables
        self._risks = risks
        self._weights = weights
        self._levels = Levels(tables, risks, models, weights.broken_groups)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LookAhead) and self._facts() == other._facts()

    def grid(self, asked: ShapeTable, nodes: NodeTable) -> Grid:
        """Worth of each place in cards, and the card that it is worth that on."""
        wanted, cards, levels = _wanted(asked), nodes.cards, self._levels
        figures = self._figures(wanted, cards)
        left = nodes.cpu - wanted.cpu
        at = figures.cost_rows + levels.cost_column(left)
        worth = figures.gain + levels.cost.take(at[0]) - levels.cost_left.take(at[1:])
        if self._risks:
            held = levels.worth.take(figures.worth_rows + levels.worth_column(left))
            worth -= held[0] - held[1:]
        return Grid(worth.astype(self.dtype), figures.columns)

    def card(self, question: Question, row: int) -> int:
        """It has its mind on a card for parts of one alone."""
        task = question.task
        return super().card(question, row) if task.cards == 1 and not task.whole else BY_PICKER

    def columns(self, asked: ShapeTable, fleet: Fleet) -> Columns:
        """As `grid`, node after node."""
        pressed = self._tables.pressure * self._pressing
        levels, grid = self._levels, by_grid(self, asked)
        return LookAheadColumns(asked, fleet, self._tables, levels, pressed, grid, risky=bool(self._risks))

    @property
    def _pressing(self) -> float:
        return self._weights.bound_models / self._tables.extent.card

    def _facts(self) -> tuple[Tables, tuple[GroupRisk, ...], Foresight]:
        return self._tables, self._risks, self._weights

    def _figures(self, wanted: _Wanted, cards: CardTable) -> _CardFigures:
        tables, left, sliced = self._tables, cards.left, wanted.sliced
        untouched = cards.present & (left == cards.whole)
        empty = np.add.reduce(untouched, axis=1)
        # Code -1, a node without cards, finds the last entry of tables by model.
        model = np.maximum.reduce(cards.model, axis=1, initial=-1)
        pressed = tables.pressure.take(model, mode="wrap") * self._pressing
        gain = wanted.whole_cards * (tables.waste[-1] / tables.extent.card) - wanted.need[1:] * pressed
        column = np.full(gain.shape, BY_PICKER, np.int64)
        kept = np.maximum(empty - wanted.opened, 0)
        if len(sliced):
            gains = self._gains(wanted, cards, left)
            column[sliced] = chosen = gains.argmax(axis=2)
            gain[sliced] += np.maximum.reduce(gains, axis=2)
            kept[1 + sliced] = empty - untouched[np.arange(len(left)), chosen]
        cost_rows = self._levels.cost_row(cards.total - wanted.need)
        return _CardFigures(gain, column, cost_rows, self._levels.worth_row(model, kept))

    def _gains(self, wanted: _Wanted, cards: CardTable, left: Ints) -> Floats:
        """Less waste on each card, in cards, for the sliced shapes. `[sliced, nodes, cards]`."""
        waste, fitting = self._tables.waste, cards.fitting.take(wanted.sliced, axis=0)
        gains = waste.take(left, mode="clip") - waste.take(left - wanted.parts, mode="clip")
        gains *= 1 / self._tables.extent.card
        return np.where(fitting, gains, -1.0)


class _Learnt:
    """What was learnt from an inventory: tables by workload, with policies by the risks that groups run.

    Labels, health and use of nodes play no part in tables.
    """

    # Nothing that a fleet can revise changes them.
    follows_fleet = True

    def __init__(self) -> None:
        self._known: dict[Workload, tuple[Tables, dict[tuple[GroupRisk, ...], LookAhead]]] = {}

    def policy(self, workload: Workload, fleet: Fleet, weights: Foresight) -> LookAhead:
        """The policy for this workload and for the groups of cards that the fleet has now."""
        # What was used last stands last.
        found = self._known.pop(workload, None) or (learn_tables(workload, fleet, weights), {})
        self._known[workload] = tables, policies = found
        while len(self._known) > KEPT_TABLES:
            del self._known[next(iter(self._known))]
        risks = group_risks(workload, fleet)
        if risks not in policies:
            while len(policies) >= KEPT_POLICIES:
                del policies[next(iter(policies))]
            policies[risks] = LookAhead(tables, risks, fleet.models, weights)
        return policies[risks]


class LookAheadPolicy(LearningScore):
    """The policy before it has learnt."""

    name = "foresight"
    dtype = np.dtype(np.float32)

    def __init__(self, weights: Foresight = WEIGHTS) -> None:
        self._weights = weights

    def learnt(self, workload: Workload, fleet: Fleet) -> GridScore:
        """The score for this workload, and for the groups of cards that the fleet has now."""
        known = fleet.memo.get((self.name, self._weights))
        if not isinstance(known, _Learnt):
            known = fleet.memo[self.name, self._weights] = _Learnt()
        return known.policy(workload, fleet, self._weights)


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
