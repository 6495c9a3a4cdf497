"""This module defines the result of evaluating one job, and the outcomes that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.model import Allocation, Help, HelpCode, Instant, Job, JobOutcome, Queue, Reason
from scheduling.engine.preemption.trials.targets import Target, TargetSet
from scheduling.engine.quota.assignment import Assignment, AssignmentMode, Refusal

NO_TARGETS = TargetSet()


@dataclass(slots=True, kw_only=True, eq=False)
class NominatedJob:
    """The result of evaluating a job against one state of the snapshot.

    `placed` are its allocations, with the victims of `target_set` released; empty if it does not fit, in
    which case `refusal` says why.
    """

    job: Job
    queue: Queue
    assignment: Assignment
    placed: tuple[Allocation, ...] = ()
    target_set: TargetSet = NO_TARGETS
    refusal: Refusal | None = None

    @property
    def mode(self) -> AssignmentMode:
        """The way in which its quota can be met."""
        return self.assignment.mode

    @property
    def targets(self) -> tuple[Target, ...]:
        """The victims that must be evicted for it."""
        return self.target_set.targets

    @property
    def fits(self) -> bool:
        """True if it can start without victims."""
        return self.refusal is None and self.mode is AssignmentMode.FIT and not self.targets


def claim_outcome(job: Job, terminating: int, jobs: int, search: TargetSet | None = None) -> JobOutcome:
    """Return the outcome of a job that starts once others have ended."""
    numbers: dict[str, int | str] = {"tasks": terminating, "jobs": jobs}
    if search is not None:
        # The cost of the search for victims, and whether its budget ended it.
        numbers |= {**search.numbers, "steps": search.steps, **({"exhausted": 1} if search.exhausted else {})}
    return JobOutcome.waiting(job.id, Reason.WAITING_FOR_PREEMPTED, numbers)


def refuse_protected(refusal: Refusal, search: TargetSet) -> Refusal:
    """Return PROTECTED if only guaranteed run times of others prevent preemption, otherwise the refusal."""
    if search.protected_until is None:
        return refusal
    at = int(-(-search.protected_until // 1))
    ways = (Help(HelpCode.WAIT_UNTIL, {"at": at}), *refusal.help)
    return Refusal(Reason.PROTECTED, {**refusal.numbers, "at": at, "until": at}, ways)


def refuse_gated(refusal: Refusal, at: Instant) -> Refusal:
    """Return the refusal of a job that may not preempt yet, with the time from which it may."""
    if at == float("inf"):
        return Refusal(refusal.reason, {**refusal.numbers, "gated": 1}, refusal.help)
    when = int(-(-at // 1))
    ways = (Help(HelpCode.WAIT_UNTIL, {"at": when}), *refusal.help)
    return Refusal(refusal.reason, {**refusal.numbers, "at": when}, ways)
