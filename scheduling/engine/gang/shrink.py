"""Surplus of elastic jobs given up for a job that waits: only tasks without which their gangs stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.bounds import assume_released, count_free_slots, count_needed_releases
from scheduling.engine.model import Allocation, Job, Queue
from scheduling.engine.preemption.eviction_cost import sum_charges
from scheduling.engine.preemption.slot_counts import FreeSlotCounter
from scheduling.engine.quota.assignment import Assignment, Mode, Refusal
from scheduling.engine.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ShrinkPlan:
    """The seats of the job that waited, and the tasks that leave for it."""

    allocations: tuple[Allocation, ...]
    released: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True)
class ShrinkRequest:
    """A job that waits: how many more tasks of each role it needs, and, where they can be counted, the seats
    in the flavors in which it may find enough of them."""

    queue: Queue
    job: Job
    missing: dict[str, int]
    slot_counters: Sequence[FreeSlotCounter] | None = None


def find_shrink_plan(
    snapshot: Snapshot, attempt: StartAttempt, request: ShrinkRequest, surplus: Sequence[Allocation]
) -> ShrinkPlan | None:
    """The first tasks of the surplus with which the job starts, less those that are not needed.

    Tasks of one job must be listed in the order in which they can be spared; a task is put back only when
    all later ones of its job stay too. None when all of it is not enough, and when nothing is needed.
    Leaves the snapshot as it was.
    """
    return _Search(snapshot, attempt, request).run(surplus)


class _Search:
    """Tries one job with some tasks gone."""

    def __init__(self, snapshot: Snapshot, attempt: StartAttempt, plea: ShrinkRequest) -> None:
        self._snapshot, self._attempt, self._plea = snapshot, attempt, plea

    def run(self, surplus: Sequence[Allocation]) -> ShrinkPlan | None:
        counted = self._plea.slot_counters
        least = 0 if counted is None else count_needed_releases(counted, surplus)
        if least is None:
            return None
        if counted is not None and least:
            # Where quota is not what is short, counting tells exactly who is needed.
            with assume_released(counted, surplus[:least]) as away:
                leaving = _needed(surplus[:least], away.restore_if_fitting)
            seats = self._try(leaving)
            if seats is not None:
                return ShrinkPlan(seats, tuple(leaving))
        elif self._starts():
            return None
        count = self._enough(surplus, max(1, least))
        if count is None:
            return None
        leaving = _needed(surplus[:count], lambda rest, _: self._try(rest) is not None)
        seats = self._try(leaving)
        return None if seats is None else ShrinkPlan(seats, tuple(leaving))

    def _enough(self, surplus: Sequence[Allocation], least: int) -> int | None:
        """How many of the first tasks are enough, at least so many, by bisection: more of them never hurt."""
        if least > len(surplus):
            return None
        if self._try(surplus[:least]) is not None:
            return least
        low, high = least + 1, len(surplus)
        if low > high or self._try(surplus[:high]) is None:
            return None
        while low < high:
            middle = (low + high) // 2
            if self._try(surplus[:middle]) is not None:
                high = middle
            else:
                low = middle + 1
        return low

    def _starts(self) -> bool:
        """Whether the job starts with nobody gone. Nobody is seated where counting tells it."""
        plea = self._plea
        given = _flavors(self._attempt.assign_quota(plea.queue, plea.job, plea.missing))
        counted = self._roomy() if given else None
        if counted is None:
            return self._try(()) is not None
        return given <= counted or (bool(given & counted) and self._try(()) is not None)

    def _promising(self, leaving: Sequence[Allocation]) -> bool:
        """False where the job would get quota only in flavors in which it never has room.

        Quota alone decides that, so nobody is released from where they stand.
        """
        plea, tree = self._plea, self._snapshot.quota
        if plea.slot_counters is None or any(task.queue != plea.queue.id for task in leaving):
            return True
        freed = sum_charges(leaving)
        tree.remove_usages(plea.queue.quota_node, freed)
        try:
            given = _flavors(self._attempt.assign_quota(plea.queue, plea.job, plea.missing))
        finally:
            tree.add_usages(plea.queue.quota_node, freed)
        return not given.isdisjoint(seats.board.question.flavor.id for seats in plea.slot_counters)

    def _try(self, leaving: Sequence[Allocation]) -> tuple[Allocation, ...] | None:
        plea = self._plea
        if not self._promising(leaving):
            return None
        with self._snapshot.statement() as statement:
            for task in leaving:
                statement.release(task.id)
            assignment = self._attempt.assign_quota(plea.queue, plea.job, plea.missing)
            if assignment.mode is not Mode.FIT:
                return None
            roomy = self._roomy()
            if roomy is not None and roomy.isdisjoint(_flavors(assignment)):
                return None
            seats = self._attempt.place_assigned(statement, plea.queue, plea.job, assignment)
        return None if isinstance(seats, Refusal) else seats

    def _roomy(self) -> set[str] | None:
        """The flavors in which there are seats enough now; None where they cannot be counted."""
        if self._plea.slot_counters is None:
            return None
        return {
            seats.board.question.flavor.id
            for seats in self._plea.slot_counters
            if count_free_slots(seats.board, seats.needed) == seats.needed
        }


def _flavors(assignment: Assignment) -> set[str]:
    """The flavors in which all tasks would stand; none where quota is short."""
    if assignment.mode is not Mode.FIT:
        return set()
    return {name for role in assignment.roles for name in role.flavors}


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
