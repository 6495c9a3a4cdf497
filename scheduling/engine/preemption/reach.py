"""What could be freed at most: upper bounds that end hopeless searches before they begin.

For every queue and every quota, the amounts held by its candidates up to a priority, summed over all
candidates at once when a priority is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.engine.model import FlavorResource
from scheduling.engine.preemption.candidates import Roster
from scheduling.engine.state.fleet import Ints


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
        self._priorities = np.unique(jobs["priority"][candidates])
        self._known: dict[int, Ints] = {}

    def upto(self, queues: Iterable[str], limit: float) -> dict[FlavorResource, int]:
        """What candidates of some queues up to a priority hold of each quota together; no zeros."""
        levels = int(np.searchsorted(self._priorities, limit, side="right"))
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
