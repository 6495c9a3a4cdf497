"""Removals that can be taken back: on the quota tree alone, or on everything that is held.

Where only quota is asked for, a removal changes a few numbers of the tree. Where places must be free as
well, it goes through a statement and frees nodes and cards too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.engine.model import Allocation, FlavorResource
from scheduling.engine.preemption.candidates import Candidate
from scheduling.engine.preemption.loss import charged
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement


@dataclass(frozen=True, slots=True, eq=False)
class Removal:
    """What one removal took away, and what quota that gave back."""

    queue: str
    tasks: tuple[Allocation, ...]
    charges: Mapping[FlavorResource, int]


class Trial:
    """What has been removed in one search. `reset` brings everything back."""

    def __init__(self, snapshot: Snapshot, statement: Statement | None) -> None:
        self._snapshot = snapshot
        self._statement = statement
        self._gone: dict[str, Removal] = {}

    def remove(self, candidate: Candidate) -> Removal:
        """Take away what the candidate still holds."""
        present = self._snapshot.allocations
        tasks = tuple(task for task in candidate.tasks if task.id in present and task.id not in self._gone)
        whole = len(tasks) == len(candidate.tasks)
        charges = candidate.charges if whole else charged(tasks)
        removal = Removal(candidate.queue, tasks, charges)
        self.repeat(removal)
        return removal

    def repeat(self, removal: Removal) -> None:
        """Take away once more what was restored."""
        for task in removal.tasks:
            self._gone[task.id] = removal
        if self._statement is not None:
            for task in removal.tasks:
                self._statement.release(task.id)
            return
        leaf = self._snapshot.queues[removal.queue].quota_node
        for key, amount in removal.charges.items():
            self._snapshot.quota.remove_usage(leaf, key, amount)

    def restore(self, removal: Removal) -> None:
        """Give back what a removal took."""
        for task in removal.tasks:
            del self._gone[task.id]
        if self._statement is not None:
            for task in removal.tasks:
                self._statement.allocate(task)
            return
        leaf = self._snapshot.queues[removal.queue].quota_node
        for key, amount in removal.charges.items():
            self._snapshot.quota.add_usage(leaf, key, amount)

    def reset(self) -> None:
        """Give back everything."""
        while self._gone:
            self.restore(next(iter(self._gone.values())))
