"""Upper bounds of the quota that evictions could release; they end infeasible searches before they begin.

The bounds are sums over all candidates of each queue up to each priority, computed for all candidates at once
at the first use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from quotas.tree import QuotaTree
from scheduling.engine.model import FlavorResource
from scheduling.engine.preemption.candidates.allocation_table import group_order
from scheduling.engine.preemption.candidates.candidates import CandidateIndex
from scheduling.engine.state.fleet import Ints

_BorrowerKey = tuple[QuotaTree[FlavorResource], str, frozenset[FlavorResource]]


class FreeableQuota:
    """Upper bounds over a candidate index that stay valid while candidates are evicted; `keys` are quotas."""

    def __init__(self, index: CandidateIndex) -> None:
        self._index = index
        self.keys = list(index.table.keys)
        self._candidates = np.flatnonzero(index.eligible)
        self._priority: Ints = index.table.job_columns["priority"][self._candidates]
        self._priorities: list[int] = np.unique(self._priority).tolist()
        self._amounts_by_level: dict[int, Ints] = {}
        self._sums: dict[tuple[int, tuple[str, ...]], dict[FlavorResource, int]] = {}
        self._borrowers: dict[_BorrowerKey, tuple[int, tuple[str, ...]]] = {}

    def cached_borrowers(
        self,
        tree: QuotaTree[FlavorResource],
        node: str,
        keys: frozenset[FlavorResource],
        find: Callable[[], Iterable[str]],
    ) -> tuple[str, ...]:
        """Return the result of `find` for a subtree and quotas, cached until usage in the subtree changes."""
        subtree_changes, where = tree.subtree_changes(node), (tree, node, keys)
        known = self._borrowers.get(where)
        if known is None or known[0] != subtree_changes:
            known = self._borrowers[where] = (subtree_changes, tuple(find()))
        return known[1]

    def freeable_amounts(self, queues: Sequence[str], limit: float) -> Mapping[FlavorResource, int]:
        """Return what the candidates of some queues up to a priority are charged, by quota; no zeros."""
        levels = bisect_right(self._priorities, limit)
        whose = levels, tuple(queues)
        sums = self._sums.get(whose)
        if sums is None:
            sums = self._sums[whose] = self._sum_queues(*whose)
        return sums

    def _sum_queues(self, levels: int, queues: Sequence[str]) -> dict[FlavorResource, int]:
        known = self._amounts_by_level.get(levels)
        if known is None:
            known = self._amounts_by_level[levels] = self._sum_levels(levels)
        numbers = self._index.table.queue_numbers
        rows = [numbers[queue] for queue in queues if queue in numbers]
        totals = known[rows].sum(axis=0).tolist()
        return {key: total for key, total in zip(self.keys, totals, strict=True) if total}

    def _sum_levels(self, levels: int) -> Ints:
        """Sum the charges of candidates of the lowest `levels` priorities. `[queues, keys]`."""
        found = np.zeros((len(self._index.table.queue_numbers), len(self.keys)), np.int64)
        queue, level, amounts = self._cells
        if len(queue):
            present, starts = np.unique(queue, return_index=True)
            found[present] = np.add.reduceat(np.where(level < levels, amounts, 0), starts, axis=1).T
        return found

    @cached_property
    def _cells(self) -> tuple[Ints, Ints, Ints]:
        """The cells (queue, priority level) with candidates: ascending queues, levels, `[keys, cells]`."""
        register, candidates, levels = self._index.table, self._candidates, max(1, len(self._priorities))
        cells = register.job_columns["queue"][candidates] * levels
        cells += np.searchsorted(self._priorities, self._priority)
        order = group_order(cells)
        cells, candidates = cells[order], candidates[order]
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        taken, amounts = cells[starts], np.zeros((len(self.keys), len(starts)), np.int64)
        for number, key in enumerate(self.keys if len(taken) else ()):
            amounts[number] = np.add.reduceat(register.charges_of(key)[candidates], starts)
        return taken // levels, taken % levels, amounts
