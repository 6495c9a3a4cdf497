"""One job tried against the state as it stands: quota first, then seats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduling.engine.gang.placer import GangPlacer, PlacementExtent
from scheduling.engine.gang.refusal_cache import RefusalCache
from scheduling.engine.gang.task_counts import find_missing_tasks
from scheduling.engine.model import Allocation, Job, Queue, Reason
from scheduling.engine.placement.index.clusters import clusters_of
from scheduling.engine.placement.placer import Placer
from scheduling.engine.quota.assign import assign
from scheduling.engine.quota.assignment import Assignment, FlavorChoice, Mode, Refusal, RoleAssignment
from scheduling.engine.quota.clusters import Allowed
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Tries jobs without asking anybody to leave. `eviction_cap` is after how many evictions a job no
    longer borrows, `beside_capped` what then stands against it in the nominal (`PreemptionOptions`)."""

    snapshot: Snapshot
    placer: Placer
    eviction_cap: int | None = None
    beside_capped: bool = False

    def find_missing(self, job: Job) -> dict[str, int] | None:
        """What the job lacks to its minimum, or, of a gang that stands, its next step; None when full."""
        return find_missing_tasks(job, self.snapshot.held(job.id))

    def start_job(
        self, statement: Statement, queue: Queue, job: Job, more: dict[str, int]
    ) -> tuple[Allocation, ...] | Refusal:
        """Seat so many more tasks of each role; a refusal leaves nothing.

        A role of which tasks stand stays in their flavors: a gang on two kinds of cards runs at the pace
        of the slower one. Other roles stay in their cluster.
        """
        assignment = self.assign_quota(queue, job, more)
        if assignment.mode is not Mode.FIT:
            return assignment.refusal or Refusal(Reason.WAITING_FOR_QUOTA)
        return self.place_assigned(statement, queue, job, assignment)

    def place_assigned(
        self, statement: Statement, queue: Queue, job: Job, assignment: Assignment
    ) -> tuple[Allocation, ...] | Refusal:
        """Seat what got quota; a refusal leaves nothing."""
        return GangPlacer(self.snapshot, self.placer, RefusalCache()).place_job(
            statement, queue, job, assignment, PlacementExtent.STEP
        )

    def assign_quota(self, queue: Queue, job: Job, more: dict[str, int]) -> Assignment:
        """What quota so many more tasks of each role would get, whether or not there is room."""
        return assign(
            self.snapshot,
            queue,
            job,
            oracle=None,
            fair=False,
            counts={role.name: more.get(role.name, 0) for role in job.roles},
            allowed=self._same_flavors(job),
            eviction_cap=self.eviction_cap,
            beside_capped=self.beside_capped,
        )

    def _same_flavors(self, job: Job) -> Allowed | None:
        used: dict[tuple[str, str], set[str]] = {}
        for task in self.snapshot.held(job.id):
            for charge in task.charges:
                used.setdefault((task.role, charge.resource), set()).add(charge.flavor)
            if not task.charges and task.node:
                used.setdefault((task.role, ""), set()).add(task.flavor)
        if not used:
            return None
        flavors = self.snapshot.flavors
        stays = set(clusters_of(flavors, (name for names in used.values() for name in names)))

        def allowed(role: str, resource: str, flavor: str) -> bool:
            known = used.get((role, resource))
            if known is not None:
                return flavor in known
            return stays.issuperset(clusters_of(flavors, (flavor,)))

        return allowed

    def place_again(
        self, statement: Statement, queue: Queue, job: Job, tasks: Sequence[Allocation]
    ) -> tuple[Allocation, ...] | None:
        """Seat tasks that were just released once more, at the same price; None when one finds no seat."""
        placed = GangPlacer(self.snapshot, self.placer, RefusalCache()).place_job(
            statement, queue, job, _as_before(tasks), PlacementExtent.FULL
        )
        if isinstance(placed, Refusal) or len(placed) != len(tasks):
            return None
        return _renamed(statement, placed, tasks)


def _renamed(
    statement: Statement, placed: Sequence[Allocation], tasks: Sequence[Allocation]
) -> tuple[Allocation, ...]:
    """What was placed, as the very tasks that stood there: some between them may have been given up."""
    names: dict[str, list[int]] = {}
    for task in sorted(tasks, key=lambda task: task.index, reverse=True):
        names.setdefault(task.role, []).append(task.index)
    found = tuple(replace(seat, index=names[seat.role].pop()) for seat in placed)
    if any(old.index != new.index for old, new in zip(placed, found, strict=True)):
        for old in placed:
            statement.release(old.id)
        for new in found:
            statement.allocate(new)
    return found


def _as_before(tasks: Sequence[Allocation]) -> Assignment:
    """The assignment that tasks were placed by, read off their charges."""
    counts = Counter(task.role for task in tasks)
    sample = {task.role: task for task in reversed(tasks)}
    return Assignment(
        roles=tuple(
            RoleAssignment(
                role=name,
                count=counts[name],
                choices={
                    charge.resource: FlavorChoice(charge.flavor, Mode.FIT) for charge in sample[name].charges
                },
                place="" if sample[name].charges else sample[name].flavor,
            )
            for name in counts
        )
    )
