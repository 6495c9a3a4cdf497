"""This module measures how much idle card capacity a workload cannot use.

The measure is that of Fragmentation Gradient Descent (Weng et al., ATC 2023): for a task drawn at random from
a workload, the expected amount of idle card cores on a node that this task cannot use, either because it does
not fit on the node at all, or because single cards have too little left. Memory plays no part in it, and a
task without cards can use none.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from scheduling.engine import WorkloadShape
from scheduling.engine.scoring import ALL_ROWS, Bools, Fleet, Ints, Rows


class FragmentationGauge:
    """Measures the unusable capacity of a fleet for a workload's typical shapes.

    The expected fragmentation of each row is cached, and computed again only for rows that changed.
    """

    def __init__(self, fleet: Fleet, shapes: Iterable[tuple[WorkloadShape, float]]) -> None:
        listed = list(shapes)
        self._fleet = fleet
        self._weights: NDArray[np.float64] = np.array([weight for _, weight in listed])
        self._cpu: Ints = np.array([shape.cpu for shape, _ in listed], np.int64)
        self._cores: Ints = np.array([shape.cores for shape, _ in listed], np.int64)
        self._cards: Ints = np.array([shape.cards for shape, _ in listed], np.int64)
        names = [set(shape.models.split("|")) if shape.models else set(fleet.models) for shape, _ in listed]
        self._accepts: Bools = np.array([[model in known for model in fleet.models] for known in names])
        self._known = self.unusable_cores(ALL_ROWS)
        self._seen, self._epoch = len(fleet.changed_rows), fleet.epoch

    def unusable_percent(self) -> float:
        """Return the expected part of all idle core units that a task cannot use, in percent."""
        fleet = self._fleet
        if self._epoch != fleet.epoch:
            self._known = self.unusable_cores(ALL_ROWS)
        elif self._seen < len(fleet.changed_rows):
            rows = fleet.rows_changed_since(self._seen)
            self._known[rows] = self.unusable_cores(rows)
        self._seen, self._epoch = len(fleet.changed_rows), fleet.epoch
        idle = int(self.idle_cores(ALL_ROWS).sum())
        return 100 * float(self._known.sum()) / idle if idle else 0.0

    def idle_cores(self, rows: Rows) -> Ints:
        """Return the free core units on the cards of each row. `[rows]`."""
        left: Ints = self._fleet.cores_free[rows].sum(axis=1)
        return left

    def unusable_cores(self, rows: Rows) -> NDArray[np.float64]:
        """Return the expected part of `idle_cores` that a task of the workload cannot use. `[rows]`."""
        fleet = self._fleet
        left = fleet.cores_free[rows][:, None, :]
        too_little = left < self._cores[None, :, None]
        present = fleet.present[rows][:, None, :]
        fitting = (present & ~too_little).sum(axis=2)
        model = fleet.model[rows].max(axis=1)
        accepted = self._accepts.T[model] & (model >= 0)[:, None]
        runs = (fleet.cpu_free[rows][:, None] >= self._cpu) & (fitting >= self._cards) & accepted
        useful = runs & (self._cards > 0)
        slivers = np.where(too_little, left, 0).sum(axis=2)
        wasted = np.where(useful, slivers, self.idle_cores(rows)[:, None])
        expected: NDArray[np.float64] = wasted @ self._weights
        return expected
