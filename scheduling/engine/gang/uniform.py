"""This module finds jobs whose missing minimum consists of tasks of one shape, so that free slots can be
counted without placing."""

from __future__ import annotations

from scheduling.engine.gang.area_search import relates_tasks
from scheduling.engine.gang.parts import GangRules
from scheduling.engine.gang.task_counts import count_placed_tasks
from scheduling.engine.gang.tasks import role_tasks
from scheduling.engine.model import Job
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.placer import Placer
from scheduling.engine.quota.assignment import Assignment
from scheduling.engine.state.snapshot import Snapshot


def find_uniform_minimum(
    snapshot: Snapshot, placer: Placer, job: Job, assignment: Assignment
) -> tuple[ScoreBoard, int] | None:
    """Return the board of the one shape of a job's missing minimum, and how many such tasks are missing.

    The result is None if the minimum has several shapes, or if a topology rule relates the tasks to each
    other.
    """
    if relates_tasks(job):
        return None
    counts = count_placed_tasks(job, snapshot.allocations_of(job.id))
    given = {entry.role: entry for entry in assignment.roles}
    limits = {role.name: counts[role.name] for role in job.roles}
    for name, entry in given.items():
        limits[name] += entry.count
    missing = {name: more for name, more in GangRules(job).missing_minimum(counts, limits).items() if more}
    if len(missing) != 1 or len(given) != len(job.roles):
        return None
    name, more = next(iter(missing.items()))
    role = next(role for role in job.roles if role.name == name)
    tasks = role_tasks(snapshot, job, role, given[name])
    if tasks is None or more > min(limits[name] - counts[name], len(tasks.free_indices)):
        return None
    others = (entry for other, entry in given.items() if other != name)
    if any(entry.count for entry in others):
        return None
    return placer.get_board(tasks.task, tasks.flavor), more
