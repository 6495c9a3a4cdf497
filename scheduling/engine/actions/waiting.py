"""A reason for every job that had no turn in this cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.engine.actions.standing import lasting_refusal
from scheduling.engine.model import (
    Help,
    HelpCode,
    Job,
    JobState,
    Outcome,
    OutcomeStatus,
    Queue,
    Reason,
    StopPolicy,
    Strategy,
)

if TYPE_CHECKING:
    from scheduling.engine.session import Session


def explain_rest(session: Session) -> None:
    """Record an outcome for each waiting job that has none, the most fundamental reason first."""
    outcomes, waiting, denied = session.outcomes, OutcomeStatus.WAITING, Reason.POLICY_DENIED
    for queue in session.queues():
        line, ahead = session.line(queue), 0
        # Mostly all have been told already, and there may be thousands.
        if all(map(outcomes.__contains__, line)):
            continue
        head: str | None = None
        for job_id in line:
            known = outcomes.get(job_id)
            if known is None:
                session.record(explain(session, queue, session.job(job_id), head=head, ahead=ahead))
                ahead += 1
            elif known.status is waiting:
                ahead += 1
                if head is None and known.reason is not denied:
                    head = job_id


def explain(session: Session, queue: Queue, job: Job, *, head: str | None, ahead: int) -> Outcome:
    """Why a job that was not tried waits; `head` is the job that blocks a strict queue, if one does."""
    lasting = lasting_refusal(session, queue, job)
    if lasting is not None:
        return lasting
    denied = session.allowances.denied(queue, job)
    if denied is not None:
        return Outcome(job=job.id, status=OutcomeStatus.WAITING, reason=denied.reason, numbers=denied.numbers)
    position = ahead + 1
    if queue.stop_policy is not StopPolicy.NONE:
        return _waits(
            job,
            Reason.QUEUE_STOPPED,
            {"queue": queue.id, "stop_policy": queue.stop_policy.value, "position": position},
            Help(HelpCode.OPEN_QUEUE, {"queue": queue.id}),
        )
    if job.state is JobState.SUSPENDED:
        return _waits(job, Reason.SUSPENDED, {"position": position}, Help(HelpCode.RESUME))
    leaving = session.snapshot.holds(job.id)
    if leaving:
        # An earlier attempt is not confirmed gone: one task name must not be held twice.
        return _waits(job, Reason.WAITING_FOR_PREEMPTED, {"tasks": leaving})
    if queue.strategy is Strategy.STRICT_FIFO and head is not None:
        return _waits(job, Reason.BEHIND_HEAD, {"position": position, "ahead": ahead, "head": head})
    if job.backoff_until is not None and job.backoff_until > session.now:
        at = int(-(-job.backoff_until // 1))
        return _waits(job, Reason.BACKOFF, {"at": at}, Help(HelpCode.WAIT_UNTIL, {"at": at}))
    return _waits(job, Reason.IN_LINE, {"position": position, "ahead": ahead})


def _waits(job: Job, reason: Reason, numbers: dict[str, int | str], *ways: Help) -> Outcome:
    return Outcome(job=job.id, status=OutcomeStatus.WAITING, reason=reason, numbers=numbers, help=ways)
