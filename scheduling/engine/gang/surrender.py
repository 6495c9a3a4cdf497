"""Surplus of elastic jobs given up for a job that waits: only tasks without which their gangs stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduling.engine.gang.attempt import Attempt
from scheduling.engine.gang.bounds import fewest, thought_away
from scheduling.engine.model import Allocation, Job, Queue
from scheduling.engine.preemption.seats import Seats
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
    counted: Sequence[Seats] | None = None,
) -> Surrender | None:
    """The first tasks of the surplus with which the job starts, less those that are not needed.

    Tasks of one job must be listed in the order in which they can be spared; a task is put back only when
    all later ones of its job stay too. None when all of it is not enough, and when nothing is needed.
    `counted` are the seats that the job could have, where they can be counted. Leaves the snapshot as it
    was.
    """
    least = 0 if counted is None else fewest(counted, surplus)
    if least is None:
        return None
    if counted is not None and least:
        # Where quota is not what is short, counting tells exactly who is needed.
        with thought_away(counted, surplus[:least]) as away:
            leaving = _needed(surplus[:least], away.without)
        seats = _try(snapshot, attempt, queue, job, more, leaving)
        if seats is not None:
            return Surrender(seats, tuple(leaving))
    elif _try(snapshot, attempt, queue, job, more, ()) is not None:
        return None
    count = _enough(snapshot, attempt, queue, job, more, surplus, max(1, least))
    if count is None:
        return None

    def starts(rest: Sequence[Allocation], _: Allocation) -> bool:
        return _try(snapshot, attempt, queue, job, more, rest) is not None

    leaving = _needed(surplus[:count], starts)
    seats = _try(snapshot, attempt, queue, job, more, leaving)
    return None if seats is None else Surrender(seats, tuple(leaving))


def _needed(
    surplus: Sequence[Allocation], enough: Callable[[Sequence[Allocation], Allocation], bool]
) -> list[Allocation]:
    """Those of the tasks without which it is not enough; the last one counts as needed.

    `enough` is told of what would leave and of the task that would come back.
    """
    leaving = list(surplus)
    for task in reversed(leaving[:-1]):
        later = leaving[leaving.index(task) + 1 :]
        if any(other.job == task.job for other in later):
            continue
        rest = [other for other in leaving if other is not task]
        if enough(rest, task):
            leaving = rest
    return leaving


def _enough(
    snapshot: Snapshot,
    attempt: Attempt,
    queue: Queue,
    job: Job,
    more: dict[str, int],
    surplus: Sequence[Allocation],
    least: int,
) -> int | None:
    """How many of the first tasks are enough, at least so many, by bisection: more of them never hurt."""

    def enough(count: int) -> bool:
        return _try(snapshot, attempt, queue, job, more, surplus[:count]) is not None

    if least > len(surplus):
        return None
    if enough(least):
        return least
    low, high = least + 1, len(surplus)
    if low > high or not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
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
