"""This module searches for moves: which running tasks must be placed elsewhere so that a pending job fits.

Movable jobs are released one after the other in a simulation; then the pending job and after it every moved
job must be placed, so that no task loses its node without getting another. At the end, units whose move turns
out to be needless are put back. Source of the search: KAI-Scheduler's consolidation action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.task_counts import find_surplus_tasks
from scheduling.engine.model import Allocation, Job, Queue
from scheduling.engine.preemption.candidates.eviction_cost import count_cards
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.state.charges import sum_task_charges
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement


@dataclass(frozen=True, slots=True)
class MovablePart:
    """Tasks of one job that move together: one surplus task by itself, or the rest of the gang.

    `node` is the node of all of them, None if they run on several. They hold slices of `cards` cards with
    `cores` core units, and are charged `gpus` cards' worth of compute.
    """

    tasks: tuple[Allocation, ...]
    node: str | None
    cards: int
    cores: int
    gpus: float

    @staticmethod
    def of_tasks(tasks: tuple[Allocation, ...]) -> MovablePart:
        """Return the part that consists of these tasks."""
        return MovablePart(
            tasks,
            tasks[0].node if len({task.node for task in tasks}) == 1 else None,
            sum(len(task.slices) for task in tasks),
            sum(part.cores for task in tasks for part in task.slices),
            count_cards(sum_task_charges(tasks)),
        )


@dataclass(frozen=True, slots=True)
class MovableUnit:
    """A part of a job at one moment. `eviction_cost` is the work that the part would repeat after a move, in
    GPU-seconds."""

    job: Job
    part: MovablePart
    eviction_cost: float = 0.0

    @property
    def tasks(self) -> tuple[Allocation, ...]:
        """The tasks of the part."""
        return self.part.tasks


@dataclass(frozen=True, slots=True)
class TaskMove:
    """One task with its allocation before and after the move."""

    before: Allocation
    after: Allocation


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The allocations of the pending job, and the moves that make them possible."""

    allocations: tuple[Allocation, ...]
    moves: tuple[TaskMove, ...]


def movable_parts(job: Job, running: Sequence[Allocation]) -> Iterator[MovablePart]:
    """Yield the parts in which a job can move: surplus tasks one by one first, then the rest of the gang."""
    surplus = find_surplus_tasks(job, running)
    for task in surplus:
        yield MovablePart.of_tasks((task,))
    rest = tuple(task for task in running if task not in surplus)
    if rest:
        yield MovablePart.of_tasks(rest)


@dataclass(slots=True)
class SearchBudget:
    """The number of tasks that a search may still release or place in simulation; None is unlimited."""

    remaining: int | None = None

    @property
    def is_spent(self) -> bool:
        """True once nothing remains."""
        return self.remaining is not None and self.remaining <= 0

    def spend_tasks(self, tasks: int) -> bool:
        """Take this many tasks from the budget; the result is False if it was spent already."""
        if self.is_spent:
            return False
        if self.remaining is not None:
            self.remaining -= tasks
        return True


