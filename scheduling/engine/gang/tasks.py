"""This module resolves the tasks of a role for one attempt: shape, flavor, charges and free indices."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduling.engine.model import Allocation, Charge, Flavor, Job, Queue, Role
from scheduling.engine.placement.placer import TaskPlacement
from scheduling.engine.quota.assignment import RoleAssignment
from scheduling.engine.state.charges import compute_task_charges
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.task_shape import TaskShape, resolve_shape

# The resources that decide, in this order, on which flavor's nodes a task with several flavors runs.
PLACING_RESOURCES = ("gpu.cards", "gpu.cores", "gpu.memory", "cpu", "memory")


@dataclass(slots=True, eq=False)
class RoleTasks:
    """The tasks of one role that are to be placed.

    `max_tasks` is how many tasks the role may get, `free_indices` are the indices that no task has.
    """

    role: Role
    flavor: Flavor
    task: TaskShape
    charges: tuple[Charge, ...]
    max_tasks: int
    free_indices: list[int] = field(default_factory=list)

    @property
    def hardness(self) -> tuple[int, int, int, int]:
        """The key by which roles are placed, smallest first: whole cards, then more cards, then more CPU."""
        cards = self.task.cards
        return (-cards if self.task.whole else 0, -cards, -self.task.cores * cards, -self.task.cpu)

    def build_allocation(self, queue: Queue, job: Job, placement: TaskPlacement, index: int) -> Allocation:
        """Return the allocation of the task with this index at a placement."""
        return Allocation(
            job=job.id,
            queue=queue.id,
            role=self.role.name,
            index=index,
            flavor=self.flavor.id,
            node=placement.node,
            cpu=self.task.cpu,
            memory=self.task.memory,
            slices=placement.slices,
            charges=self.charges,
            extended=self.role.request.extended + placement.extended,
        )


def role_tasks(snapshot: Snapshot, job: Job, role: Role, assigned: RoleAssignment) -> RoleTasks | None:
    """Return the tasks of a role in its assigned flavors, or None if none of the flavors has nodes."""
    flavor = placing_flavor(snapshot, assigned)
    if flavor is None:
        return None
    task = resolve_shape(role.request, job.rules_of(role), flavor)
    taken = {
        allocation.index for allocation in snapshot.allocations_of(job.id) if allocation.role == role.name
    }
    free = [index for index in range(role.replicas) if index not in taken]
    return RoleTasks(
        role=role,
        flavor=flavor,
        task=task,
        charges=_charges(task, role, assigned),
        max_tasks=assigned.count,
        free_indices=free[: max(0, len(free) - role.ended)],
    )


def placing_flavor(snapshot: Snapshot, assigned: RoleAssignment) -> Flavor | None:
    """Return the flavor whose nodes the tasks use: that of the cards, else of the CPU, else the first.

    Tasks that ask for nothing use the flavor that the assignment names as their place.
    """
    names = [name for name in PLACING_RESOURCES if name in assigned.choices]
    ordered = (*names, *sorted(name for name in assigned.choices if name not in names))
    chosen = [assigned.choices[name].flavor for name in ordered] or [assigned.node_flavor]
    known = (snapshot.flavors.get(name) for name in chosen)
    return next((f for f in known if f is not None and f.takes_tasks), None)


def summed_allocation(queue: Queue, job: Job, assigned: RoleAssignment) -> Allocation:
    """Return one allocation for all tasks of a role whose flavors are quota only or topology-aware."""
    charges = tuple(sorted(Charge(*key, amount) for key, amount in assigned.usage.items() if amount))
    return Allocation(
        job=job.id,
        queue=queue.id,
        role=assigned.role,
        index=0,
        flavor=assigned.flavors[0] if assigned.flavors else "",
        node="",
        charges=charges,
    )


def _charges(task: TaskShape, role: Role, assigned: RoleAssignment) -> tuple[Charge, ...]:
    """Return the charges of one task, each resource in the flavor that was chosen for it."""
    charges, chosen = compute_task_charges(task, role.request.extended), assigned.choices
    if all(choice.flavor == task.flavor for choice in chosen.values()):
        return charges
    flavors = (chosen[c.resource].flavor if c.resource in chosen else c.flavor for c in charges)
    return tuple(
        sorted(Charge(flavor, c.resource, c.amount) for c, flavor in zip(charges, flavors, strict=True))
    )
