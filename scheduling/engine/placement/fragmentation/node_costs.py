"""This module tabulates the waste on a node by what it has left, and what a task pays for that, for the
packing policy.

A node with many cards has many states of which few occur, so most rows are never computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import TaskWorkload
from scheduling.engine.placement.fragmentation.expected_waste import demands_of, expected_node_waste
from scheduling.engine.placement.fragmentation.look_ahead_weights import WEIGHTS
from scheduling.engine.state.fleet import Fleet, Ints

Floats = NDArray[np.float64]

# The steps of the table: parts of a card, and of the CPU of the largest node.
CARD_STEPS = 100
CPU_STEPS = 256
WIDTH = CPU_STEPS + 1
# A table with this few rows is computed at once.
FEW_ROWS = 2048


@dataclass(frozen=True, slots=True)
class InventoryExtent:
    """The sizes of cards and nodes of an inventory; present allocations play no part."""

    card: int
    most_cards: int
    most_cpu: int
    most_cores: int
    average_cpu: float

    @staticmethod
    def of_fleet(fleet: Fleet) -> InventoryExtent:
        """Return the extent of all nodes with cards; `average_cpu` is the millicores per core unit."""
        of_node = (fleet.card_cores * fleet.present).sum(axis=1)
        carded = fleet.cpu[of_node > 0]
        return InventoryExtent(
            card=max(int(fleet.card_cores.max(initial=0)), 1),
            most_cards=fleet.present.shape[1],
            most_cpu=max(int(carded.max(initial=0)), 1),
            most_cores=max(int(of_node.max(initial=0)), 1),
            average_cpu=int(carded.sum()) / max(int(of_node.sum()), 1),
        )

    @property
    def core_step(self) -> float:
        """Core units in a step."""
        return self.card / CARD_STEPS

    @property
    def cpu_step(self) -> float:
        """Millicores in a step."""
        return self.most_cpu / CPU_STEPS

    @property
    def height(self) -> int:
        """Steps of core units in the largest node."""
        return -(-self.most_cores * CARD_STEPS // self.card)


class NodeCosts:
    """Two tables, one behind the other, with a row for each step of free core units and an entry for each
    step of free CPU.

    The first is the waste, the second adds what a task pays for a node with this much still free after it; an
    unchanged node pays nothing.
    """

    def __init__(self, workload: TaskWorkload, extent: InventoryExtent) -> None:
        self._extent, self._last = extent, extent.height
        demands = demands_of(workload, extent.core_step, extent.cpu_step)
        self._waste_table = expected_node_waste(demands, extent.height, CPU_STEPS, WEIGHTS.node_choice)
        self._costs = np.empty((2, extent.height + 1, WIDTH))
        self.flat = self._costs.reshape(-1)
        self._unknown = np.ones(extent.height + 1, np.bool_)
        self._complete = extent.height < FEW_ROWS
        if self._complete:
            self._work_out(np.arange(extent.height + 1))

    def start_rows(self, cores: Ints) -> Ints:
        """Return the first entries of the rows of this many core units; negative amounts count as 0."""
        steps = (np.maximum(cores, 0) * (1 / self._extent.core_step)).astype(np.int64)
        steps = np.minimum(steps, self._last)
        if not self._complete:
            unknown = steps[self._unknown.take(steps)]
            if len(unknown):
                self._work_out(np.unique(unknown))
        return steps * WIDTH

    def _work_out(self, steps: Ints) -> None:
        starved, fullness = _fixed_costs(tuple(steps.tolist()), self._extent)
        wasted = WEIGHTS.node_waste / CARD_STEPS * self._waste_table.look_up(steps) + starved
        self._costs[:, steps] = wasted, wasted + fullness
        self._unknown[steps] = False


@lru_cache(maxsize=2)
def _fixed_costs(steps: tuple[int, ...], extent: InventoryExtent) -> tuple[Floats, Floats]:
    """Return the costs of a lack of CPU and of emptiness, on which the workload has no influence."""
    cpu, cores = np.arange(WIDTH) * extent.cpu_step, np.array(steps)[:, None] * extent.core_step
    plenty = np.maximum(cores * WEIGHTS.starved_cpu * extent.average_cpu, 1.0)
    starved = cores * np.maximum(1 - cpu / plenty, 0) ** WEIGHTS.starved_power
    fullness = WEIGHTS.free_cards * cores / extent.most_cores + WEIGHTS.free_cpu * cpu / extent.most_cpu
    return WEIGHTS.starved / extent.card * starved, fullness
