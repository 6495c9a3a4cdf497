"""This module finds surplus tasks of elastic jobs to release for a pending job; the gangs stay complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.bounds import count_free_slots, count_needed_releases, restore_if_fitting
from scheduling.engine.model import Allocation, Job, Queue
from scheduling.engine.preemption.trials.slot_counts import FreeSlotCounter
from scheduling.engine.quota.assignment import Assignment, AssignmentMode, Refusal
from scheduling.engine.state.charges import sum_task_charges
from scheduling.engine.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ShrinkPlan:
    """The allocations of the pending job, and the surplus tasks that end for it."""

    allocations: tuple[Allocation, ...]
    released: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True)
class ShrinkRequest:
    """A pending job, the tasks of each role that it lacks, and slot counters of the flavors in which it may
    fit, for this search alone; None where slots cannot be counted."""

    queue: Queue
    job: Job
    missing: dict[str, int]
    slot_counters: Sequence[FreeSlotCounter] | None = None


def find_shrink_plan(
    snapshot: Snapshot, attempt: StartAttempt, request: ShrinkRequest, surplus: Sequence[Allocation]
) -> ShrinkPlan | None:
    """Return the first surplus tasks after whose end the job starts, without those that are not needed.

    Tasks of one job must be listed in the order of `find_surplus_tasks`; a task is kept only if all later
    ones of its job are kept, too. The result is None if all of the surplus is not enough, and if none of it
    is needed. The snapshot is left as it was.
    """
    return _ShrinkSearch(snapshot, attempt, request).find_plan(surplus)


class _ShrinkSearch:
    """Tries one job with some surplus tasks ended."""

    def __init__(self, snapshot: Snapshot, attempt: StartAttempt, request: ShrinkRequest) -> None:
        self._snapshot, self._attempt, self._request = snapshot, attempt, request

    def find_plan(self, surplus: Sequence[Allocation]) -> ShrinkPlan | None:
        """Return the plan for the request out of this surplus."""
        counted = self._request.slot_counters
        least = 0 if counted is None else count_needed_releases(counted, surplus)
        if least is None:
            return None
        if counted is not None and least:
            # Where quota is not short, counting decides exactly which tasks are needed.
            for counter in counted:
                counter.remove_tasks(surplus[:least])
            ending = _drop_needless(surplus[:least], lambda _, task: restore_if_fitting(counted, task))
            placed = self._try_ending(ending)
            if placed is not None:
                return ShrinkPlan(placed, tuple(ending))
        elif self._starts_now():
            return None
        count = self._count_enough(surplus, max(1, least))
        if count is None:
            return None
        ending = _drop_needless(surplus[:count], lambda rest, _: self._try_ending(rest) is not None)
        placed = self._try_ending(ending)
        return None if placed is None else ShrinkPlan(placed, tuple(ending))

    def _count_enough(self, surplus: Sequence[Allocation], least: int) -> int | None:
        """Return how many of the first tasks, at least `least`, are enough: bisection, as more never hurt."""
        if least > len(surplus):
            return None
        if self._try_ending(surplus[:least]) is not None:
            return least
        low, high = least + 1, len(surplus)
        if low > high or self._try_ending(surplus[:high]) is None:
            return None
        while low < high:
            middle = (low + high) // 2
            if self._try_ending(surplus[:middle]) is not None:
                high = middle
            else:
                low = middle + 1
        return low

    def _starts_now(self) -> bool:
        """Return whether the job starts with no task ended; slots are counted where that is exact."""
        request = self._request
        fitting = _fitting_flavors(self._attempt.assign_quota(request.queue, request.job, request.missing))
        counted = self._flavors_with_slots() if fitting else None
        if counted is None:
            return self._try_ending(()) is not None
        return fitting <= counted or (bool(fitting & counted) and self._try_ending(()) is not None)

    def _may_suffice(self, ending: Sequence[Allocation]) -> bool:
        """Return False if the job would get quota only in flavors in which it never has slots.

        Quota alone decides that, so no task is released from its node.
        """
        request, tree = self._request, self._snapshot.quota
        if request.slot_counters is None or any(task.queue != request.queue.id for task in ending):
            return True
        freed = sum_task_charges(ending)
        tree.remove_usages(request.queue.quota_node, freed)
        try:
            assigned = self._attempt.assign_quota(request.queue, request.job, request.missing)
        finally:
            tree.add_usages(request.queue.quota_node, freed)
        counters = request.slot_counters
        return not _fitting_flavors(assigned).isdisjoint(each.board.question.flavor.id for each in counters)

    def _try_ending(self, ending: Sequence[Allocation]) -> tuple[Allocation, ...] | None:
        request = self._request
        if not self._may_suffice(ending):
            return None
        with self._snapshot.statement() as statement:
            for task in ending:
                statement.release(task.id)
            assignment = self._attempt.assign_quota(request.queue, request.job, request.missing)
            if assignment.mode is not AssignmentMode.FIT:
                return None
            with_slots = self._flavors_with_slots()
            if with_slots is not None and with_slots.isdisjoint(_fitting_flavors(assignment)):
                return None
            placed = self._attempt.place_assigned(statement, request.queue, request.job, assignment)
        return None if isinstance(placed, Refusal) else placed

    def _flavors_with_slots(self) -> set[str] | None:
        """Return the flavors with enough slots now. The result is None where slots cannot be counted."""
        if self._request.slot_counters is None:
            return None
        return {
            counter.board.question.flavor.id
            for counter in self._request.slot_counters
            if count_free_slots(counter.board, counter.needed) == counter.needed
        }


def _fitting_flavors(assignment: Assignment) -> set[str]:
    """Return the flavors in which all tasks would be placed; none where quota is short."""
    if assignment.mode is not AssignmentMode.FIT:
        return set()
    return {name for role in assignment.roles for name in role.flavors}


def _drop_needless(
    surplus: Sequence[Allocation], enough: Callable[[Sequence[Allocation], Allocation], bool]
) -> list[Allocation]:
    """Keep the tasks without which the rest is not enough; the last one counts as needed.

    `enough` is called with the tasks that would end and the task that would be kept.
    """
    ending = list(surplus)
    for task in reversed(ending[:-1]):
        later = ending[ending.index(task) + 1 :]
        if any(other.job == task.job for other in later):
            continue
        rest = [other for other in ending if other is not task]
        if enough(rest, task):
            ending = rest
    return ending
