"""What the platform's packing policy knows: its weights, and tables learnt from a workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.leftover import card_leftover, demands_of, node_leftover
from scheduling.engine.placement.scarcity import GroupRisk, group_steps, group_worth, pressure
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


WEIGHTS = Foresight()


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What was learnt from one workload for one inventory.

    `waste` `[core units of a card]` and `pressure` `[models]` as in the rule. Of `costs` `[2, T, c]` the
    first is what is wasted on a node with T steps of core units and c steps of CPU left, the second that
    and what a task pays for a node of which so much is still free after it; a node that is left alone pays
    nothing.
    """

    workload: Workload
    card: int
    most_cards: int
    core_step: float
    cpu_step: float
    waste: Floats
    costs: Floats
    pressure: Floats

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Tables) or self.workload != other.workload:
            return self is other  # large tables are compared only where they may be equal
        of_numbers = (part.name for part in fields(self) if part.name != "workload")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in of_numbers)


class Levels:
    """The tables of what is left, flat: a row of `cost` and of `cost_left` (with fullness) has an entry for
    every even step of CPU, one of `worth` (of whole groups) for every step that a group at risk needs."""

    def __init__(
        self, tables: Tables, risks: tuple[GroupRisk, ...], models: Sequence[str], broken_groups: float
    ) -> None:
        self._tables = tables
        _, self._height, self._cost_width = tables.costs.shape
        # Of both axes the column of every amount up to the last that is told apart.
        even = np.unique(np.ceil(np.arange(self._cost_width) * tables.cpu_step).astype(np.int64))
        steps = np.minimum((even / tables.cpu_step).astype(np.int32), self._cost_width - 1)
        self._cost_column: NDArray[np.int32] = _by_amount(even, steps)
        axis = np.union1d([0], group_steps(risks, tables.most_cards))
        self.width = len(axis)
        self._worth_column: NDArray[np.int32] = _by_amount(axis, np.arange(self.width, dtype=np.int32))
        self.costs = tables.costs.reshape(-1)
        half = len(self.costs) // 2
        self.cost, self.cost_left = self.costs[:half], self.costs[half:]
        worth = group_worth(risks, models, tables.most_cards, axis)
        self.worth = broken_groups * worth.reshape(-1)

    def cost_column(self, cpu: Ints) -> NDArray[np.int32]:
        """The entries of so much CPU in rows of costs, none or less counting as none."""
        found: NDArray[np.int32] = self._cost_column.take(cpu, mode="clip")
        return found

    def worth_column(self, cpu: Ints) -> NDArray[np.int32]:
        """The entries of so much CPU in rows of worth, none or less counting as none."""
        found: NDArray[np.int32] = self._worth_column.take(cpu, mode="clip")
        return found

    def cost_row(self, cores: Ints) -> Ints:
        """Where the rows of so many core units start, none or less counting as none."""
        steps = (np.maximum(cores, 0) * (1 / self._tables.core_step)).astype(np.int64)
        row: Ints = np.minimum(steps, self._height - 1) * self._cost_width
        return row

    def worth_row(self, model: Ints | int, empty: Ints) -> Ints:
        """Where the rows of so many empty cards of a model start; code -1 stands for no cards."""
        tables = self._tables
        row: Ints = (empty + model % len(tables.pressure) * (tables.most_cards + 1)) * self.width
        return row


def _by_amount(axis: Ints, columns: NDArray[np.int32]) -> NDArray[np.int32]:
    """For every whole amount the column of the last entry of an ascending axis that is not above it."""
    return np.repeat(columns, np.diff(axis, append=axis[-1] + 1))


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
    costs = np.empty((2, height + 1, CPU_STEPS + 1))
    left = node_leftover(demands, height, CPU_STEPS, weights.node_choice)
    np.add(weights.node_waste / CARD_STEPS * left, weights.starved / card * starved, out=costs[0])
    fullness = weights.free_cards * cores / most_cores + weights.free_cpu * cpu / most_cpu
    np.add(costs[0], fullness, out=costs[1])
    return Tables(
        workload=workload,
        card=card,
        most_cards=fleet.present.shape[1],
        core_step=core_step,
        cpu_step=cpu_step,
        waste=_card_waste(workload, card, weights),
        costs=costs,
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
