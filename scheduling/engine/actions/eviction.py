"""This module evicts running jobs and tasks: one decision, and marks that the rest of the cycle sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from scheduling.engine.gang.parts import GangRules
from scheduling.engine.gang.task_counts import count_placed_tasks
from scheduling.engine.model import Allocation, Decision, DecisionKind, EvictRule, Job, JobState, Numbers
from scheduling.engine.session.session import Session
from scheduling.engine.state.snapshot import Snapshot


def find_running_jobs(session: Session) -> Iterator[tuple[Job, tuple[Allocation, ...]]]:
    """Yield live jobs with their tasks that hold an allocation and are not terminating, queue by queue."""
    for queue in session.sorted_queues():
        for job_id in session.snapshot.jobs_charged_to(queue.id):
            job = session.snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.LIVE or job.queue != queue.id:
                continue
            if tasks_running := _running_tasks(session.snapshot, job_id):
                yield job, tasks_running


def find_running_among(session: Session, ids: Iterable[str]) -> list[tuple[Job, tuple[Allocation, ...]]]:
    """Return the same for some jobs alone."""
    jobs = (job for job_id in ids if (job := session.snapshot.jobs.get(job_id)) is not None)
    live = sorted((job.queue, job.id, job) for job in jobs if job.state is JobState.LIVE)
    found = ((job, _running_tasks(session.snapshot, job_id)) for _, job_id, job in live)
    return [
        (job, tasks_running)
        for job, tasks_running in found
        if any(task.queue == job.queue for task in tasks_running)
    ]


def _running_tasks(snapshot: Snapshot, job_id: str) -> tuple[Allocation, ...]:
    return tuple(task for task in snapshot.allocations_of(job_id) if not task.leaving)


def evict_job(
    session: Session,
    job: Job,
    rule: EvictRule,
    numbers: Numbers | None = None,
    *,
    beneficiary: str | None = None,
) -> None:
    """Evict all tasks of a job."""
    marked = mark_for_eviction(session.snapshot, session.snapshot.allocations_of(job.id))
    session.counters["evicted"] += 1
    session.decisions.append(
        Decision(
            kind=DecisionKind.EVICT,
            job=job.id,
            rule=rule,
            beneficiary=beneficiary,
            released=marked,
            numbers=numbers or {},
        )
    )


def evict_tasks(
    session: Session,
    job: Job,
    tasks: Sequence[Allocation],
    rule: EvictRule | None = None,
    *,
    beneficiary: str | None = None,
    numbers: Numbers | None = None,
) -> None:
    """Evict some tasks: the job shrinks if the rest is a complete gang, otherwise all of it is evicted."""
    counts = count_placed_tasks(job, session.snapshot.allocations_of(job.id))
    for task in tasks:
        counts[task.role] -= 1
    if rule is not None and not GangRules(job).is_satisfied(counts):
        evict_job(session, job, rule, numbers, beneficiary=beneficiary)
        return
    marked = mark_for_eviction(session.snapshot, tasks)
    session.counters["shrunk"] += 1
    session.decisions.append(
        Decision(
            kind=DecisionKind.SHRINK,
            job=job.id,
            rule=rule,
            beneficiary=beneficiary,
            released=marked,
            numbers=numbers or {},
        )
    )


def mark_for_eviction(snapshot: Snapshot, tasks: Iterable[Allocation]) -> tuple[str, ...]:
    """Mark tasks as terminating and return their ids; until they end they keep their allocations."""
    marked = []
    with snapshot.statement() as statement:
        for task in tasks:
            if not task.leaving:
                statement.release(task.id)
                statement.allocate(replace(task, leaving=True))
                marked.append(task.id)
        statement.commit()
    return tuple(marked)
