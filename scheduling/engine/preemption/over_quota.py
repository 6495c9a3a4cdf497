"""The jobs to evict at once when a quota was lowered below its usage.

The order is that of victims elsewhere: preemptible jobs first, lower priority first, latest start first. Jobs
that turn out not to be needed are then restored in the reverse order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from scheduling.engine.model import FlavorResource, Job, JobState
from scheduling.engine.state.snapshot import Snapshot


def find_over_quota_jobs(
    snapshot: Snapshot, queues: Collection[str], key: FlavorResource, limit: int
) -> Sequence[str]:
    """Return the ids of jobs to evict, so that the queues together use at most `limit` of `key`.

    Jobs and tasks that are terminating already count as released.
    """
    jobs = [job for job in snapshot.jobs.values() if job.queue in queues and job.state is JobState.LIVE]
    held = {job.id: _running_charge(snapshot, job.id, key) for job in jobs}
    over = sum(held.values()) - limit
    leaving: list[Job] = []
    for job in sorted(jobs, key=_victim_rank):
        if over <= 0:
            break
        if held[job.id]:
            leaving.append(job)
            over -= held[job.id]
    needed = []
    for job in reversed(leaving):
        if over + held[job.id] <= 0:
            over += held[job.id]
        else:
            needed.append(job.id)
    return needed[::-1]


def _running_charge(snapshot: Snapshot, job_id: str, key: FlavorResource) -> int:
    staying = (task for task in snapshot.allocations_of(job_id) if not task.leaving)
    return sum(charge.amount for task in staying for charge in task.charges if charge.key == key)


def _victim_rank(job: Job) -> tuple[Any, ...]:
    started = job.submitted_at if job.admitted_at is None else job.admitted_at
    return (not job.preemptible, job.priority, -started, job.id)
