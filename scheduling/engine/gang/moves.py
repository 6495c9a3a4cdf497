"""The search for moves: which running tasks must stand elsewhere so that a waiting job finds seats.

Movable jobs are taken up one after the other in the simulation; then the waiting job and after it every
mover must find a seat, so nobody is ever moved out of a place without getting another. At the end
movers that turn out not to be needed stay where they are. Source of the search: KAI-Scheduler's
consolidation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.task_counts import find_surplus_tasks
from scheduling.engine.model import Allocation, Job, Queue
from scheduling.engine.preemption.eviction_cost import count_cards, sum_charges
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement


@dataclass(frozen=True, slots=True)
class MovablePart:
    """Tasks of one job that move together: a spare task by itself, or the rest of the gang.

    `node` is where all of them stand, None where they stand apart. They hold parts of so many `cards`, so
    many core units of these, and are charged so many cards' worth of compute.
    """

    tasks: tuple[Allocation, ...]
    node: str | None
    cards: int
    cores: int
    gpus: float

    @staticmethod
    def of_tasks(tasks: tuple[Allocation, ...]) -> MovablePart:
        """What these tasks are together."""
        return MovablePart(
            tasks,
            tasks[0].node if len({task.node for task in tasks}) == 1 else None,
            sum(len(task.slices) for task in tasks),
            sum(part.cores for task in tasks for part in task.slices),
            count_cards(sum_charges(tasks)),
        )


@dataclass(frozen=True, slots=True)
class MovableUnit:
    """A part of a job at one moment: `eviction_cost` are the GPU-seconds of work that it would do again."""

    job: Job
    part: MovablePart
    eviction_cost: float = 0.0

    @property
    def tasks(self) -> tuple[Allocation, ...]:
        """The tasks of the part."""
        return self.part.tasks


@dataclass(frozen=True, slots=True)
class TaskMove:
    """One task and its new seat."""

    before: Allocation
    after: Allocation


@dataclass(frozen=True, slots=True)
class MovePlan:
    """What moves would give: the waiting job's seats, and the moves that open them."""

    allocations: tuple[Allocation, ...]
    moves: tuple[TaskMove, ...]


def movable_parts(job: Job, staying: Sequence[Allocation]) -> Iterator[MovablePart]:
    """The parts in which a job can move, those that hurt least first."""
    spare = find_surplus_tasks(job, staying)
    for task in spare:
        yield MovablePart.of_tasks((task,))
    rest = tuple(task for task in staying if task not in spare)
    if rest:
        yield MovablePart.of_tasks(rest)


@dataclass(slots=True)
class SearchBudget:
    """How many more tasks may be lifted or seated in simulation; None: any number."""

    remaining: int | None = None

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.remaining is not None and self.remaining <= 0

    def spend_tasks(self, tasks: int) -> bool:
        """Take so much of it; False where nothing is left."""
        if self.is_spent:
            return False
        if self.remaining is not None:
            self.remaining -= tasks
        return True


class MoveSearch:
    """Opens room for one waiting job, within bounds: so many jobs and tasks move, and no more GPU-seconds
    are lost. Once the effort is spent nothing is found any more. Leaves the snapshot as it was."""

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
        """The first movers, in their order, with which it works; made as small as possible.

        `may_suffice` is told of each mover in turn, and answers whether with those so far it may work.
        """
        taken: list[MovableUnit] = []
        for unit in units:
            taken.append(unit)
            if not self.within_bounds(taken):
                return None
            hopeful = may_suffice is None or may_suffice(unit)
            if hopeful and self.try_moving(queue, job, more, taken) is not None:
                return self._smallest(queue, job, more, taken)
        return None

    def find_first_plan(
        self, queue: Queue, job: Job, more: dict[str, int], sets: Iterable[Sequence[MovableUnit]]
    ) -> MovePlan | None:
        """What the first of several sets of movers opens with which it works; all in it are needed."""
        return next((found for taken in sets if (found := self.try_moving(queue, job, more, taken))), None)

    def try_moving(
        self, queue: Queue, job: Job, more: dict[str, int], units: Sequence[MovableUnit]
    ) -> MovePlan | None:
        """Whether the job and then all movers find seats when exactly these are taken up."""
        if not self._effort.spend_tasks(sum(len(unit.tasks) for unit in units) + sum(more.values())):
            return None
        with self._snapshot.statement() as statement:
            for unit in units:
                for task in unit.tasks:
                    statement.release(task.id)
            seats = self._attempt.start_job(statement, queue, job, more)
            if isinstance(seats, Refusal) or not seats:
                return None
            moves: list[TaskMove] = []
            for mover, tasks in _merged(units):
                found = self._reseat(statement, mover, tasks)
                if found is None:
                    return None
                moves.extend(found)
            return MovePlan(seats, tuple(moves))

    def _reseat(self, statement: Statement, job: Job, tasks: tuple[Allocation, ...]) -> list[TaskMove] | None:
        """New seats for a mover's tasks; one that lands on its own node stays on its own cards."""
        placed = self._attempt.place_again(statement, self._snapshot.queues[job.queue], job, tasks)
        if placed is None:
            return None
        before = {task.id: task for task in tasks}
        moves = []
        for task in placed:
            old = before[task.id]
            if task.node == old.node and task.slices != old.slices:
                statement.release(task.id)
                if task.zones == old.zones and _vacant(self._snapshot.fleet, old):
                    statement.allocate(old)
                    continue
                statement.allocate(task)
            if (task.node, task.slices, task.zones) != (old.node, old.slices, old.zones):
                moves.append(TaskMove(old, task))
        return moves

    def _smallest(
        self, queue: Queue, job: Job, more: dict[str, int], taken: list[MovableUnit]
    ) -> MovePlan | None:
        """Put back every mover without which it works as well: high priorities first, then those that lose
        most, then old jobs."""

        def dearest(unit: MovableUnit) -> tuple[int, float, float, str]:
            return (-unit.job.priority, -unit.eviction_cost, unit.job.submitted_at, unit.job.id)

        for unit in sorted(taken, key=dearest):
            rest = [other for other in taken if other is not unit]
            if rest and self.try_moving(queue, job, more, rest) is not None:
                taken = rest
        return self.try_moving(queue, job, more, taken)

    def within_bounds(self, taken: Sequence[MovableUnit]) -> bool:
        """Whether so many may move together."""
        jobs = len({unit.job.id for unit in taken})
        tasks = sum(len(unit.tasks) for unit in taken)
        bounded = (self._jobs is None or jobs <= self._jobs) and tasks <= self._tasks
        return bounded and sum(unit.eviction_cost for unit in taken) <= self._lost


def _merged(units: Sequence[MovableUnit]) -> list[tuple[Job, tuple[Allocation, ...]]]:
    """All tasks of each job, in the order in which jobs get their new seats."""
    tasks: dict[str, list[Allocation]] = {}
    jobs: dict[str, Job] = {}
    for unit in units:
        jobs[unit.job.id] = unit.job
        tasks.setdefault(unit.job.id, []).extend(unit.tasks)
    ordered = sorted(jobs.values(), key=lambda job: (-job.priority, job.submitted_at, job.id))
    return [(job, tuple(sorted(tasks[job.id], key=lambda task: task.id))) for job in ordered]


def _vacant(fleet: Fleet, task: Allocation) -> bool:
    """Whether the very cards that a task held are still free for it."""
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
