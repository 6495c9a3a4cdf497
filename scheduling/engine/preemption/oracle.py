"""The preemption oracle: the result of preemption for one quota while flavors are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quotas.tree import is_at_least
from scheduling.engine.model import FlavorResource, Job, Queue
from scheduling.engine.preemption.search import VictimSearch
from scheduling.engine.preemption.trials.context import may_exceed_nominal
from scheduling.engine.preemption.trials.targets import Preemptor, Target
from scheduling.engine.quota.assignment import AssignmentMode


@dataclass(frozen=True, slots=True)
class _CachedTargets:
    """The targets that were found for one quota of a job, in one state of the snapshot."""

    state: tuple[object, ...]
    key: FlavorResource
    targets: tuple[Target, ...]


class PreemptionOracle:
    """An oracle that searches for one quota alone, as Kueue's preemption oracle does.

    A job requests several resources of a flavor one after the other. The victims of one search mostly release
    enough of the other resources as well, so they are tried first.
    """

    def __init__(self, search: VictimSearch) -> None:
        self._search = search
        self._cached: _CachedTargets | None = None
        self._state: tuple[object, ...] = ()
        self._results: dict[tuple[FlavorResource, int], tuple[AssignmentMode, int]] = {}

    def __call__(
        self, queue: Queue, job: Job, key: FlavorResource, amount: int
    ) -> tuple[AssignmentMode, int]:
        """Return the mode that preemption reaches for an amount, and the borrowing level afterwards.

        `NO_CANDIDATES`: no candidates, or not enough. `RECLAIM`: all victims are in other queues. `PREEMPT`:
        some victims are in the own queue.
        """
        state = (queue.id, job, key.flavor, *self._search.snapshot.usage_version())
        if self._state != state:
            self._state, self._results = state, {}
        # A job whose assignment was overtaken by others asks for the same amounts again.
        known = self._results.get((key, amount))
        if known is None:
            known = self._results[key, amount] = self._simulate(state, queue, job, key, amount)
        return known

    def _simulate(
        self, state: tuple[object, ...], queue: Queue, job: Job, key: FlavorResource, amount: int
    ) -> tuple[AssignmentMode, int]:
        if self._cached is not None and self._cached.state == state and self._cached.key != key:
            result = self._mode_with_targets(queue, job, key, amount, self._cached.targets)
            if result is not None:
                return result
        preemptor = Preemptor(job=job, queue=queue, usage={key: amount}, contested=frozenset({key}))
        budget = self._search.options.oracle_budget
        found = self._search.find_victims(preemptor, budget=budget, any_victims=True)
        result = self._mode_with_targets(queue, job, key, amount, found.targets) if found.targets else None
        if result is None:
            tree = self._search.snapshot.quota
            return AssignmentMode.NO_CANDIDATES, tree.borrow_level(queue.quota_node, key, amount)
        self._cached = _CachedTargets(state, key, found.targets)
        return result

    def _mode_with_targets(
        self, queue: Queue, job: Job, key: FlavorResource, amount: int, targets: tuple[Target, ...]
    ) -> tuple[AssignmentMode, int] | None:
        """Return the mode with these victims; None if one of them is ineligible, or they do not suffice."""
        tree, leaf = self._search.snapshot.quota, queue.quota_node
        freed = list(self._freed_usage(targets, key))
        if not all(at == leaf or not tree.inside(at, (key,)) for at, _ in freed):
            return None
        for at, given in freed:
            tree.remove_usage(at, key, given)
        level, available = tree.borrow_level(leaf, key, amount), tree.available(leaf, key)
        borrows = tree.borrows(leaf, key, amount)
        for at, given in freed:
            tree.add_usage(at, key, given)
        if not is_at_least(available, amount):
            return None
        if borrows and not may_exceed_nominal(queue, job, self._search.options):
            return None
        return (
            AssignmentMode.PREEMPT if any(at == leaf for at, _ in freed) else AssignmentMode.RECLAIM
        ), level

    def _freed_usage(self, targets: tuple[Target, ...], key: FlavorResource) -> Iterator[tuple[str, int]]:
        """Yield what each victim is charged of a quota, with the leaf that is charged."""
        snapshot = self._search.snapshot
        for target in targets:
            for task in snapshot.allocations_of(target.job):
                if target.tasks and task.id not in target.tasks:
                    continue
                given = sum(charge.amount for charge in task.charges if charge.key == key)
                yield snapshot.queues[task.queue].quota_node, given
