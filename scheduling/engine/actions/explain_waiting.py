"""A reason for every job that had no turn in this cycle."""

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
    JobState,
    Outcome,
    OutcomeStatus,
    Queue,
    Reason,
    StopPolicy,
    Strategy,
)
from scheduling.engine.session.equivalence import MAX_CACHED
from scheduling.engine.session.session import Session

# Of how many differently shaped jobs of one user in one queue a cycle works out anew whether they could ever
# start. Until then they are told their place in the line, so that nobody makes a cycle long by asking for
# each job in another way.
MAX_NEW_SHAPES = 128

# Reasons that jobs that are alike have in common, wherever they stand in the line.
LASTING_REASONS = (Reason.NEVER_FITS, Reason.EXCEEDS_MAX_QUOTA)

_Known = tuple[Job, int, Outcome, bool]
"""A job, how many were ahead of it, what it was told, and whether it was worked out that it could start."""


def explain_waiting_jobs(session: Session) -> None:
    """Record an outcome for each waiting job that has none, the most fundamental reason first."""
    outcomes, waiting, denied = session.outcomes, OutcomeStatus.WAITING, Reason.POLICY_DENIED
    for queue in session.sorted_queues():
        line, ahead = session.pending_jobs(queue), 0
        # Mostly all have been told already, and there may be thousands.
        if all(map(outcomes.__contains__, line)):
            continue
        head: str | None = None
        rest = _Rest(session, queue)
        for job_id in line:
            known = outcomes.get(job_id)
            if known is None:
                kept = rest.kept(job_id, head, ahead)
                if kept is None:
                    session.record_outcome(rest.explain(session.get_job(job_id), head=head, ahead=ahead))
                else:
                    outcomes[job_id] = kept
                ahead += 1
            elif known.status is waiting:
                ahead += 1
                if head is None and known.reason is not denied:
                    head = job_id


class _Rest:
    """The jobs of one queue that had no turn. Most are told what they were told in the last cycle."""

    def __init__(self, session: Session, queue: Queue) -> None:
        self._session, self._queue, self._jobs = session, queue, session.snapshot.jobs
        known = session.snapshot.memo.setdefault(("in line", queue.id), {})
        assert isinstance(known, dict)  # noqa: S101 - nobody else keeps anything under such a name
        if len(known) > MAX_CACHED + 2 * len(session.pending_jobs(queue)):
            known.clear()
        self._in_line: dict[str, _Known] = known
        self._shapes: Counter[str] = Counter()
        self._holding = session.snapshot.holding()
        self._strict = queue.strategy is Strategy.STRICT_FIFO

    def explain(self, job: Job, *, head: str | None, ahead: int) -> Outcome:
        """What a job is told; `head` and `ahead` as for `explain_job`."""
        session = self._session
        outcome = explain_job(session, self._queue, job, head=head, ahead=ahead, shapes=self._shapes)
        lasts = not job.allowances and not job.barred and job.backoff_until is None
        if outcome.reason is Reason.IN_LINE and lasts:
            # What is not worked out while the user may have more of it will not be before the next cycle.
            worked_out = self._shapes[job.user] < MAX_NEW_SHAPES or is_lasting_refusal_known(
                session, self._queue, job
            )
            self._in_line[job.id] = job, ahead, outcome, worked_out
        else:
            self._in_line.pop(job.id, None)
        if outcome.reason not in LASTING_REASONS:
            return outcome
        held_up = f"{job.state} {_is_backing_off(session, job)}"
        return session.answers.answers_for(
            self._queue.id, session.equivalence.class_of(job), outcome, held_up
        )[job.id]

    def kept(self, job_id: str, head: str | None, ahead: int) -> Outcome | None:
        """What a job was told before, where that still holds; asked of thousands in every cycle."""
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
) -> Outcome:
    """Why a job that was not tried waits; `head` is the job that blocks a strict queue, if one does.

    `shapes` counts by user for how many shapes it was worked out whether they could ever start.
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
    if job.backoff_until is not None and _is_backing_off(session, job):
        at = int(-(-job.backoff_until // 1))
        return _waits(job, Reason.BACKOFF, {"at": at}, Help(HelpCode.WAIT_UNTIL, {"at": at}))
    return _waits(job, Reason.IN_LINE, {"position": position, "ahead": ahead})


def _is_backing_off(session: Session, job: Job) -> bool:
    return job.backoff_until is not None and job.backoff_until > session.now


def _waits(job: Job, reason: Reason, numbers: dict[str, int | str], *ways: Help) -> Outcome:
    return Outcome(job=job.id, status=OutcomeStatus.WAITING, reason=reason, numbers=numbers, help=ways)
