"""What could be freed at most: upper bounds that end hopeless searches before they begin.

For every queue and every quota, the amounts held by its candidates up to a priority, summed over all
candidates at once when a priority is first asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from quotas.tree import QuotaTree
from scheduling.engine.model import FlavorResource
from scheduling.engine.preemption.candidates import Roster
from scheduling.engine.state.fleet import Ints

_Where = tuple[QuotaTree[FlavorResource], str, frozenset[FlavorResource]]


class Reach:
    """Upper bounds over a roster; they stay bounds while candidates leave. `keys` are the quotas."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        jobs = roster.register.jobs
        self.keys = list(roster.register.keys)
        # Candidates in the order of their queues, and where in it each queue begins.
        candidates = np.flatnonzero(roster.eligible)
        of_queue = jobs["queue"][candidates]
        self._order = candidates[np.argsort(of_queue, kind="stable")]
        self._present, self._starts = np.unique(np.sort(of_queue), return_index=True)
        self._priorities: list[int] = np.unique(jobs["priority"][candidates]).tolist()
        self._known: dict[int, Ints] = {}
        self._sums: dict[tuple[int, tuple[str, ...]], dict[FlavorResource, int]] = {}
        self._borrowers: dict[_Where, tuple[int, tuple[str, ...]]] = {}

    def borrowers(
        self,
        tree: QuotaTree[FlavorResource],
        node: str,
        keys: frozenset[FlavorResource],
        find: Callable[[], Iterable[str]],
    ) -> tuple[str, ...]:
        """What `find` tells of a part of the tree and these quotas, until usage in it changes."""
        stirred, where = tree.stirred(node), (tree, node, keys)
        known = self._borrowers.get(where)
        if known is None or known[0] != stirred:
            known = self._borrowers[where] = (stirred, tuple(find()))
        return known[1]

    def upto(self, queues: Sequence[str], limit: float) -> Mapping[FlavorResource, int]:
        """What candidates of some queues up to a priority hold of each quota together; no zeros."""
        levels = bisect_right(self._priorities, limit)
        whose = levels, tuple(queues)
        sums = self._sums.get(whose)
        if sums is None:
            sums = self._sums[whose] = self._together(*whose)
        return sums

    def _together(self, levels: int, queues: Sequence[str]) -> dict[FlavorResource, int]:
        known = self._known.get(levels)
        if known is None:
            known = self._known[levels] = self._summed(levels)
        numbers = self._roster.register.queues
        rows = [numbers[queue] for queue in queues if queue in numbers]
        totals = known[rows].sum(axis=0).tolist()
        return {key: total for key, total in zip(self.keys, totals, strict=True) if total}

    def _summed(self, levels: int) -> Ints:
        """What candidates of the lowest so many priorities hold. `[queues, keys]`."""
        register, order = self._roster.register, self._order
        found = np.zeros((len(register.queues), len(self.keys)), np.int64)
        if levels:
            asked = register.jobs["priority"][order] <= self._priorities[levels - 1]
            for column, key in enumerate(self.keys):
                amounts = np.where(asked, register.charges(key)[order], 0)
                found[self._present, column] = np.add.reduceat(amounts, self._starts)
        return found
