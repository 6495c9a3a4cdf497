"""The allocations of a snapshot as columns, cached between cycles and updated where jobs changed.

A search for victims looks at tens of thousands of jobs and tasks. Facts that depend neither on the moment nor
on the preemptor are kept here in arrays, so that a cycle computes the rest for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import Allocation, FlavorResource, Job, JobState
from scheduling.engine.preemption.candidates.eviction_cost import count_cards, find_surplus
from scheduling.engine.state.charges import sum_task_charges
from scheduling.engine.state.fleet import Fleet, Ints
from scheduling.engine.state.memo import read_memo
from scheduling.engine.state.snapshot import Snapshot

Floats = NDArray[np.float64]

NO_ROW = -1
CHARGED_STATES = (JobState.LIVE, JobState.LEAVING)
UNKNOWN = float("nan")

_JOB_INTS = ("queue", "priority", "leaving", "preemptible", "evictions", "tasks")
_JOB_FLOATS = ("since", "checkpoint", "min_run", "cards")
_TASK_INTS = ("owner", "row", "cards", "cores", "cpu", "memory", "card", "surplus")


class ChargedJob:
    """The allocations of one job that are charged to one queue.

    `number` is the job's place in the job columns, `task_slots` are those of its tasks in the task columns.
    Only running and terminating jobs have one.
    """

    __slots__ = ("_surplus", "charges", "job", "leaving", "number", "queue", "task_slots", "tasks")

    def __init__(self, job: Job, queue: str, tasks: tuple[Allocation, ...]) -> None:
        self.job, self.queue, self.tasks = job, queue, tasks
        self.leaving = job.state is JobState.LEAVING or (
            tasks[0].leaving and all(task.leaving for task in tasks)
        )
        self.number = NO_ROW
        self.task_slots: list[int] = []
        self.charges: Mapping[FlavorResource, int] = {}
        self._surplus: tuple[Allocation, ...] | None = None

    @property
    def surplus(self) -> tuple[Allocation, ...]:
        """The tasks that the job can run without, in the order of their eviction."""
        if self._surplus is None:
            staying = (
                () if self.job.has_fixed_size else tuple(task for task in self.tasks if not task.leaving)
            )
            self._surplus = find_surplus(self.job, staying) if staying else ()
        return self._surplus


class ColumnTable:
    """Arrays of equal length by name; `size` is the length that was ever in use."""

    def __init__(self, names: tuple[str, ...], dtype: Any) -> None:
        self._number = {name: index for index, name in enumerate(names)}
        self._table: NDArray[Any] = np.zeros((len(names), 1), dtype)
        self.size = 0

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._table[self._number[name], : self.size]

    def write_rows(self, places: list[int], rows: list[tuple[Any, ...]]) -> None:
        """Write one row at each of the places."""
        if not places:
            return
        self.size = max(self.size, max(places) + 1)
        self._table = grow_table(self._table, self.size)
        self._table[:, places] = np.array(rows, self._table.dtype).T


class AllocationTable:
    """The allocations of one snapshot as columns.

    `charged_jobs` are by number, None where the number is free. `job_columns` and `time_columns` are
    `[charged jobs]`, `task_columns` are `[task slots]`: `owner` is the number of the charged job, `NO_ROW` in
    a free slot; `row` is the fleet's row, -1 for a task on no known node; `card` is the column of the task's
    card, -1 for a task with none or several; `surplus` marks tasks that the job can run without. The job
    column `tasks` counts the tasks, zero for a free number.
    """

    def __init__(self) -> None:
        self.charged_jobs: list[ChargedJob | None] = []
        self.job_columns = ColumnTable(_JOB_INTS, np.int64)
        self.time_columns = ColumnTable(_JOB_FLOATS, np.float64)
        self.task_columns = ColumnTable(_TASK_INTS, np.int64)
        self.queue_numbers: dict[str, int] = {}
        self._keys: dict[FlavorResource, int] = {}
        self._charges: Ints = np.zeros((1, 1), np.int64)
        self._by_job: dict[str, list[ChargedJob]] = {}
        self._free_numbers: list[int] = []
        self._free_task_slots: list[int] = []
        self._next_task_slot = 0
        self._fleet: Fleet | None = None
        self._change_number = -1

    @property
    def keys(self) -> Iterable[FlavorResource]:
        """All quotas to which any job is or was charged."""
        return self._keys

    def charges_of(self, key: FlavorResource) -> Ints:
        """Return what each charged job is charged of one quota. `[charged jobs]`."""
        number = self._keys.get(key)
        if number is None:
            return np.zeros(self.job_columns.size, np.int64)
        return self._charges[number, : self.job_columns.size]

    def find_charged(self, job_id: str) -> Iterable[ChargedJob]:
        """Return the charged jobs of a job, one for each queue."""
        return self._by_job.get(job_id, ())

    def update_from(self, snapshot: Snapshot) -> None:
        """Update all columns from the snapshot: the jobs that changed since the last call, or all of them."""
        changed = None if self._change_number < 0 else snapshot.job_changes.jobs_since(self._change_number)
        self._change_number = snapshot.job_changes.number
        known = list(self._by_job) if changed is None else changed
        self._remove_jobs([holding for job_id in known for holding in self._by_job.pop(job_id, ())])
        jobs = snapshot.jobs
        coming = jobs.values() if changed is None else (jobs[job_id] for job_id in changed if job_id in jobs)
        fleet = snapshot.fleet
        self._add_jobs([holding for job in coming for holding in _charged_jobs(snapshot, job)], fleet)
        # Copies of a fleet share the mapping of rows; a new mapping means new row numbers.
        if self._fleet is not None and self._fleet.row is not fleet.row:
            self._move_to_fleet(fleet)
        self._fleet = fleet

    def _remove_jobs(self, going: list[ChargedJob]) -> None:
        numbers = [holding.number for holding in going]
        places = [place for holding in going for place in holding.task_slots]
        for number in numbers:
            self.charged_jobs[number] = None
        self.job_columns["tasks"][numbers] = 0
        self._charges[:, numbers] = 0
        self.task_columns["owner"][places] = NO_ROW
        self._free_numbers.extend(numbers)
        self._free_task_slots.extend(places)

    def _add_jobs(self, coming: list[ChargedJob], fleet: Fleet) -> None:
        ints, floats, places = [], [], list[tuple[int, ...]]()
        owner_numbers: list[int] = []
        key_numbers: list[int] = []
        amounts: list[int] = []
        for holding in coming:
            holding.charges, cards = charges_and_cards(holding.tasks)
            known = [self._keys.setdefault(key, len(self._keys)) for key in holding.charges]
            number = self._assign_numbers(holding)
            ints.append(self._job_row(holding))
            floats.append(_time_row(holding.job, cards))
            owner_numbers.extend([number] * len(known))
            key_numbers.extend(known)
            amounts.extend(holding.charges.values())
            places.extend(_task_rows(holding, fleet))
        numbers = [holding.number for holding in coming]
        self.job_columns.write_rows(numbers, ints)
        self.time_columns.write_rows(numbers, floats)
        self.task_columns.write_rows([place for holding in coming for place in holding.task_slots], places)
        self._charges = grow_table(self._charges, self.job_columns.size, len(self._keys))
        self._charges[key_numbers, owner_numbers] = amounts

    def _assign_numbers(self, holding: ChargedJob) -> int:
        """Assign a number to a charged job, and task slots to its tasks."""
        if self._free_numbers:
            number = self._free_numbers.pop()
            self.charged_jobs[number] = holding
        else:
            number = len(self.charged_jobs)
            self.charged_jobs.append(holding)
        holding.number = number
        first, count = self._next_task_slot, len(holding.tasks)
        reused = [self._free_task_slots.pop() for _ in range(min(count, len(self._free_task_slots)))]
        self._next_task_slot = first + count - len(reused)
        holding.task_slots = [*reused, *range(first, self._next_task_slot)]
        self._by_job.setdefault(holding.job.id, []).append(holding)
        return number

    def _job_row(self, holding: ChargedJob) -> tuple[int, ...]:
        job = holding.job
        queue = self.queue_numbers.setdefault(holding.queue, len(self.queue_numbers))
        return (queue, job.priority, holding.leaving, job.preemptible, job.evictions, len(holding.tasks))

    def _move_to_fleet(self, fleet: Fleet) -> None:
        """Update the rows and cards of all tasks for another fleet."""
        known = [holding for holding in self.charged_jobs if holding is not None]
        rows = [row for holding in known for row in _task_rows(holding, fleet)]
        self.task_columns.write_rows([place for holding in known for place in holding.task_slots], rows)


def get_allocation_table(snapshot: Snapshot) -> AllocationTable:
    """Return the allocation table of the snapshot, updated."""
    known = read_memo(snapshot.job_caches, AllocationTable, AllocationTable)
    known.update_from(snapshot)
    return known


def charges_and_cards(tasks: Sequence[Allocation]) -> tuple[Mapping[FlavorResource, int], float]:
    """Return the sum of the charges of tasks, and their compute in cards."""
    charges = sum_task_charges(tasks)
    return charges, count_cards(charges)


def grow_table(table: NDArray[Any], columns: int, rows: int = 1) -> NDArray[Any]:
    """Return the table with room for `columns` and `rows`, doubled and filled with zeros if too small."""
    high, wide = table.shape
    if columns <= wide and rows <= high:
        return table
    shape = (high if rows <= high else 2 * rows, wide if columns <= wide else 2 * columns)
    larger = np.zeros(shape, table.dtype)
    larger[:high, :wide] = table
    return larger


def group_order(groups: Ints) -> Ints:
    """Return the stable order that sorts group numbers ascending. The numbers must not be negative."""
    # numpy sorts 16-bit integers by radix sort, several times as fast as 64-bit ones.
    short = int(groups.max(initial=0)) <= np.iinfo(np.uint16).max
    order: Ints = np.argsort(groups.astype(np.uint16) if short else groups, kind="stable")
    return order


def _charged_jobs(snapshot: Snapshot, job: Job) -> Sequence[ChargedJob]:
    held = snapshot.allocations_of(job.id) if job.state in CHARGED_STATES else ()
    if not held:
        return ()
    queue = held[0].queue
    if len(held) == 1 or all(task.queue == queue for task in held):
        return (ChargedJob(job, queue, held),)
    parts = groupby(sorted(held, key=lambda task: task.queue), key=lambda task: task.queue)
    return [ChargedJob(job, name, tuple(tasks)) for name, tasks in parts]


def _time_row(job: Job, cards: float) -> tuple[float, ...]:
    return (
        UNKNOWN if job.attempt_started_at is None else job.attempt_started_at,
        job.checkpoint_interval_s or 0.0,
        UNKNOWN if job.min_run_s is None else job.min_run_s,
        cards,
    )


def _task_rows(holding: ChargedJob, fleet: Fleet) -> list[tuple[int, ...]]:
    """Return the rows of the task columns for a job's tasks."""
    owner, spared, rows = holding.number, holding.surplus, fleet.row
    found: list[tuple[int, ...]] = []
    going = {(task.role, task.index) for task in spared}
    for task in holding.tasks:
        slices, row = task.slices, rows.get(task.node, NO_ROW)
        if len(slices) == 1:
            (part,) = slices
            cores, card = part.cores, NO_ROW if row < 0 else fleet.columns[row].get(part.device, NO_ROW)
        else:
            cores, card = sum([part.cores for part in slices]), NO_ROW
        may_go = bool(going) and (task.role, task.index) in going
        found.append((owner, row, len(slices), cores, task.cpu, task.memory, card, may_go))
    return found
