"""What of a job stands now, and what of it could leave without hurting it."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.engine.gang.parts import GangRules
from scheduling.engine.model import Allocation, Job


def count_placed_tasks(job: Job, held: Sequence[Allocation]) -> dict[str, int]:
    """Tasks per role that hold a place and were not told to leave, and those that have finished."""
    counts = {role.name: role.ended for role in job.roles}
    for allocation in held:
        if not allocation.leaving and allocation.role in counts:
            counts[allocation.role] += 1
    return counts


def find_missing_tasks(job: Job, held: Sequence[Allocation]) -> dict[str, int] | None:
    """The tasks of each role that a job lacks to its minimum, or, of a gang that stands, its next step; None
    when it is full."""
    counts = count_placed_tasks(job, held)
    if _plain(job):
        missing = {role.name: role.least - counts[role.name] for role in job.roles}
        missing = {name: number for name, number in missing.items() if number > 0}
        if missing:
            return missing
        if len(job.roles) == 1:
            (role,) = job.roles
            return {role.name: 1} if counts[role.name] < role.replicas else None
    gang = GangRules(job)
    return gang.missing_minimum(counts) or gang.next_step(counts)


def is_gang_complete(job: Job, held: Sequence[Allocation]) -> bool:
    """Whether what a job holds, without what was told to leave, is a gang that may run."""
    counts = count_placed_tasks(job, held)
    if _plain(job):
        return all(counts[role.name] >= role.least for role in job.roles)
    return GangRules(job).is_satisfied(counts)


def find_surplus_tasks(job: Job, held: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """Tasks that may leave one after the other, in this order, while the gang stands throughout.

    The reverse of the order in which the gang grew; in a role the highest index goes first. Of a gang
    that does not stand anyway all tasks may leave.
    """
    whole = is_gang_complete(job, held)
    if whole and job.fixed:
        return ()
    staying = sorted(
        (allocation for allocation in held if not allocation.leaving),
        key=lambda allocation: (allocation.role, allocation.index),
    )
    if not whole:
        return tuple(reversed(staying))
    if len(job.roles) == 1 and _plain(job):
        (role,) = job.roles
        mine = [task for task in staying if task.role == role.name]
        return tuple(reversed(mine[max(0, role.least - role.ended) :]))
    gang, counts, found = GangRules(job), count_placed_tasks(job, staying), list[Allocation]()
    while (name := gang.next_surplus_role(counts)) is not None:
        last = max((task for task in staying if task.role == name), key=lambda task: task.index)
        staying.remove(last)
        counts[name] -= 1
        found.append(last)
    return tuple(found)


def _plain(job: Job) -> bool:
    """Whether a gang is whole when each of its roles is."""
    return job.min_available is None and not job.sub_gangs


def smallest_gang(job: Job) -> dict[str, int]:
    """The tasks of each role in the smallest gang with which the job may start; finished ones not counted."""
    missing = GangRules(job).missing_minimum({role.name: role.ended for role in job.roles})
    return {role.name: missing.get(role.name, 0) for role in job.roles}
