"""Surplus of elastic jobs given up for a job that waits: only tasks without which their gangs stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.engine.gang.attempt import Attempt
from scheduling.engine.model import Allocation, Job, Queue
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Surrender:
    """The seats of the job that waited, and the tasks that leave for it."""

    seats: tuple[Allocation, ...]
    leaving: tuple[Allocation, ...]


def surrender(
    snapshot: Snapshot,
    attempt: Attempt,
    queue: Queue,
    job: Job,
    more: dict[str, int],
    surplus: Sequence[Allocation],
) -> Surrender | None:
    """The first tasks of the surplus with which the job starts, less those that are not needed.

    Tasks of one job must be listed in the order in which they can be spared; a task is put back only when
    all later ones of its job stay too. None when all of it is not enough, and when nothing is needed.
    Leaves the snapshot as it was.
    """
    if _try(snapshot, attempt, queue, job, more, ()) is not None:
        return None
    count = _enough(snapshot, attempt, queue, job, more, surplus)
    if count is None:
        return None
    leaving = list(surplus[:count])
    for task in reversed(leaving[:-1]):
        later = leaving[leaving.index(task) + 1 :]
        if any(other.job == task.job for other in later):
            continue
        rest = [other for other in leaving if other is not task]
        if _try(snapshot, attempt, queue, job, more, rest) is not None:
            leaving = rest
    seats = _try(snapshot, attempt, queue, job, more, leaving)
    return None if seats is None else Surrender(seats, tuple(leaving))


def _enough(
    snapshot: Snapshot,
    attempt: Attempt,
    queue: Queue,
    job: Job,
    more: dict[str, int],
    surplus: Sequence[Allocation],
) -> int | None:
    """How many of the first tasks are enough, by bisection: more of them never hurt."""
    if not surplus or _try(snapshot, attempt, queue, job, more, surplus) is None:
        return None
    low, high = 1, len(surplus)
    while low < high:
        middle = (low + high) // 2
        if _try(snapshot, attempt, queue, job, more, surplus[:middle]) is None:
            low = middle + 1
        else:
            high = middle
    return low


def _try(
    snapshot: Snapshot,
    attempt: Attempt,
    queue: Queue,
    job: Job,
    more: dict[str, int],
    leaving: Sequence[Allocation],
) -> tuple[Allocation, ...] | None:
    with snapshot.statement() as statement:
        for task in leaving:
            statement.release(task.id)
        seats = attempt.start(statement, queue, job, more)
    return None if isinstance(seats, Refusal) else seats
