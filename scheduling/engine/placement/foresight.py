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
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.grid import (
    BY_PICKER,
    CardTable,
    Grid,
    GridScore,
    LearningScore,
    NodeTable,
    ShapeTable,
)
from scheduling.engine.placement.leftover import card_leftover, demands_of, node_leftover
from scheduling.engine.placement.scarcity import (
    GroupRisk,
    group_risks,
    group_steps,
    group_worth,
    pressure,
)
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.placement.workload import Workload
from scheduling.engine.state.fleet import Fleet, Ints

Floats = NDArray[np.float64]

# Steps of the node table: parts of a card, and of the CPU of the largest node.
CARD_STEPS = 100
CPU_STEPS = 256
# Far less than two places are told apart by where much is known.
HAIR = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """The weights of the policy, one set for all clusters.

    `card_choice` and `node_choice` are the queues supposed in the two tables. A card
    is starved where its node has less CPU for it than `starved_cpu` times what cards have on average,
    and `starved_power` says how sharply that is felt.
    """

    card_choice: float = 35.0
    node_choice: float = 2.5
    node_waste: float = 0.1
    starved: float = 0.11
    starved_cpu: float = 0.5
    starved_power: float = 2.0
    bound_models: float = 0.03
    broken_groups: float = 0.5
    free_cards: float = 0.004
    free_cpu: float = 0.008


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What was learnt from one workload for one inventory.

    `waste` `[core units of a card]` and `pressure` `[models]` as in the rule; `cost` `[T, c]` is what
    is wasted on a node with T steps of core units and c steps of CPU left. `fullness`, alike, is what a
    task pays for a node of which so much is still free after it; a node that is left alone pays nothing.
    """

    card: int
    most_cards: int
    core_step: float
    cpu_step: float
    waste: Floats
    cost: Floats
    fullness: Floats
    pressure: Floats

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tables) and (
            self is other
            or all(
                np.array_equal(getattr(self, part.name), getattr(other, part.name)) for part in fields(self)
            )
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """Shapes that differ in memory alone are scored once: `first` of each kind, and the kind of each.

    The first `sliced` kinds are those that take a part of one card. `cpu`, `need` and `opened` (empty
    cards that are taken) start with an entry for no task at all, whose outcome is the node as it is.
    `whole_cards` is 0 for the sliced. All but `parts`, the sliced kinds' core units, are `[kinds, 1]`.
    """

    first: Ints
    of_shape: Ints
    sliced: int
    cpu: Ints
    need: Ints
    opened: Ints
    whole_cards: Ints
    parts: Ints


@dataclass(slots=True, eq=False)
class _CardFigures:
    """What depends on the cards of nodes alone.

    `columns` `[shapes, nodes]`, `gain` `[kinds, nodes]`; `cost_rows` and `worth_rows`
    `[1 + kinds, nodes]` are where the rows of the tables for what is left start.
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
        # One axis of CPU for both tables: even steps, and the amounts that a group at risk needs.
        even = np.arange(tables.cost.shape[1]) * tables.cpu_step
        self._cpu_axis = np.union1d(np.ceil(even).astype(np.int64), group_steps(risks, tables.most_cards))
        column = np.minimum((self._cpu_axis / tables.cpu_step).astype(np.int64), len(even) - 1)
        self._cost = tables.cost[:, column].reshape(-1)
        self._cost_left = (tables.cost + tables.fullness)[:, column].reshape(-1)
        worth = group_worth(risks, models, tables.most_cards, self._cpu_axis)
        self._worth = weights.broken_groups * worth.reshape(-1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LookAhead) and self._facts() == other._facts()

    def grid(self, asked: ShapeTable, nodes: NodeTable) -> Grid:
        """Worth of each place in cards, and the card that it is worth that on."""
        kinds, cards = _kinds_of(asked), nodes.cards
        figures = cards.memo.get(self.name)
        if figures is None:
            figures = cards.memo[self.name] = self._figures(kinds, cards)
        left = np.maximum(nodes.cpu - kinds.cpu, 0)
        column = self._cpu_axis.searchsorted(left, side="right") - 1
        at = figures.cost_rows + column
        worth = figures.gain + self._cost.take(at[0]) - self._cost_left.take(at[1:])
        if self._risks:
            held = self._worth.take(figures.worth_rows + column)
            worth -= held[0] - held[1:]
        worth = worth.astype(self.dtype)
        return Grid(worth.take(kinds.of_shape, axis=0), figures.columns)

    def _facts(self) -> tuple[Tables, tuple[GroupRisk, ...], Foresight]:
        return self._tables, self._risks, self._weights

    def _figures(self, kinds: _Kinds, cards: CardTable) -> _CardFigures:
        tables, left, sliced = self._tables, cards.left, kinds.sliced
        untouched = cards.present & (left == cards.whole)
        empty = np.add.reduce(untouched, axis=1)
        # Code -1, a node without cards, finds the last entry of tables by model.
        model = np.maximum.reduce(cards.model, axis=1, initial=-1)
        pressed = tables.pressure.take(model, mode="wrap") * (self._weights.bound_models / tables.card)
        gain = kinds.whole_cards * (tables.waste[-1] / tables.card) - kinds.need[1:] * pressed
        column = np.full(gain.shape, BY_PICKER, np.int64)
        kept = np.maximum(empty - kinds.opened, 0)
        if sliced:
            gains = self._gains(kinds, cards, left)
            column[:sliced] = chosen = gains.argmax(axis=2)
            gain[:sliced] += np.maximum.reduce(gains, axis=2)
            kept[1 : 1 + sliced] = empty - untouched[np.arange(len(left)), chosen]
        cores = np.maximum(cards.total - kinds.need, 0)
        rows = np.minimum((cores * (1 / tables.core_step)).astype(np.int64), len(tables.cost) - 1)
        kept += (model % len(tables.pressure)) * (tables.most_cards + 1)
        width = len(self._cpu_axis)
        return _CardFigures(gain, column.take(kinds.of_shape, axis=0), rows * width, kept * width)

    def _gains(self, kinds: _Kinds, cards: CardTable, left: Ints) -> Floats:
        """Less waste on each card, in cards, for the sliced kinds. `[sliced kinds, nodes, cards]`."""
        waste, fitting = self._tables.waste, cards.fitting.take(kinds.first[: kinds.sliced], axis=0)
        gains = waste.take(left, mode="clip") - waste.take(left - kinds.parts, mode="clip")
        gains *= 1 / self._tables.card
        return np.where(fitting, gains, -1.0)


