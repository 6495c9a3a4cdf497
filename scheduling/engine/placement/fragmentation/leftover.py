"""How much free capacity is expected to stay unused for good, given what work is usual.

Both tables follow one rule. Free capacity is offered to tasks of the usual workload; of `choice`
tasks that are waiting at random, the one comes that ends in the least waste, it takes its part, and
the same holds for what it leaves. What no task takes is waste:

    w(x) = Σ_j [(1 − P_{j−1})^choice − (1 − P_j)^choice] · w(x − g_j) + (1 − P_end)^choice · x

over the sizes g_j that fit into x, sorted by w(x − g_j), with P_j the share of tasks among the first
j of them. A large `choice` supposes a long queue to choose from; beyond about 45 for single cards the
policy holds gaps open for tasks that do not come.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.placement.index.workload import Workload

Floats = NDArray[np.float64]
Table = NDArray[np.float32]

# Frequent kinds of tasks that the table of nodes is made from.
COVERED = 0.97
MOST_DEMANDS = 255
# Waste is sorted together with the demand that leads to it, in one whole number.
INDEX_BITS = 8
FRACTION = 2.0**20
NEVER = np.int64(1) << 50
# Tables of nodes that are kept: a cell whose usual work has not changed learns nothing anew.
KEPT_TABLES = 8


@dataclass(frozen=True, slots=True)
class Demand:
    """What one kind of task takes from a node, in steps of the node table, and its share of tasks."""

    cores: int
    cpu: int
    share: float


def card_leftover(sizes: Iterable[tuple[int, int]], card: int, choice: float) -> Floats:
    """Expected waste of a card with x core units free, for x = 0 … card, in core units.

    `sizes` are (core units, number of tasks) of tasks on one card. Without any, all is waste.
    """
    counts: Counter[int] = Counter()
    for size, number in sizes:
        counts[min(size, card)] += number
    taken = np.array(sorted(counts), np.int64)
    share = np.array([counts[size] for size in taken.tolist()], np.float64) / max(counts.total(), 1)
    waste = np.arange(card + 1, dtype=np.float64)
    fitting = np.searchsorted(taken, np.arange(card + 1), side="right").tolist()
    # What is too little for anybody is waste as it stands.
    for free in range(max(1, min(counts, default=card + 1)), card + 1):
        ends = waste[free - taken[: fitting[free]]]
        order = ends.argsort(kind="stable")
        nobody = _nobody(share[order], choice)
        waste[free] = -np.diff(nobody) @ ends[order] + nobody[-1] * free
    return waste


@dataclass(frozen=True, slots=True, eq=False)
class NodeLeftover:
    """Expected waste of nodes, in steps of core units: all sizes of tasks are multiples of `measure` steps,
    and `table` `[measures free, steps of CPU free]` is in measures."""

    measure: int
    table: Table

    def of(self, cores: NDArray[np.int64]) -> Table:
        """The waste of nodes with so many steps of core units free. `[cores, cpu + 1]`.

        CPU that is short shows as cores that nobody can take.
        """
        # What is beyond the common measure is never taken: it is waste on top of the rest.
        measures, rest = np.divmod(cores, self.measure)
        waste: Table = self.table[measures] * np.float32(self.measure) + rest.astype(np.float32)[:, None]
        return waste


def node_leftover(demands: Sequence[Demand], cores: int, cpu: int, choice: float) -> NodeLeftover:
    """Expected waste of nodes with up to so many steps of core units and of CPU free."""
    return _node_leftover(tuple(demands), cores, cpu, choice)


@lru_cache(maxsize=KEPT_TABLES)
def _node_leftover(demands: tuple[Demand, ...], cores: int, cpu: int, choice: float) -> NodeLeftover:
    measure = math.gcd(*(demand.cores for demand in demands)) or 1
    measured = [replace(demand, cores=demand.cores // measure) for demand in demands]
    return NodeLeftover(measure, _table(measured, cores // measure, cpu, choice))


def _table(demands: Sequence[Demand], cores: int, cpu: int, choice: float) -> Table:
    waste = np.repeat(np.arange(cores + 1, dtype=np.float32)[:, None], cpu + 1, axis=1)
    if not demands:
        return waste
    deep = max(demand.cores for demand in demands)
    wide = max(demand.cpu for demand in demands)
    shares = np.zeros(1 << INDEX_BITS, np.float32)
    shares[: len(demands)] = [demand.share for demand in demands]
    # The margin stands for "does not fit": it sorts last, and its index has no share.
    keys = np.full((deep + cores + 1, wide + cpu + 1), NEVER | len(demands), np.int64)
    # Rows of which none leads to another can be worked out together.
    block = min(demand.cores for demand in demands)
    for first in range(0, cores + 1, block):
        last = min(first + block, cores + 1)
        rows = waste[first:last]
        if first:
            _settle(rows, keys, demands, (first + deep, wide), shares, choice)
        keys[first + deep : last + deep, wide:] = (rows * FRACTION).astype(np.int64) << INDEX_BITS
    return waste


def demands_of(workload: Workload, core_step: float, cpu_step: float) -> list[Demand]:
    """The most frequent kinds that cover 97 % of the tasks with cards, merged where a step holds them."""
    carded = [(shape, count) for shape, count in workload.counts if shape.cards]
    total, covered = sum(count for _, count in carded), 0
    merged: Counter[tuple[int, int]] = Counter()
    for shape, count in carded:
        if covered >= COVERED * total:
            break
        need = (_steps(shape.cards * shape.cores, core_step), _steps(shape.cpu, cpu_step))
        if need not in merged and len(merged) == MOST_DEMANDS:
            continue
        covered += count
        merged[need] += count
    return [Demand(*need, count / covered) for need, count in sorted(merged.items())]


def _settle(
    rows: Table,
    keys: NDArray[np.int64],
    demands: Sequence[Demand],
    origin: tuple[int, int],
    shares: Table,
    choice: float,
) -> None:
    """Work out rows of the node table, in place, from the rows before them."""
    high, wide = rows.shape
    row, column = origin
    ends = np.empty((high, wide, len(demands)), np.int64)
    for index, demand in enumerate(demands):
        top, left = row - demand.cores, column - demand.cpu
        source = keys[top : top + high, left : left + wide]
        np.bitwise_or(source, index, out=ends[:, :, index], where=source < NEVER)
        ends[:, :, index][source >= NEVER] = NEVER | len(demands)
    ends.sort(axis=-1)
    share = shares[ends & ((1 << INDEX_BITS) - 1)]
    least = np.where(share > 0, (ends >> INDEX_BITS) / FRACTION, 0.0).astype(np.float32)
    nobody = np.maximum(1 - np.cumsum(share, axis=-1), 0) ** np.float32(choice)
    before = np.concatenate([np.ones((high, wide, 1), np.float32), nobody[:, :, :-1]], axis=-1)
    rows[:] = ((before - nobody) * least).sum(axis=-1) + nobody[:, :, -1] * rows


def _nobody(shares: Floats, choice: float) -> Floats:
    """The chance that none of `choice` tasks is among the first j kinds, for j = 0, 1, …"""
    chance: Floats = np.concatenate([[1.0], np.maximum(1 - np.cumsum(shares), 0)]) ** choice
    return chance


def _steps(amount: int, step: float) -> int:
    return -int(-amount // step)
