"""What preemption would bring for one quota: asked while flavors are weighed against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quotas.tree import is_at_least
from scheduling.engine.model import FlavorResource, Job, Queue
from scheduling.engine.preemption.contest import may_go_above
from scheduling.engine.preemption.search import VictimSearch
from scheduling.engine.preemption.targets import Preemptor, Target
from scheduling.engine.quota.assignment import Mode


@dataclass(frozen=True, slots=True)
class _Known:
    """Who was found for one quota of a job, in one state of the snapshot."""

    state: tuple[object, ...]
    key: FlavorResource
    targets: tuple[Target, ...]


class PreemptionOracle:
    """Answers from a search on this one quota alone, as Kueue's preemption oracle does.

    A job asks for several resources of a flavor one after the other. Whoever gives way for one of them
    mostly gives enough of the others as well, and is looked at first.
    """

    def __init__(self, search: VictimSearch) -> None:
        self._search = search
        self._known: _Known | None = None
        self._state: tuple[object, ...] = ()
        self._told_before: dict[tuple[FlavorResource, int], tuple[Mode, int]] = {}

    def __call__(self, queue: Queue, job: Job, key: FlavorResource, amount: int) -> tuple[Mode, int]:
        """The mode that preemption would reach for an amount, and the borrow level afterwards.

        `NO_CANDIDATES`: nobody may be asked, or not enough. `RECLAIM`: all victims are in other queues.
        `PREEMPT`: some are in the own queue.
        """
        state = (queue.id, job, key.flavor, *self._search.snapshot.state())
        if self._state != state:
            self._state, self._told_before = state, {}
        # A job whose place in another flavor is lost to others asks the same once more.
        known = self._told_before.get((key, amount))
        if known is None:
            known = self._told_before[key, amount] = self._asked(state, queue, job, key, amount)
        return known

    def _asked(
        self, state: tuple[object, ...], queue: Queue, job: Job, key: FlavorResource, amount: int
    ) -> tuple[Mode, int]:
        if self._known is not None and self._known.state == state and self._known.key != key:
            told = self._told(queue, job, key, amount, self._known.targets)
            if told is not None:
                return told
        preemptor = Preemptor(job=job, queue=queue, usage={key: amount}, contested=frozenset({key}))
        budget = self._search.options.oracle_budget
        found = self._search.find(preemptor, budget=budget, whether=True)
        told = self._told(queue, job, key, amount, found.targets) if found.targets else None
        if told is None:
            tree = self._search.snapshot.quota
            return Mode.NO_CANDIDATES, tree.borrow_level(queue.quota_node, key, amount)
        self._known = _Known(state, key, found.targets)
        return told

    def _told(
        self, queue: Queue, job: Job, key: FlavorResource, amount: int, targets: tuple[Target, ...]
    ) -> tuple[Mode, int] | None:
        """What these victims bring; None where one of them may not be asked, or they do not suffice."""
        tree, leaf = self._search.snapshot.quota, queue.quota_node
        freed = list(self._freed(targets, key))
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
        if borrows and not may_go_above(queue, job, self._search.options):
            return None
        return (Mode.PREEMPT if any(at == leaf for at, _ in freed) else Mode.RECLAIM), level

    def _freed(self, targets: tuple[Target, ...], key: FlavorResource) -> Iterator[tuple[str, int]]:
        """What each victim holds of a quota, by the leaf that it is charged to."""
        snapshot = self._search.snapshot
        for target in targets:
            for task in snapshot.held(target.job):
                if target.tasks and task.id not in target.tasks:
                    continue
                given = sum(charge.amount for charge in task.charges if charge.key == key)
                yield snapshot.queues[task.queue].quota_node, given
