"""What preemption would bring for one quota: asked while flavors are weighed against each other."""

from __future__ import annotations

from scheduling.engine.model import FlavorResource, Job, Queue
from scheduling.engine.preemption.search import VictimSearch
from scheduling.engine.preemption.targets import Preemptor
from scheduling.engine.quota.assignment import Mode


class PreemptionOracle:
    """Answers from a search on this one quota alone, as Kueue's preemption oracle does."""

    def __init__(self, search: VictimSearch) -> None:
        self._search = search

    def __call__(self, queue: Queue, job: Job, key: FlavorResource, amount: int) -> tuple[Mode, int]:
        """The mode that preemption would reach for an amount, and the borrow level afterwards.

        `NO_CANDIDATES`: nobody may be asked, or not enough. `RECLAIM`: all victims are in other queues.
        `PREEMPT`: some are in the own queue.
        """
        tree, leaf = self._search.snapshot.quota, queue.quota_node
        preemptor = Preemptor(job=job, queue=queue, usage={key: amount}, contested=frozenset({key}))
        budget = self._search.options.oracle_budget
        found = self._search.find(preemptor, budget=budget, whether=True)
        if not found.targets:
            return Mode.NO_CANDIDATES, tree.borrow_level(leaf, key, amount)
        own = False
        freed: list[tuple[str, int]] = []
        for target in found.targets:
            for task in self._search.snapshot.held(target.job):
                if target.tasks and task.id not in target.tasks:
                    continue
                own = own or task.queue == queue.id
                at = self._search.snapshot.queues[task.queue].quota_node
                freed.extend((at, charge.amount) for charge in task.charges if charge.key == key)
        for node, given in freed:
            tree.remove_usage(node, key, given)
        level = tree.borrow_level(leaf, key, amount)
        for node, given in freed:
            tree.add_usage(node, key, given)
        return (Mode.PREEMPT if own else Mode.RECLAIM), level
