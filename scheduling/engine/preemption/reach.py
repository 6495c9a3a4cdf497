"""What could be freed at most: an upper bound that ends hopeless searches before they begin.

For every node of the tree and every quota, the amounts held by candidates below it, by priority. If the
request does not fit even with all of them gone, no search finds victims. Built once a cycle, asked in
the depth of the tree.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate

from quotas.tree import at_least
from scheduling.engine.model import FlavorResource, Job
from scheduling.engine.preemption.candidates import Roster
from scheduling.engine.preemption.policy import highest_priority
from scheduling.engine.preemption.targets import Preemptor

Held = tuple[list[float], list[int]]
"""Priorities, ascending, and the amounts up to and including each."""


class Reach:
    """Upper bounds over a roster; they stay bounds while candidates leave."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._held: dict[tuple[str, FlavorResource], Held] = {}
        self._parts: dict[str, dict[FlavorResource, list[tuple[int, int]]]] = {}

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
        priorities, sums = self._of(node, key)
        count = bisect_right(priorities, limit)
        return sums[count - 1] if count else 0

    def _of(self, node: str, key: FlavorResource) -> Held:
        known = self._held.get((node, key))
        if known is None:
            parts = sorted(self._below(node).get(key, ()))
            known = ([part[0] for part in parts], list(accumulate(part[1] for part in parts)))
            self._held[node, key] = known
        return known

    def _below(self, node: str) -> dict[FlavorResource, list[tuple[int, int]]]:
        known = self._parts.get(node)
        if known is not None:
            return known
        parts: dict[FlavorResource, list[tuple[int, int]]] = {}
        for child in self._roster.snapshot.quota.children(node):
            for key, held in self._below(child).items():
                parts.setdefault(key, []).extend(held)
        for queue in self._roster.queues_at(node):
            for segment in self._roster.of(queue):
                for candidate in segment:
                    if candidate.whole:
                        self._note(parts, candidate.job, candidate.charges)
        self._parts[node] = parts
        return parts

    def _note(
        self,
        parts: dict[FlavorResource, list[tuple[int, int]]],
        job: Job,
        charges: Mapping[FlavorResource, int],
    ) -> None:
        for key, amount in charges.items():
            parts.setdefault(key, []).append((job.priority, amount))
