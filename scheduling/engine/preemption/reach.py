"""What could be freed at most: upper bounds that end hopeless searches before they begin.

For every queue and every quota, the amounts held by its candidates up to each priority, summed over all
candidates at once when they are first asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from quotas.tree import QuotaTree
from scheduling.engine.model import FlavorResource
from scheduling.engine.preemption.candidates import Roster
from scheduling.engine.preemption.register import together
from scheduling.engine.state.fleet import Ints

_Where = tuple[QuotaTree[FlavorResource], str, frozenset[FlavorResource]]


class Reach:
    """Upper bounds over a roster; they stay bounds while candidates leave. `keys` are the quotas."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.keys = list(roster.register.keys)
        self._candidates = np.flatnonzero(roster.eligible)
        self._priority: Ints = roster.register.jobs["priority"][self._candidates]
        self._priorities: list[int] = np.unique(self._priority).tolist()
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
        found = np.zeros((len(self._roster.register.queues), len(self.keys)), np.int64)
        queue, level, amounts = self._cells
        if len(queue):
            present, starts = np.unique(queue, return_index=True)
            found[present] = np.add.reduceat(np.where(level < levels, amounts, 0), starts, axis=1).T
        return found

    @cached_property
    def _cells(self) -> tuple[Ints, Ints, Ints]:
        """The queues, ascending, and the levels of priority that some candidates share, and what these hold
        together `[keys, cells]`."""
        register, candidates, levels = self._roster.register, self._candidates, max(1, len(self._priorities))
        cells = register.jobs["queue"][candidates] * levels
        cells += np.searchsorted(self._priorities, self._priority)
        order = together(cells)
        cells, candidates = cells[order], candidates[order]
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        taken, amounts = cells[starts], np.zeros((len(self.keys), len(starts)), np.int64)
        for number, key in enumerate(self.keys if len(taken) else ()):
            amounts[number] = np.add.reduceat(register.charges(key)[candidates], starts)
        return taken // levels, taken % levels, amounts
