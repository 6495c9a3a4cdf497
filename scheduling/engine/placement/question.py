"""One shape asked of one fleet: the facts that vetoes and scores share.

Which cards a shape could ever use (model, mode) does not change while a cycle simulates, so it is
worked out once and kept here.
"""

from __future__ import annotations

import numpy as np

from scheduling.engine.model import Flavor, GpuMode
from scheduling.engine.placement.labels import carries
from scheduling.engine.placement.shape import TaskShape
from scheduling.engine.state.fleet import MODES, Bools, Fleet, Ints, Rows

# A whole card may come from a node that also slices, as long as the card is empty. MIG instances are
# asked for by profile, never as cards or percentages, so no shape of this kind is served by them.
SERVED_BY = {
    GpuMode.WHOLE: (GpuMode.WHOLE, GpuMode.SLICE),
    GpuMode.SLICE: (GpuMode.SLICE,),
    GpuMode.MIG: (),
}


class Question:
    """A shape, the fleet, and masks derived from both; all arrays are indexed by the fleet's rows."""

    def __init__(self, fleet: Fleet, task: TaskShape, flavor: Flavor) -> None:
        self.fleet = fleet
        self.task = task
        self.members: Bools = members(fleet, flavor)
        modes = SERVED_BY[task.mode] if flavor.mode in SERVED_BY[task.mode] else ()
        self.of_mode: Bools = fleet.present & np.isin(fleet.mode, [MODES.index(mode) for mode in modes])
        wanted = set(task.models) or set(fleet.models)
        if flavor.card_model:
            wanted &= {flavor.card_model}
        codes = [code for code, model in enumerate(fleet.models) if model in wanted]
        self.of_model: Bools = self.of_mode & np.isin(fleet.model, codes)
        self.usable: Bools = self.of_model & fleet.healthy

    def with_cores(self, rows: Rows) -> Bools:
        """Cards that have the cores free; for a whole card those that are empty. `[rows, cards]`."""
        fleet, task = self.fleet, self.task
        if task.whole:
            untouched = fleet.cores_free[rows] == fleet.card_cores[rows]
            empty: Bools = self.usable[rows] & (fleet.holders[rows] == 0) & untouched
            return empty
        roomy: Bools = self.usable[rows] & ~fleet.exclusive[rows] & (fleet.cores_free[rows] >= task.cores)
        return roomy

    def fitting(self, rows: Rows) -> Bools:
        """Cards on which the task's part fits with cores and memory. `[rows, cards]`."""
        cards = self.with_cores(rows)
        if self.task.whole:
            cards &= self.fleet.card_memory_free[rows] == self.fleet.card_memory[rows]
            return cards
        if self.task.card_memory:
            cards &= self.fleet.card_memory_free[rows] >= self.task.card_memory
        return cards

    def enough(self, cards: Bools) -> Bools:
        """Rows with at least as many marked cards as the task asks for."""
        counted: Ints = cards.sum(axis=1)
        enough: Bools = counted >= self.task.cards
        return enough


def members(fleet: Fleet, flavor: Flavor) -> Bools:
    """The rows that belong to a flavor: its cluster and all its node labels."""
    key = ("members", flavor.id, flavor.cluster, tuple(sorted(flavor.node_labels.items())))
    known = fleet.memo.get(key)
    if known is None:
        wanted = tuple(sorted(flavor.node_labels.items()))
        known = np.fromiter(
            (node.cluster == flavor.cluster and carries(node.labels, wanted) for node in fleet.nodes),
            np.bool_,
            len(fleet),
        )
        fleet.memo[key] = known
    mask: Bools = known  # type: ignore[assignment]
    return mask
