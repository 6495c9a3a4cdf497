"""Removals that can be taken back: on the quota tree alone, or on everything that is held.

Where only quota is asked for, a removal changes a few numbers of the tree. Where places must be free as
well, they are counted beside it, or the removal goes through a statement and frees nodes and cards too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.engine.model import Allocation, FlavorResource
from scheduling.engine.preemption.candidates import Candidate
from scheduling.engine.preemption.loss import charged
from scheduling.engine.preemption.seats import Seats
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

    def __init__(self, snapshot: Snapshot, statement: Statement | None, seats: Seats | None = None) -> None:
        """With `seats` places are counted there, and no statement is needed."""
        self._snapshot = snapshot
        self._statement = None if seats is not None else statement
        self._seats = seats
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

    def touches(self, candidate: Candidate) -> bool:
        """Whether a part of what the candidate holds was removed already."""
        return bool(self._gone) and any(task.id in self._gone for task in candidate.tasks)

    def took(self, task: Allocation) -> bool:
        """Whether a task was removed."""
        return task.id in self._gone

    def repeat(self, removal: Removal) -> None:
        """Take away once more what was restored."""
        for task in removal.tasks:
            self._gone[task.id] = removal
        if self._statement is not None:
            for task in removal.tasks:
                self._statement.release(task.id)
            return
        if self._seats is not None:
            self._seats.leave(removal.tasks)
        self.uncharge(removal)

    def restore(self, removal: Removal) -> None:
        """Give back what a removal took."""
        for task in removal.tasks:
            del self._gone[task.id]
        if self._statement is not None:
            for task in removal.tasks:
                self._statement.allocate(task)
            return
        if self._seats is not None:
            self._seats.leave(removal.tasks, -1)
        self.charge(removal)

    def charge(self, removal: Removal) -> None:
        """Let quota alone see what was removed as if it were back; `uncharge` must follow."""
        leaf = self._snapshot.queues[removal.queue].quota_node
        self._snapshot.quota.add_usages(leaf, removal.charges)

    def uncharge(self, removal: Removal) -> None:
        """The inverse of `charge`."""
        leaf = self._snapshot.queues[removal.queue].quota_node
        self._snapshot.quota.remove_usages(leaf, removal.charges)

    def reset(self) -> None:
        """Give back everything."""
        while self._gone:
            self.restore(next(iter(self._gone.values())))