class MoveSearch:
    """Searches for moves that make one pending job fit, within bounds on jobs, tasks and eviction cost in
    GPU-seconds.

    Once the budget is spent, nothing is found any more. The search leaves the snapshot as it was.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        attempt: StartAttempt,
        *,
        max_jobs: int | None,
        max_tasks: int,
        max_eviction_cost: float = float("inf"),
        budget: SearchBudget | None = None,
    ) -> None:
        self._snapshot, self._attempt = snapshot, attempt
        self._effort = SearchBudget() if budget is None else budget
        self._jobs, self._tasks, self._lost = max_jobs, max_tasks, max_eviction_cost

    def find_plan(
        self,
        queue: Queue,
        job: Job,
        more: dict[str, int],
        units: Iterable[MovableUnit],
        may_suffice: Callable[[MovableUnit], bool] | None = None,
    ) -> MovePlan | None:
        """Return a plan for the first units, in their order, whose move suffices, without the needless ones.

        `may_suffice` is called with each unit in turn, and says whether a placement is worth trying with
        the units so far.
        """
        taken: list[MovableUnit] = []
        for unit in units:
            taken.append(unit)
            if not self.within_bounds(taken):
                return None
            worth_trying = may_suffice is None or may_suffice(unit)
            if worth_trying and self.try_moving(queue, job, more, taken) is not None:
                return self._drop_needless(queue, job, more, taken)
        return None

    def find_first_plan(
        self, queue: Queue, job: Job, more: dict[str, int], sets: Iterable[Sequence[MovableUnit]]
    ) -> MovePlan | None:
        """Return the plan of the first set of units whose move suffices; every unit of a set is needed."""
        return next((found for taken in sets if (found := self.try_moving(queue, job, more, taken))), None)

    def try_moving(
        self, queue: Queue, job: Job, more: dict[str, int], units: Sequence[MovableUnit]
    ) -> MovePlan | None:
        """Return the plan with exactly these units moved; None if the job or a unit is not placed."""
        if not self._effort.spend_tasks(sum(len(unit.tasks) for unit in units) + sum(more.values())):
            return None
        with self._snapshot.statement() as statement:
            for unit in units:
                for task in unit.tasks:
                    statement.release(task.id)
            allocations = self._attempt.start_job(statement, queue, job, more)
            if isinstance(allocations, Refusal) or not allocations:
                return None
            moves: list[TaskMove] = []
            for moved_job, tasks in _merge_units(units):
                found = self._replace_tasks(statement, moved_job, tasks)
                if found is None:
                    return None
                moves.extend(found)
            return MovePlan(allocations, tuple(moves))

    def _replace_tasks(
        self, statement: Statement, job: Job, tasks: tuple[Allocation, ...]
    ) -> list[TaskMove] | None:
        """Place a moved job's tasks again; a task that returns to its own node keeps its own cards."""
        placed = self._attempt.place_again(statement, self._snapshot.queues[job.queue], job, tasks)
        if placed is None:
            return None
        before = {task.id: task for task in tasks}
        moves = []
        for task in placed:
            old = before[task.id]
            if task.node == old.node and task.slices != old.slices:
                statement.release(task.id)
                if task.extended == old.extended and _has_free_cards(self._snapshot.fleet, old):
                    statement.allocate(old)
                    continue
                statement.allocate(task)
            if (task.node, task.slices, task.extended) != (old.node, old.slices, old.extended):
                moves.append(TaskMove(old, task))
        return moves

    def _drop_needless(
        self, queue: Queue, job: Job, more: dict[str, int], taken: list[MovableUnit]
    ) -> MovePlan | None:
        """Put back every unit without which the plan works as well.

        Units of high priority are put back first, then those with the highest eviction cost, then old jobs.
        """

        def most_valuable_first(unit: MovableUnit) -> tuple[int, float, float, str]:
            return (-unit.job.priority, -unit.eviction_cost, unit.job.submitted_at, unit.job.id)

        for unit in sorted(taken, key=most_valuable_first):
            rest = [other for other in taken if other is not unit]
            if rest and self.try_moving(queue, job, more, rest) is not None:
                taken = rest
        return self.try_moving(queue, job, more, taken)

    def within_bounds(self, taken: Sequence[MovableUnit]) -> bool:
        """Return whether these units may move together."""
        jobs = len({unit.job.id for unit in taken})
        tasks = sum(len(unit.tasks) for unit in taken)
        bounded = (self._jobs is None or jobs <= self._jobs) and tasks <= self._tasks
        return bounded and sum(unit.eviction_cost for unit in taken) <= self._lost


def _merge_units(units: Sequence[MovableUnit]) -> list[tuple[Job, tuple[Allocation, ...]]]:
    """Return all tasks of each job, in the order in which the jobs are placed again."""
    tasks: dict[str, list[Allocation]] = {}
    jobs: dict[str, Job] = {}
    for unit in units:
        jobs[unit.job.id] = unit.job
        tasks.setdefault(unit.job.id, []).extend(unit.tasks)
    ordered = sorted(jobs.values(), key=lambda job: (-job.priority, job.submitted_at, job.id))
    return [(job, tuple(sorted(tasks[job.id], key=lambda task: task.id))) for job in ordered]


def _has_free_cards(fleet: Fleet, task: Allocation) -> bool:
    """Return whether the very cards that a task held are still free for it."""
    row = fleet.row.get(task.node)
    if row is None:
        return False
    for part in task.slices:
        column = fleet.columns[row].get(part.device)
        if column is None or fleet.exclusive[row, column]:
            return False
        if part.exclusive and fleet.holders[row, column]:
            return False
        if fleet.cores_free[row, column] < part.cores or fleet.card_memory_free[row, column] < part.memory:
            return False
    return True
