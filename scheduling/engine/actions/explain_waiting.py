"""This module gives an outcome to every pending job that was not evaluated in this cycle."""

from __future__ import annotations

from collections import Counter

from scheduling.engine.actions.lasting_refusals import (
    find_lasting_refusal,
    infeasible_flavors_of,
    is_lasting_refusal_known,
)
from scheduling.engine.model import (
    Help,
    HelpCode,
    Job,
    JobOutcome,
    JobState,
    OutcomeStatus,
    Queue,
    Reason,
    StopPolicy,
    Strategy,
)
from scheduling.engine.session.equivalence import MAX_CACHED
from scheduling.engine.session.session import Session
from scheduling.engine.state.memo import read_memo

# For this many new shapes of one user and queue a cycle computes whether they could ever start. Further jobs
# get their position, so that no user makes a cycle long by submitting every job in another shape.
MAX_NEW_SHAPES = 128

# The reasons that all jobs of an equivalence class share, whatever their position.
LASTING_REASONS = (Reason.NEVER_FITS, Reason.EXCEEDS_MAX_QUOTA)

_CachedOutcome = tuple[Job, int, JobOutcome, bool]
"""A job, the number of jobs ahead of it, its outcome, and whether its feasibility is known."""


def explain_waiting_jobs(session: Session) -> None:
    """Record an outcome for each pending job that has none, the most fundamental reason first."""
    outcomes, waiting, denied = session.outcomes, OutcomeStatus.WAITING, Reason.POLICY_DENIED
    for queue in session.sorted_queues():
        # Usually all jobs have an outcome, and there may be thousands.
        if all(map(outcomes.__contains__, session.pending_jobs(queue))):
            continue
        ahead, head = 0, None
        unevaluated = _UnevaluatedJobs(session, queue)
        for job_id in session.jobs_in_turn(queue):
            known = outcomes.get(job_id)
            if known is None:
                unchanged = unevaluated.find_unchanged(job_id, head, ahead)
                if unchanged is None:
                    session.record_outcome(
                        unevaluated.explain(session.get_job(job_id), head=head, ahead=ahead)
                    )
                else:
                    outcomes[job_id] = unchanged
                ahead += 1
            elif known.status is waiting:
                ahead += 1
                if head is None and known.reason is not denied:
                    head = job_id


class _UnevaluatedJobs:
    """The jobs of one queue that were not evaluated. Most keep the outcome of the last cycle."""

    def __init__(self, session: Session, queue: Queue) -> None:
        self._session, self._queue, self._jobs = session, queue, session.snapshot.jobs
        self._in_line: dict[str, _CachedOutcome] = read_memo(
            session.snapshot.memo, ("in line", queue.id), dict
        )
        if len(self._in_line) > MAX_CACHED + 2 * len(session.pending_jobs(queue)):
            self._in_line.clear()
        self._shapes: Counter[str] = Counter()
        self._holding = session.snapshot.jobs_with_allocations()
        self._strict = queue.strategy is Strategy.STRICT_FIFO

    def explain(self, job: Job, *, head: str | None, ahead: int) -> JobOutcome:
        """Return the outcome of a job; `head` and `ahead` are as for `explain_job`."""
        session = self._session
        outcome = explain_job(session, self._queue, job, head=head, ahead=ahead, shapes=self._shapes)
        is_cacheable = not job.allowances and not job.barred and job.backoff_until is None
        if outcome.reason is Reason.IN_LINE and is_cacheable:
            # A feasibility that was left out within the user's bound is not computed before the next cycle.
            is_known = self._shapes[job.user] < MAX_NEW_SHAPES or is_lasting_refusal_known(
                session, self._queue, job
            )
            self._in_line[job.id] = job, ahead, outcome, is_known
        else:
            self._in_line.pop(job.id, None)
        if outcome.reason not in LASTING_REASONS:
            return outcome
        held_up = f"{job.state} {_is_backing_off(session, job)}"
        return session.class_outcomes.outcomes_of_class(
            self._queue.id, session.equivalence.class_of(job), outcome, held_up
        )[job.id]

    def find_unchanged(self, job_id: str, head: str | None, ahead: int) -> JobOutcome | None:
        """Return the earlier outcome of a job if it still holds; called for thousands of jobs in a cycle."""
        known = self._in_line.get(job_id)
        if known is None or known[1] != ahead or known[0] is not self._jobs[job_id]:
            return None
        if not known[3] and self._shapes[known[0].user] < MAX_NEW_SHAPES:
            return None
        if job_id in self._holding or (self._strict and head is not None):
            return None
        return known[2]


def explain_job(
    session: Session, queue: Queue, job: Job, *, head: str | None, ahead: int, shapes: Counter[str]
) -> JobOutcome:
    """Return why a job that was not evaluated waits; `head` is the job that blocks a strict queue, if any.

    `shapes` counts, by user, the job shapes whose feasibility was computed in this cycle.
    """
    lasting = None
    known = is_lasting_refusal_known(session, queue, job)
    if known or shapes[job.user] < MAX_NEW_SHAPES:
        shapes[job.user] += not known
        lasting = find_lasting_refusal(session, queue, job)
    if lasting is not None:
        return lasting
    denied = None
    if job.allowances or job.barred:
        denied = session.allowances.find_denial(queue, job, infeasible_flavors_of(session, queue, job))
    if denied is not None:
        return JobOutcome.waiting(job.id, denied.reason, denied.numbers)
    position = ahead + 1
    if queue.stop_policy is not StopPolicy.NONE:
        return JobOutcome.waiting(
            job.id,
            Reason.QUEUE_STOPPED,
            {"queue": queue.id, "stop_policy": queue.stop_policy.value, "position": position},
            Help(HelpCode.OPEN_QUEUE, {"queue": queue.id}),
        )
    if job.state is JobState.SUSPENDED:
        return JobOutcome.waiting(job.id, Reason.SUSPENDED, {"position": position}, Help(HelpCode.RESUME))
    terminating = session.snapshot.count_tasks(job.id)
    if terminating:
        # An earlier attempt still terminates: one task name must not be allocated twice.
        return JobOutcome.waiting(job.id, Reason.WAITING_FOR_PREEMPTED, {"tasks": terminating})
    if queue.strategy is Strategy.STRICT_FIFO and head is not None:
        return JobOutcome.waiting(
            job.id, Reason.BEHIND_HEAD, {"position": position, "ahead": ahead, "head": head}
        )
    if job.backoff_until is not None and _is_backing_off(session, job):
        at = int(-(-job.backoff_until // 1))
        return JobOutcome.waiting(job.id, Reason.BACKOFF, {"at": at}, Help(HelpCode.WAIT_UNTIL, {"at": at}))
    return JobOutcome.waiting(job.id, Reason.IN_LINE, {"position": position, "ahead": ahead})


def _is_backing_off(session: Session, job: Job) -> bool:
    return job.backoff_until is not None and job.backoff_until > session.now
