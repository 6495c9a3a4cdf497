"""This module tries to start one job now without evicting anything: quota first, then nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduling.engine.gang.placer import GangPlacer, PlacementExtent
from scheduling.engine.gang.refusal_cache import RefusalCache
from scheduling.engine.model import Allocation, Job, Queue, Reason
from scheduling.engine.placement.index.clusters import clusters_of
from scheduling.engine.placement.placer import Placer
from scheduling.engine.quota.assign import assign_flavors
from scheduling.engine.quota.assignment import (
    Assignment,
    AssignmentMode,
    FlavorChoice,
    Refusal,
    RoleAssignment,
)
from scheduling.engine.quota.one_cluster import FlavorFilter
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """One attempt places jobs without victims.

    A job that was evicted `eviction_cap` times does not borrow any more; `nominal_counts_unevictable_only`
    says which usage then counts against its nominal quota (`PreemptionOptions`).
    """

    snapshot: Snapshot
    placer: Placer
    eviction_cap: int | None = None
    nominal_counts_unevictable_only: bool = False

    def start_job(
        self, statement: Statement, queue: Queue, job: Job, missing: dict[str, int]
    ) -> tuple[Allocation, ...] | Refusal:
        """Place the missing tasks of each role; a refusal leaves nothing in the statement.

        New tasks of a role stay in the flavors of its running tasks, because a gang on two models of cards
        runs at the pace of the slower one. The other roles stay in the same cluster.
        """
        assignment = self.assign_quota(queue, job, missing)
        if assignment.mode is not AssignmentMode.FIT:
            return assignment.refusal or Refusal(Reason.WAITING_FOR_QUOTA)
        return self.place_assigned(statement, queue, job, assignment)

    def place_assigned(
        self, statement: Statement, queue: Queue, job: Job, assignment: Assignment
    ) -> tuple[Allocation, ...] | Refusal:
        """Place the tasks to which quota was assigned; a refusal leaves nothing in the statement."""
        return GangPlacer(self.snapshot, self.placer, RefusalCache()).place_job(
            statement, queue, job, assignment, PlacementExtent.STEP
        )

    def assign_quota(self, queue: Queue, job: Job, missing: dict[str, int]) -> Assignment:
        """Return the flavors and quota that the missing tasks would get, whether or not nodes have room."""
        return assign_flavors(
            self.snapshot,
            queue,
            job,
            oracle=None,
            fair=False,
            counts={role.name: missing.get(role.name, 0) for role in job.roles},
            allowed=self._flavors_of_running_tasks(job),
            eviction_cap=self.eviction_cap,
            nominal_counts_unevictable_only=self.nominal_counts_unevictable_only,
        )

    def _flavors_of_running_tasks(self, job: Job) -> FlavorFilter | None:
        used: dict[tuple[str, str], set[str]] = {}
        for task in self.snapshot.allocations_of(job.id):
            for charge in task.charges:
                used.setdefault((task.role, charge.resource), set()).add(charge.flavor)
            if not task.charges and task.node:
                used.setdefault((task.role, ""), set()).add(task.flavor)
        if not used:
            return None
        flavors = self.snapshot.flavors
        own_clusters = set(clusters_of(flavors, (name for names in used.values() for name in names)))

        def is_allowed(role: str, resource: str, flavor: str) -> bool:
            known = used.get((role, resource))
            if known is not None:
                return flavor in known
            return own_clusters.issuperset(clusters_of(flavors, (flavor,)))

        return is_allowed

    def place_again(
        self, statement: Statement, queue: Queue, job: Job, tasks: Sequence[Allocation]
    ) -> tuple[Allocation, ...] | None:
        """Place tasks that were just released once more, with the same charges. The result is None if one of
        them finds no node."""
        placed = GangPlacer(self.snapshot, self.placer, RefusalCache()).place_job(
            statement, queue, job, _as_before(tasks), PlacementExtent.FULL
        )
        if isinstance(placed, Refusal) or len(placed) != len(tasks):
            return None
        return _renumber_as_before(statement, placed, tasks)


def _renumber_as_before(
    statement: Statement, placed: Sequence[Allocation], tasks: Sequence[Allocation]
) -> tuple[Allocation, ...]:
    """Give the new allocations the indices of the old ones, among which surplus tasks may be missing."""
    names: dict[str, list[int]] = {}
    for task in sorted(tasks, key=lambda task: task.index, reverse=True):
        names.setdefault(task.role, []).append(task.index)
    found = tuple(replace(allocation, index=names[allocation.role].pop()) for allocation in placed)
    if any(old.index != new.index for old, new in zip(placed, found, strict=True)):
        for old in placed:
            statement.release(old.id)
        for new in found:
            statement.allocate(new)
    return found


def _as_before(tasks: Sequence[Allocation]) -> Assignment:
    """Return the assignment by which the tasks were placed, read from their charges."""
    counts = Counter(task.role for task in tasks)
    sample = {task.role: task for task in reversed(tasks)}
    return Assignment(
        roles=tuple(
            RoleAssignment(
                role=name,
                count=counts[name],
                choices={
                    charge.resource: FlavorChoice(charge.flavor, AssignmentMode.FIT)
                    for charge in sample[name].charges
                },
                node_flavor="" if sample[name].charges else sample[name].flavor,
            )
            for name in counts
        )
    )
