"""One job in its turn: what it would get, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.model import (
    Allocation,
    Considered,
    Help,
    HelpCode,
    Instant,
    Job,
    Numbers,
    Outcome,
    OutcomeStatus,
    Queue,
    Reason,
    Verdict,
)
from scheduling.engine.preemption.targets import Target, TargetSet
from scheduling.engine.quota.assignment import Assignment, Mode, Refusal

NOBODY = TargetSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a job was found to get against one state of the snapshot.

    `placed` are its tasks' places, found with `found.targets` gone; empty while it does not fit.
    `refusal` says why it does not fit, where it does not. `replaced` are the ids of what the job that it
    replaces holds, `previous` what that is. `untried` says that it left out
    flavors.
    """

    job: Job
    queue: Queue
    assignment: Assignment
    placed: tuple[Allocation, ...] = ()
    found: TargetSet = NOBODY
    refusal: Refusal | None = None
    replaced: tuple[str, ...] = ()
    previous: tuple[Allocation, ...] = ()
    untried: bool = False

    @property
    def mode(self) -> Mode:
        """How its quota could be met."""
        return self.assignment.mode

    @property
    def targets(self) -> tuple[Target, ...]:
        """Who has to leave for it."""
        return self.found.targets

    @property
    def fits(self) -> bool:
        """Whether it could start without anybody leaving."""
        return self.refusal is None and self.mode is Mode.FIT and not self.targets

    @property
    def more_flavors(self) -> bool:
        """Whether the search over flavors stopped before the last one."""
        choices = (choice for role in self.assignment.roles for choice in role.choices.values())
        return self.untried or any(choice.tried_to >= 0 for choice in choices)

    def considered(self, verdict: Verdict) -> Considered:
        """The turn as a record."""
        return Considered(
            job=self.job.id,
            queue=self.queue.id,
            verdict=verdict,
            borrow_level=self.assignment.borrow_level,
            victims=tuple(sorted(target.job for target in self.targets)),
            more_flavors=self.more_flavors,
        )


def admitted(job: Job, tasks: int) -> Outcome:
    """The outcome of a job that starts."""
    return Outcome(job=job.id, status=OutcomeStatus.ADMITTED, numbers={"tasks": tasks})


def waits(job: Job, refusal: Refusal) -> Outcome:
    """The outcome of a job that does not."""
    return Outcome(
        job=job.id,
        status=OutcomeStatus.WAITING,
        reason=refusal.reason,
        numbers=refusal.numbers,
        help=refusal.help,
    )


def awaits(job: Job, leaving: int, jobs: int, search: TargetSet | None = None) -> Outcome:
    """The outcome of a job that gets its place once others are gone."""
    numbers: dict[str, int | str] = {"tasks": leaving, "jobs": jobs}
    if search is not None:
        numbers |= searched(search)
    return Outcome(
        job=job.id, status=OutcomeStatus.WAITING, reason=Reason.WAITING_FOR_PREEMPTED, numbers=numbers
    )


def searched(search: TargetSet) -> Numbers:
    """What the search for victims cost, and whether its budget ended it."""
    return {**search.numbers, "steps": search.steps, **({"exhausted": 1} if search.exhausted else {})}


def protected(refusal: Refusal, search: TargetSet) -> Refusal:
    """The refusal, or PROTECTED where only the guaranteed run time of others stands in the way."""
    if search.protected_until is None:
        return refusal
    at = int(-(-search.protected_until // 1))
    ways = (Help(HelpCode.WAIT_UNTIL, {"at": at}), *refusal.help)
    return Refusal(Reason.PROTECTED, {**refusal.numbers, "at": at, "until": at}, ways)


def gated(refusal: Refusal, at: Instant) -> Refusal:
    """The refusal of a job that may not yet ask others to leave."""
    if at == float("inf"):
        return Refusal(refusal.reason, {**refusal.numbers, "gated": 1}, refusal.help)
    when = int(-(-at // 1))
    ways = (Help(HelpCode.WAIT_UNTIL, {"at": when}), *refusal.help)
    return Refusal(refusal.reason, {**refusal.numbers, "at": when}, ways)
