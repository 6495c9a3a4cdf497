"""This module computes how much free capacity is expected to stay unused for good, given the workload mix.

Both tables follow one rule. Free capacity is offered to tasks of the workload mix; of `choice` tasks that
wait at random, the one is placed that ends in the least waste, and the same holds for what it leaves. What no
task takes is waste: w(x) = Σ_j [(1 − P_{j−1})^choice − (1 − P_j)^choice] · w(x − g_j) + (1 − P_end)^choice ·
x over the sizes g_j that fit into x, sorted by w(x − g_j), with P_j the share of tasks among the first j of
them. A large `choice` assumes a long queue to choose from; beyond about 45 for single cards the policy holds
gaps open for tasks that do not come.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import TaskWorkload

Floats = NDArray[np.float64]
Table = NDArray[np.float32]

# The share of tasks that the kinds in the node table cover.
COVERED_SHARE = 0.97
MAX_DEMANDS = 255
# Waste is sorted together with the demand that leads to it, in one whole number.
INDEX_BITS = 8
FRACTION = 2.0**20
DOES_NOT_FIT = np.int64(1) << 50
# The number of cached node tables: a cell whose workload mix has not changed computes nothing again.
MAX_TABLES = 8


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """The amounts that a kind of task takes from a node, in steps of the node table, and its share."""

    cores: int
    cpu: int
    share: float


def expected_card_waste(sizes: Iterable[tuple[int, int]], card: int, choice: float) -> Floats:
    """Return the expected waste of a card with x core units free, for x = 0 … card, in core units.

    `sizes` are (core units, number of tasks) of tasks on one card. Without any, everything is waste.
    """
    counts: Counter[int] = Counter()
    for size, number in sizes:
        counts[min(size, card)] += number
    taken = np.array(sorted(counts), np.int64)
    share = np.array([counts[size] for size in taken.tolist()], np.float64) / max(counts.total(), 1)
    waste = np.arange(card + 1, dtype=np.float64)
    fitting = np.searchsorted(taken, np.arange(card + 1), side="right").tolist()
    # Amounts that are too small for every task are waste.
    for free in range(max(1, min(counts, default=card + 1)), card + 1):
        ends = waste[free - taken[: fitting[free]]]
        order = ends.argsort(kind="stable")
        probability_none = _probability_none(share[order], choice)
        waste[free] = -np.diff(probability_none) @ ends[order] + probability_none[-1] * free
    return waste


@dataclass(frozen=True, slots=True, eq=False)
class NodeWasteTable:
    """The expected waste of nodes, in steps of core units.

    All sizes of tasks are multiples of `measure` steps, and `table` `[measures free, steps of CPU free]` is
    in measures.
    """

    measure: int
    table: Table

    def look_up(self, cores: NDArray[np.int64]) -> Table:
        """Return the waste of nodes with this many steps of core units free. `[cores, cpu + 1]`.

        A shortage of CPU appears as cores that no task can take.
        """
        # The remainder of the common measure is never taken: it is waste on top of the rest.
        measures, rest = np.divmod(cores, self.measure)
        waste: Table = self.table[measures] * np.float32(self.measure) + rest.astype(np.float32)[:, None]
        return waste


def expected_node_waste(demands: Sequence[NodeDemand], cores: int, cpu: int, choice: float) -> NodeWasteTable:
    """Return the expected waste of nodes with up to this many steps of core units and of CPU free."""
    return _compute_node_waste(tuple(demands), cores, cpu, choice)


@lru_cache(maxsize=MAX_TABLES)
def _compute_node_waste(
    demands: tuple[NodeDemand, ...], cores: int, cpu: int, choice: float
) -> NodeWasteTable:
    measure = math.gcd(*(demand.cores for demand in demands)) or 1
    measured = [replace(demand, cores=demand.cores // measure) for demand in demands]
    return NodeWasteTable(measure, _table(measured, cores // measure, cpu, choice))


def _table(demands: Sequence[NodeDemand], cores: int, cpu: int, choice: float) -> Table:
    waste = np.repeat(np.arange(cores + 1, dtype=np.float32)[:, None], cpu + 1, axis=1)
    if not demands:
        return waste
    deep = max(demand.cores for demand in demands)
    wide = max(demand.cpu for demand in demands)
    shares = np.zeros(1 << INDEX_BITS, np.float32)
    shares[: len(demands)] = [demand.share for demand in demands]
    # The margin means "does not fit": it sorts last, and its index has no share.
    keys = np.full((deep + cores + 1, wide + cpu + 1), DOES_NOT_FIT | len(demands), np.int64)
    # Rows that do not lead to each other are computed together.
    block = min(demand.cores for demand in demands)
    for first in range(0, cores + 1, block):
        last = min(first + block, cores + 1)
        rows = waste[first:last]
        if first:
            _compute_rows(rows, keys, demands, (first + deep, wide), shares, choice)
        keys[first + deep : last + deep, wide:] = (rows * FRACTION).astype(np.int64) << INDEX_BITS
    return waste


def demands_of(workload: TaskWorkload, core_step: float, cpu_step: float) -> list[NodeDemand]:
    """Return the most frequent kinds, of 97 % of the tasks with cards; those equal in steps are merged."""
    carded = [(shape, count) for shape, count in workload.counts if shape.cards]
    total, covered = sum(count for _, count in carded), 0
    merged: Counter[tuple[int, int]] = Counter()
    for shape, count in carded:
        if covered >= COVERED_SHARE * total:
            break
        need = (_steps(shape.cards * shape.cores, core_step), _steps(shape.cpu, cpu_step))
        if need not in merged and len(merged) == MAX_DEMANDS:
            continue
        covered += count
        merged[need] += count
    return [NodeDemand(*need, count / covered) for need, count in sorted(merged.items())]


def _compute_rows(
    rows: Table,
    keys: NDArray[np.int64],
    demands: Sequence[NodeDemand],
    origin: tuple[int, int],
    shares: Table,
    choice: float,
) -> None:
    """Compute rows of the node table, in place, from the rows before them."""
    high, wide = rows.shape
    row, column = origin
    ends = np.empty((high, wide, len(demands)), np.int64)
    for index, demand in enumerate(demands):
        top, left = row - demand.cores, column - demand.cpu
        # Where a demand does not fit, the index becomes one without a share.
        np.bitwise_or(keys[top : top + high, left : left + wide], index, out=ends[:, :, index])
    ends.sort(axis=-1)
    share = shares.take(ends & ((1 << INDEX_BITS) - 1))
    least = (ends >> INDEX_BITS).astype(np.float32)
    least *= np.float32(1 / FRACTION)
    probability_none = np.maximum(1 - np.cumsum(share, axis=-1), 0) ** np.float32(choice)
    before = np.concatenate([np.ones((high, wide, 1), np.float32), probability_none[:, :, :-1]], axis=-1)
    rows[:] = ((before - probability_none) * least).sum(axis=-1) + probability_none[:, :, -1] * rows


def _probability_none(shares: Floats, choice: float) -> Floats:
    """Return the probability that none of `choice` tasks is among the first j kinds, for j = 0, 1, …"""
    chance: Floats = np.concatenate([[1.0], np.maximum(1 - np.cumsum(shares), 0)]) ** choice
    return chance


def _steps(amount: int, step: float) -> int:
    """Return the amount in whole steps."""
    return -int(-amount // step)
