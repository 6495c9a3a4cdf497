"""Which jobs leave when a quota was lowered below its use and somebody said: now.

The order is that of victims elsewhere: jobs that may be preempted first, lower priority first, of equal
ones the one that started last. Then those that need not leave after all are kept, in the other order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from scheduling.engine.model import FlavorResource, Job, JobState
from scheduling.engine.state.snapshot import Snapshot


def overhang(snapshot: Snapshot, queues: Collection[str], key: FlavorResource, limit: int) -> Sequence[str]:
    """Ids of jobs that leave, so that the queues together stay within `limit` of `key`.

    What is leaving already counts as gone.
    """
    jobs = [job for job in snapshot.jobs.values() if job.queue in queues and job.state is JobState.LIVE]
    held = {job.id: _staying(snapshot, job.id, key) for job in jobs}
    over = sum(held.values()) - limit
    leaving: list[Job] = []
    for job in sorted(jobs, key=_rank):
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


def _staying(snapshot: Snapshot, job_id: str, key: FlavorResource) -> int:
    staying = (task for task in snapshot.held(job_id) if not task.leaving)
    return sum(charge.amount for task in staying for charge in task.charges if charge.key == key)


def _rank(job: Job) -> tuple[Any, ...]:
    started = job.submitted_at if job.admitted_at is None else job.admitted_at
    return (not job.preemptible, job.priority, -started, job.id)
