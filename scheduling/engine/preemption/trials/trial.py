"""Removals that can be undone, on the quota tree alone or on nodes and cards as well.

Without placement a removal changes a few numbers of the quota tree. With placement, either free slots are
counted beside the tree, or the removal goes through a statement and releases nodes and cards too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.engine.model import Allocation, FlavorResource
from scheduling.engine.preemption.candidates.candidates import VictimCandidate
from scheduling.engine.preemption.trials.slot_counts import FreeSlotCounter
from scheduling.engine.state.charges import sum_task_charges
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement


@dataclass(frozen=True, slots=True, eq=False)
class Removal:
    """The allocations that one removal removed, and the quota that this released."""

    queue: str
    tasks: tuple[Allocation, ...]
    charges: Mapping[FlavorResource, int]


class RemovalTrial:
    """The removals of one search; `restore_all` undoes them."""

    def __init__(
        self, snapshot: Snapshot, statement: Statement | None, slot_counter: FreeSlotCounter | None = None
    ) -> None:
        """Begin without removals. With a slot counter no statement is needed."""
        self._snapshot = snapshot
        self._statement = None if slot_counter is not None else statement
        self._slot_counter = slot_counter
        self._removed: dict[str, Removal] = {}

    def remove_candidate(self, candidate: VictimCandidate) -> Removal:
        """Remove the allocations that the candidate still has."""
        present = self._snapshot.allocations
        tasks = tuple(task for task in candidate.tasks if task.id in present and task.id not in self._removed)
        whole = len(tasks) == len(candidate.tasks)
        charges = candidate.charges if whole else sum_task_charges(tasks)
        removal = Removal(candidate.queue, tasks, charges)
        self.remove_again(removal)
        return removal

    def has_removed_part(self, candidate: VictimCandidate) -> bool:
        """Return whether a part of the candidate's allocations was removed before."""
        return bool(self._removed) and any(task.id in self._removed for task in candidate.tasks)

    def has_removed(self, task: Allocation) -> bool:
        """Return whether a task was removed."""
        return task.id in self._removed

    def remove_again(self, removal: Removal) -> None:
        """Repeat a removal that was restored."""
        for task in removal.tasks:
            self._removed[task.id] = removal
        if self._statement is not None:
            for task in removal.tasks:
                self._statement.release(task.id)
            return
        if self._slot_counter is not None:
            self._slot_counter.remove_tasks(removal.tasks)
        self.release_quota(removal)

    def restore_removal(self, removal: Removal) -> None:
        """Undo one removal."""
        for task in removal.tasks:
            del self._removed[task.id]
        if self._statement is not None:
            for task in removal.tasks:
                self._statement.allocate(task)
            return
        if self._slot_counter is not None:
            self._slot_counter.remove_tasks(removal.tasks, -1)
        self.charge_quota(removal)

    def charge_quota(self, removal: Removal) -> None:
        """Charge a removal's usage to the quota tree alone; `release_quota` must follow."""
        leaf = self._snapshot.queues[removal.queue].quota_node
        self._snapshot.quota.add_usages(leaf, removal.charges)

    def release_quota(self, removal: Removal) -> None:
        """Undo `charge_quota`."""
        leaf = self._snapshot.queues[removal.queue].quota_node
        self._snapshot.quota.remove_usages(leaf, removal.charges)

    def restore_all(self) -> None:
        """Undo all removals."""
        while self._removed:
            self.restore_removal(next(iter(self._removed.values())))
