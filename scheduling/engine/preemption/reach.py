"""What could be freed at most: upper bounds that end hopeless searches before they begin.

For every queue and every quota, the amounts held by its candidates up to a priority, summed over all
candidates at once when a priority is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduling.engine.model import FlavorResource
from scheduling.engine.preemption.candidates import Roster

NOTHING: Mapping[FlavorResource, int] = {}


class Reach:
    """Upper bounds over a roster; they stay bounds while candidates leave."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        jobs = roster.register.jobs
        # Candidates in the order of their queues, and where in it each queue begins.
        candidates = np.flatnonzero(roster.eligible)
        of_queue = jobs["queue"][candidates]
        self._order = candidates[np.argsort(of_queue, kind="stable")]
        present, self._starts = np.unique(np.sort(of_queue), return_index=True)
        names = list(roster.register.queues)
        self._queues = [names[number] for number in present.tolist()]
        self._priorities = np.unique(jobs["priority"][candidates])
        self._known: dict[int, Mapping[str, Mapping[FlavorResource, int]]] = {}

    def upto(self, queue: str, limit: float) -> Mapping[FlavorResource, int]:
        """What candidates of a queue up to a priority hold of each quota; no zeros."""
        levels = int(np.searchsorted(self._priorities, limit, side="right"))
        known = self._known.get(levels)
        if known is None:
            known = self._known[levels] = self._summed(levels)
        return known.get(queue, NOTHING)

    def _summed(self, levels: int) -> Mapping[str, Mapping[FlavorResource, int]]:
        found: dict[str, dict[FlavorResource, int]] = {}
        if not levels:
            return found
        register, order = self._roster.register, self._order
        asked = register.jobs["priority"][order] <= self._priorities[levels - 1]
        for key in register.keys:
            amounts = np.where(asked, register.charges(key)[order], 0)
            sums = np.add.reduceat(amounts, self._starts)
            for number in np.flatnonzero(sums).tolist():
                found.setdefault(self._queues[number], {})[key] = int(sums[number])
        return found
