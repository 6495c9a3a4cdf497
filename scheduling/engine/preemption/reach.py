"""What could be freed at most: an upper bound that ends hopeless searches before they begin.

For every node of the tree and every quota, the amounts held by candidates below it, by priority. If the
request does not fit even with all of them gone, no search finds victims. Summed over all candidates for
a quota and a priority when first asked, and then asked in the depth of the tree.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quotas.tree import at_least
from scheduling.engine.model import FlavorResource
from scheduling.engine.preemption.candidates import Roster
from scheduling.engine.preemption.policy import highest_priority
from scheduling.engine.preemption.targets import Preemptor
from scheduling.engine.state.fleet import Ints


class Reach:
    """Upper bounds over a roster; they stay bounds while candidates leave."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._below: dict[tuple[FlavorResource, float], Mapping[str, int]] = {}
        # Candidates in the order of their queues, and where in it each queue begins.
        self._order: Ints = np.zeros(0, np.int64)
        self._starts: Ints = np.zeros(0, np.int64)
        self._leaves: list[str | None] = []

    def hopeless(self, preemptor: Preemptor, *, borrow: bool) -> bool:
        """Whether the request would not fit with every candidate gone that the policies name."""
        tree, leaf = self._roster.snapshot.quota, preemptor.queue.quota_node
        for key, amount in preemptor.usage.items():
            if not amount:
                continue
            freed = self._freed(preemptor, key)
            if not at_least(tree.available(leaf, key, freed), amount):
                return True
            if not borrow and tree.borrows(leaf, key, amount - freed[leaf]):
                return True
        return False

    def _freed(self, preemptor: Preemptor, key: FlavorResource) -> Mapping[str, int]:
        rules, job, leaf = preemptor.queue.preemption, preemptor.job, preemptor.queue.quota_node
        own = self._upto(leaf, key, highest_priority(job, rules.within_queue))
        limit = highest_priority(job, rules.reclaim)
        mine = self._upto(leaf, key, limit)
        path = self._roster.snapshot.quota.path(leaf)
        return {node: own + (self._upto(node, key, limit) - mine if node != leaf else 0) for node in path}

    def _upto(self, node: str, key: FlavorResource, limit: float) -> int:
        """What candidates up to a priority hold of a quota below a node."""
        known = self._below.get((key, limit))
        if known is None:
            known = self._below[key, limit] = self._summed(key, limit)
        return known.get(node, 0)

    def _summed(self, key: FlavorResource, limit: float) -> Mapping[str, int]:
        if not self._leaves:
            self._sort()
        found: dict[str, int] = {}
        if not len(self._order):
            return found
        register, tree, order = self._roster.register, self._roster.snapshot.quota, self._order
        amounts = np.where(register.jobs["priority"][order] <= limit, register.charges(key)[order], 0)
        for leaf, amount in zip(self._leaves, np.add.reduceat(amounts, self._starts).tolist(), strict=True):
            if amount and leaf is not None:
                for node in tree.path(leaf):
                    found[node] = found.get(node, 0) + amount
        return found

    def _sort(self) -> None:
        register, queues = self._roster.register, self._roster.snapshot.queues
        candidates = np.flatnonzero(self._roster.eligible)
        of_queue = register.jobs["queue"][candidates]
        self._order = candidates[np.argsort(of_queue, kind="stable")]
        present, self._starts = np.unique(np.sort(of_queue), return_index=True)
        names = list(register.queues)
        self._leaves = [queues[names[n]].quota_node if names[n] in queues else None for n in present]
