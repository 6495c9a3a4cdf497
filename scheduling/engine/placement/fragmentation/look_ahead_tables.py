"""This module holds the tables of the platform's packing policy, learnt from a workload mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import TaskWorkload
from scheduling.engine.placement.fragmentation.expected_waste import expected_card_waste
from scheduling.engine.placement.fragmentation.look_ahead_weights import WEIGHTS
from scheduling.engine.placement.fragmentation.node_costs import CPU_STEPS, InventoryExtent, NodeCosts
from scheduling.engine.placement.fragmentation.scarcity import (
    GroupRisk,
    group_steps,
    group_worth,
    model_pressure,
)
from scheduling.engine.state.fleet import Fleet, Ints

Floats = NDArray[np.float64]

# The number of cached axes of CPU, by the largest node of an inventory.
MAX_AXES = 8
# A difference far below any that decides between two placements.
EPSILON = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class LookAheadTables:
    """The tables for one workload and one inventory.

    `card_waste` `[core units of a card]` and `pressure` `[models]` are as in the rule, `costs` is the waste
    on nodes.
    """

    workload: TaskWorkload
    extent: InventoryExtent
    card_waste: Floats
    costs: NodeCosts
    pressure: Floats

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, LookAheadTables):
            return self is other
        # The larger tables follow from these, so they need no comparison.
        facts = self.workload, self.extent
        return facts == (other.workload, other.extent) and np.array_equal(self.pressure, other.pressure)


class LookAheadLevels:
    """The tables of what is left, flat.

    A row of `cost` and of `cost_left` (with fullness) has an entry for every even step of CPU, one of `worth`
    (of whole groups) for every step that a group at risk needs.
    """

    def __init__(self, tables: LookAheadTables, risks: tuple[GroupRisk, ...], models: Sequence[str]) -> None:
        self._tables = tables
        # For both axes, the column of every amount up to the last one that is distinguished.
        self._cost_column = _cost_columns(tables.extent.cpu_step)
        axis = np.union1d([0], group_steps(risks, tables.extent.most_cards))
        self.width = len(axis)
        self._worth_column: NDArray[np.int32] = _by_amount(axis, np.arange(self.width, dtype=np.int32))
        self.costs = tables.costs.flat
        half = len(self.costs) // 2
        self.cost, self.cost_left = self.costs[:half], self.costs[half:]
        worth = group_worth(risks, models, tables.extent.most_cards, axis)
        self.worth = WEIGHTS.broken_groups * worth.reshape(-1)

    def cost_column(self, cpu: Ints) -> NDArray[np.int32]:
        """Return the entries of this much CPU in rows of costs; negative amounts count as 0."""
        found: NDArray[np.int32] = self._cost_column.take(cpu, mode="clip")
        return found

    def worth_column(self, cpu: Ints) -> NDArray[np.int32]:
        """Return the entries of this much CPU in rows of worth; negative amounts count as 0."""
        found: NDArray[np.int32] = self._worth_column.take(cpu, mode="clip")
        return found

    def cost_row(self, cores: Ints) -> Ints:
        """Return the first entries of the rows of this many core units; negative amounts count as 0."""
        return self._tables.costs.start_rows(cores)

    def worth_row(self, model: Ints | int, empty: Ints) -> Ints:
        """Return the first entries of the rows of so many empty cards of a model; code -1 is no cards."""
        tables = self._tables
        row: Ints = (empty + model % len(tables.pressure) * (tables.extent.most_cards + 1)) * self.width
        return row


@lru_cache(maxsize=MAX_AXES)
def _cost_columns(cpu_step: float) -> NDArray[np.int32]:
    even = np.unique(np.ceil(np.arange(CPU_STEPS + 1) * cpu_step).astype(np.int64))
    return _by_amount(even, np.minimum((even / cpu_step).astype(np.int32), CPU_STEPS))


def _by_amount(axis: Ints, columns: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return, for every whole amount, the last column of an ascending axis that is not above it."""
    return np.repeat(columns, np.diff(axis, append=axis[-1] + 1))


def learn_tables(workload: TaskWorkload, fleet: Fleet) -> LookAheadTables:
    """Return the tables for a workload and an inventory; present allocations play no part."""
    extent = InventoryExtent.of_fleet(fleet)
    return LookAheadTables(
        workload=workload,
        extent=extent,
        card_waste=_card_waste(workload, extent.card),
        costs=NodeCosts(workload, extent),
        pressure=_pressures(workload, fleet),
    )


def _card_waste(workload: TaskWorkload, card: int) -> Floats:
    single = [(shape.cores, count) for shape, count in workload.counts if shape.cards == 1]
    waste = expected_card_waste(single, card, WEIGHTS.card_choice)
    if single:
        # Of cards with equal waste after a task, the fullest wins.
        waste -= EPSILON / card * np.arange(card + 1, dtype=np.float64) ** 2
    return waste


def _pressures(workload: TaskWorkload, fleet: Fleet) -> Floats:
    """Return the pressure by the fleet's codes of models, with a last entry for nodes without cards."""
    capacity = {
        model: int(fleet.card_cores[fleet.present & (fleet.model == code)].sum())
        for code, model in enumerate(fleet.models)
    }
    pressed = model_pressure(workload, {model: cores for model, cores in capacity.items() if cores})
    return np.array([*(pressed.get(model, 0.0) for model in fleet.models), 0.0])
