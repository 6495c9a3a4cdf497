"""Telling tasks to leave: one decision, and marks that the rest of the cycle sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduling.engine.gang.parts import Gang
from scheduling.engine.gang.standing import standing
from scheduling.engine.model import (
    Allocation,
    Decision,
    DecisionKind,
    EvictRule,
    Job,
    JobState,
    Numbers,
    Queue,
)
from scheduling.engine.state.snapshot import Snapshot

if TYPE_CHECKING:
    from scheduling.engine.session import Session


def running(
    session: Session, only: Queue | None = None, may: Callable[[Job], bool] | None = None
) -> Iterator[tuple[Job, tuple[Allocation, ...]]]:
    """Live jobs with the tasks that hold something and were not told to leave, queue by queue.

    `may` picks jobs before their tasks are looked up.
    """
    for queue in session.queues() if only is None else (only,):
        for job_id in session.snapshot.holders(queue.id):
            job = session.snapshot.jobs.get(job_id)
            if job is None or job.state is not JobState.LIVE or job.queue != queue.id:
                continue
            if may is not None and not may(job):
                continue
            staying = tuple(task for task in session.snapshot.held(job_id) if not task.leaving)
            if staying:
                yield job, staying


def evict(session: Session, job: Job, rule: EvictRule, numbers: Numbers | None = None) -> None:
    """Tell all tasks of a job to leave."""
    told = mark(session.snapshot, session.snapshot.held(job.id))
    session.counters["evicted"] += 1
    session.decisions.append(
        Decision(kind=DecisionKind.EVICT, job=job.id, rule=rule, released=told, numbers=numbers or {})
    )


def release(
    session: Session,
    job: Job,
    tasks: Sequence[Allocation],
    rule: EvictRule | None = None,
    *,
    beneficiary: str | None = None,
    numbers: Numbers | None = None,
) -> None:
    """Tell some tasks to leave: a smaller gang goes on where one is left, else the whole job leaves."""
    counts = standing(job, session.snapshot.held(job.id))
    for task in tasks:
        counts[task.role] -= 1
    if rule is not None and not Gang(job).satisfied(counts):
        evict(session, job, rule, numbers)
        return
    told = mark(session.snapshot, tasks)
    session.counters["shrunk"] += 1
    session.decisions.append(
        Decision(
            kind=DecisionKind.SHRINK,
            job=job.id,
            rule=rule,
            beneficiary=beneficiary,
            released=told,
            numbers=numbers or {},
        )
    )


def mark(snapshot: Snapshot, tasks: Iterable[Allocation]) -> tuple[str, ...]:
    """From now on these tasks are leaving; they hold what they hold. Returns their ids."""
    told = []
    with snapshot.statement() as statement:
        for task in tasks:
            if not task.leaving:
                statement.release(task.id)
                statement.allocate(replace(task, leaving=True))
                told.append(task.id)
        statement.commit()
    return tuple(told)
