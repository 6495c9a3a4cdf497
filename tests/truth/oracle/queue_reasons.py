"""The order of a queue: the numbers of jobs that wait for their turn, for a time or for another job."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.engine.model import Job, JobState, Strategy
from tests.truth.oracle.cell import Cell
from tests.truth.oracle.facts import Facts, Lack
from tests.truth.oracle.reported import Fault, ReportedReason


def rank(job: Job, ordering: str) -> tuple[float, ...] | tuple[float, float, str]:
    """Return the position of a job in its queue: by priority or run time, then by submission."""
    if ordering == "shortest":
        first = float("inf") if job.max_run_s is None else job.max_run_s
    else:
        first = -job.priority
    return (first, job.submitted_at, job.id)  # type: ignore[return-value]


def before(cell: Cell, job: Job) -> list[Job]:
    """Return the pending jobs of the same queue before a job; a best-effort queue puts those first whose
    victims terminate."""
    queue = cell.queues[job.queue]

    def place(one: Job) -> tuple[object, ...]:
        awaited = queue.strategy is not Strategy.STRICT_FIFO and one.preempting
        return (not awaited, *rank(one, queue.ordering))

    return [j for j in cell.waiting() if j.queue == job.queue and place(j) < place(job)]


def blockers(cell: Cell, job: Job, *, resting: bool) -> list[Job]:
    """Return the jobs before a job that hold back its strict queue: they may be tried now, and are not held
    up by a limit of their own."""
    found = []
    for other in before(cell, job):
        pause = other.backoff_until is not None and other.backoff_until > cell.now
        tried = other.state is JobState.QUEUED and (resting or not pause)
        if tried and Facts(cell, other).lack is not Lack.POLICY:
            found.append(other)
    return found


def guards(cell: Cell, job: Job) -> set[int]:
    """Return the future instants at which guaranteed run times end for a job: as a whole, or for borrowed
    use. For a job inside its queue's own quota they all end soon after it was submitted."""
    grace = cell.rules.grace_s
    found = set()
    for name in cell.holds:
        other = cell.jobs.get(name)
        if other is not None and other.min_run_s is not None and other.attempt_started_at is not None:
            found |= {
                other.attempt_started_at + other.min_run_s,
                other.attempt_started_at + min(other.min_run_s, grace),
            }
    if found:
        found.add(job.submitted_at + grace)
    return {-int(-end // 1) for end in found if end > cell.now}


def check_position(report: ReportedReason) -> Iterator[Fault]:
    """Yield faults in the job's position; a queue with shares of users has none."""
    if report.facts.queue.user_shares:
        return
    ahead = len(before(report.cell, report.job))
    yield from report.number("position", ahead + 1)
    yield from report.number("ahead", ahead)


def check_behind(report: ReportedReason) -> Iterator[Fault]:
    """Yield faults in the position and in the head of the queue."""
    yield from check_position(report)
    heads = [job.id for job in blockers(report.cell, report.job, resting=False)]
    if "head" in report.numbers and report.numbers["head"] not in heads:
        yield report.fault("head", report.numbers["head"], heads)


def check_backoff(report: ReportedReason) -> Iterator[Fault]:
    """Yield a fault in the end of the pause."""
    until = report.job.backoff_until
    yield from report.number("at", None if until is None else -int(-until // 1))


def check_reserved(report: ReportedReason) -> Iterator[Fault]:
    """Yield faults in the time of a reservation and in its job."""
    at, name = report.numbers.get("at"), report.numbers.get("job")
    if at is not None and int(at) <= report.cell.now:
        yield report.fault("at", at, "an instant to come")
    if name is not None:
        other = report.cell.jobs.get(str(name))
        if other is None or other.queue != report.job.queue or other.state is not JobState.QUEUED:
            yield report.fault("job", name, "a job that waits in the same queue")
