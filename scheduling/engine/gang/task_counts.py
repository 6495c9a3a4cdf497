"""This module counts a job's placed, missing and surplus tasks."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.engine.gang.parts import GangRules
from scheduling.engine.model import Allocation, Job


def count_placed_tasks(job: Job, held: Sequence[Allocation]) -> dict[str, int]:
    """Return, per role, its tasks with an allocation that are not terminating, and finished ones."""
    counts = {role.name: role.ended for role in job.roles}
    for allocation in held:
        if not allocation.leaving and allocation.role in counts:
            counts[allocation.role] += 1
    return counts


def find_missing_tasks(job: Job, held: Sequence[Allocation]) -> dict[str, int] | None:
    """Return the tasks per role that a job lacks to its minimum or, for a complete gang, to its next step.
    The result is None for a gang of full size."""
    counts = count_placed_tasks(job, held)
    if _is_per_role(job):
        missing = {role.name: role.min_count - counts[role.name] for role in job.roles}
        missing = {name: number for name, number in missing.items() if number > 0}
        if missing:
            return missing
        if len(job.roles) == 1:
            (role,) = job.roles
            return {role.name: 1} if counts[role.name] < role.replicas else None
    gang = GangRules(job)
    return gang.missing_minimum(counts) or gang.next_step(counts)


def is_gang_complete(job: Job, held: Sequence[Allocation]) -> bool:
    """Return whether the allocations that are not terminating form a gang that may run."""
    counts = count_placed_tasks(job, held)
    if _is_per_role(job):
        return all(counts[role.name] >= role.min_count for role in job.roles)
    return GangRules(job).is_satisfied(counts)


def find_surplus_tasks(job: Job, held: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """Return the tasks that may end one after the other, in this order, while the gang stays complete.

    It is the reverse of the order in which the gang grew; within a role the highest index ends first. Of an
    incomplete gang all tasks may end.
    """
    complete = is_gang_complete(job, held)
    if complete and job.has_fixed_size:
        return ()
    running = sorted(
        (allocation for allocation in held if not allocation.leaving),
        key=lambda allocation: (allocation.role, allocation.index),
    )
    if not complete:
        return tuple(reversed(running))
    if len(job.roles) == 1 and _is_per_role(job):
        (role,) = job.roles
        mine = [task for task in running if task.role == role.name]
        return tuple(reversed(mine[max(0, role.min_count - role.ended) :]))
    gang, counts, found = GangRules(job), count_placed_tasks(job, running), list[Allocation]()
    while (name := gang.next_surplus_role(counts)) is not None:
        last = max((task for task in running if task.role == name), key=lambda task: task.index)
        running.remove(last)
        counts[name] -= 1
        found.append(last)
    return tuple(found)


def _is_per_role(job: Job) -> bool:
    """Return whether a gang is complete as soon as each of its roles is."""
    return job.min_available is None and not job.sub_gangs


def smallest_gang(job: Job) -> dict[str, int]:
    """Return the tasks per role of the smallest gang with which the job may start, without finished ones."""
    missing = GangRules(job).missing_minimum({role.name: role.ended for role in job.roles})
    return {role.name: missing.get(role.name, 0) for role in job.roles}