@dataclass(frozen=True, slots=True)
class _Learnt:
    """Tables, and what they were learnt from. Labels, health and use of nodes play no part in them."""

    workload: Workload
    tables: Tables

    @property
    def follows_fleet(self) -> bool:
        """Nothing that a fleet can revise changes them."""
        return True


class LookAheadPolicy(LearningScore):
    """The policy before it has learnt."""

    name = "foresight"
    dtype = np.dtype(np.float32)

    def __init__(self, weights: Foresight = Foresight()) -> None:
        self._weights = weights

    def learnt(self, workload: Workload, fleet: Fleet) -> GridScore:
        """The score for this workload, and for the groups of cards that the fleet has now."""
        known = fleet.memo.get((self.name, self._weights))
        if not (isinstance(known, _Learnt) and known.workload == workload):
            known = _Learnt(workload, learn_tables(workload, fleet, self._weights))
            fleet.memo[self.name, self._weights] = known
        return LookAhead(known.tables, group_risks(workload, fleet), fleet.models, self._weights)


def learn_tables(workload: Workload, fleet: Fleet, weights: Foresight) -> Tables:
    """The tables for a workload and an inventory; what is held on it plays no part."""
    card = max(int(fleet.card_cores.max(initial=0)), 1)
    of_node = (fleet.card_cores * fleet.present).sum(axis=1)
    carded = fleet.cpu[of_node > 0]
    most_cpu, most_cores = max(int(carded.max(initial=0)), 1), max(int(of_node.max(initial=0)), 1)
    core_step, cpu_step = card / CARD_STEPS, most_cpu / CPU_STEPS
    height = -(-most_cores * CARD_STEPS // card)
    demands = demands_of(workload, core_step, cpu_step)
    cores = np.arange(height + 1)[:, None] * core_step
    cpu = np.arange(CPU_STEPS + 1) * cpu_step
    average = int(carded.sum()) / max(int(of_node.sum()), 1)
    plenty = np.maximum(cores * weights.starved_cpu * average, 1.0)
    starved = cores * np.maximum(1 - cpu / plenty, 0) ** weights.starved_power
    cost = weights.node_waste / CARD_STEPS * node_leftover(demands, height, CPU_STEPS, weights.node_choice)
    cost = cost + weights.starved / card * starved
    fullness = weights.free_cards * cores / most_cores + weights.free_cpu * cpu / most_cpu
    return Tables(
        card=card,
        most_cards=fleet.present.shape[1],
        core_step=core_step,
        cpu_step=cpu_step,
        waste=_card_waste(workload, card, weights),
        cost=cost,
        fullness=fullness,
        pressure=_pressures(workload, fleet),
    )


def _card_waste(workload: Workload, card: int, weights: Foresight) -> Floats:
    single = [(shape.cores, count) for shape, count in workload.counts if shape.cards == 1]
    waste = card_leftover(single, card, weights.card_choice)
    if single:
        # Of cards on which a task wastes as much, the fullest wins.
        waste -= HAIR / card * np.arange(card + 1, dtype=np.float64) ** 2
    return waste


def _pressures(workload: Workload, fleet: Fleet) -> Floats:
    """Pressure by the fleet's codes of models; a last entry for nodes without cards."""
    capacity = {
        model: int(fleet.card_cores[fleet.present & (fleet.model == code)].sum())
        for code, model in enumerate(fleet.models)
    }
    pressed = pressure(workload, {model: cores for model, cores in capacity.items() if cores})
    return np.array([*(pressed.get(model, 0.0) for model in fleet.models), 0.0])


def _kinds_of(asked: ShapeTable) -> _Kinds:
    kinds = asked.memo.get("foresight")
    if not isinstance(kinds, _Kinds):
        kinds = asked.memo["foresight"] = _sorted_kinds(asked)
    return kinds


def _sorted_kinds(asked: ShapeTable) -> _Kinds:
    members: dict[TaskShape, list[int]] = {}
    for shape, task in enumerate(asked.tasks):
        members.setdefault(replace(task, memory=0), []).append(shape)
    groups = sorted(members.values(), key=lambda shapes: (not asked.sliced[shapes[0]], shapes[0]))
    of_shape = np.zeros(len(asked), np.int64)
    for kind, shapes in enumerate(groups):
        of_shape[shapes] = kind
    first = np.array([shapes[0] for shapes in groups], np.int64)
    cards = np.where(asked.sliced[first], 0, asked.cards[first])
    return _Kinds(
        first=first,
        of_shape=of_shape,
        sliced=int(np.count_nonzero(asked.sliced[first])),
        cpu=_after_nothing(asked.cpu[first]),
        need=_after_nothing(asked.need[first]),
        opened=_after_nothing(cards),
        whole_cards=cards[:, None],
        parts=asked.cores[first][asked.sliced[first]][:, None, None],
    )


def _after_nothing(amounts: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), amounts])[:, None]
