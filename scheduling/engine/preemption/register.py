"""Who holds what, as columns: kept from cycle to cycle, and brought up to date where jobs changed.

A search for victims looks at tens of thousands of jobs and tasks. What does not depend on the moment or
on the preemptor stands here in arrays, so that a cycle works out the rest for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model import Allocation, Charge, FlavorResource, Job, JobState
from scheduling.engine.preemption.loss import charged, gpus, surplus
from scheduling.engine.state.fleet import Fleet, Ints
from scheduling.engine.state.snapshot import Snapshot

Floats = NDArray[np.float64]

NOBODY = -1
HOLDING = (JobState.LIVE, JobState.LEAVING)
UNKNOWN = float("nan")
# Sums of charges are remembered for so many different ones.
REMEMBERED = 16_384

_JOB_INTS = ("queue", "priority", "leaving", "preemptible", "evictions", "tasks")
_JOB_FLOATS = ("since", "checkpoint", "min_run", "cards")
_TASK_INTS = ("owner", "row", "cards", "cores", "cpu", "memory", "card", "spared")


_Worth = tuple[Mapping[FlavorResource, int], float, list[int]]
"""Charges, how many cards' worth of compute that is, and the numbers of the quotas."""


class Holding:
    """What one job holds of one queue's quota. `number` is its place in the columns, `places` its tasks'.

    Only jobs that run or are leaving have one.
    """

    __slots__ = ("_spared", "charges", "job", "leaving", "number", "places", "queue", "tasks")

    def __init__(self, job: Job, queue: str, tasks: tuple[Allocation, ...]) -> None:
        self.job, self.queue, self.tasks = job, queue, tasks
        self.leaving = job.state is JobState.LEAVING or (
            tasks[0].leaving and all(task.leaving for task in tasks)
        )
        self.number = NOBODY
        self.places: list[int] = []
        self.charges: Mapping[FlavorResource, int] = {}
        self._spared: tuple[Allocation, ...] | None = None

    @property
    def spared(self) -> tuple[Allocation, ...]:
        """The tasks that the job can do without, in the order in which they leave."""
        if self._spared is None:
            staying = () if self.job.fixed else tuple(task for task in self.tasks if not task.leaving)
            self._spared = surplus(self.job, staying) if staying else ()
        return self._spared


class Columns:
    """Arrays of equal length, one for each name; `size` of their elements are in use or were."""

    def __init__(self, names: tuple[str, ...], dtype: Any) -> None:
        self._number = {name: index for index, name in enumerate(names)}
        self._table: NDArray[Any] = np.zeros((len(names), 1), dtype)
        self.size = 0

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._table[self._number[name], : self.size]

    def put(self, places: list[int], rows: list[tuple[Any, ...]]) -> None:
        """Write a row at each of the places."""
        if not places:
            return
        self.size = max(self.size, max(places) + 1)
        self._table = grown(self._table, self.size)
        self._table[:, places] = np.array(rows, self._table.dtype).T


class Register:
    """The columns of one snapshot. `holdings` are by number, None where nobody has it at present.

    `jobs` and `times` are by holding, `places` by task: its `owner` is `NOBODY` where it left, its `row`
    -1 where it stands on no node; `card` is the column of its card, -1 where it has none or several;
    `spared` marks what the job can do without. `tasks` counts a holding's tasks, zero where nobody has the
    number.
    """

    def __init__(self) -> None:
        self.holdings: list[Holding | None] = []
        self.jobs = Columns(_JOB_INTS, np.int64)
        self.times = Columns(_JOB_FLOATS, np.float64)
        self.places = Columns(_TASK_INTS, np.int64)
        self.queues: dict[str, int] = {}
        self._keys: dict[FlavorResource, int] = {}
        self._charges: Ints = np.zeros((1, 1), np.int64)
        self._of_job: dict[str, list[Holding]] = {}
        self._free: list[int] = []
        self._free_places: list[int] = []
        self._next_place = 0
        self._fleet: Fleet | None = None
        self._seen = -1

    @property
    def keys(self) -> Iterable[FlavorResource]:
        """All quotas of which anybody is or was charged something."""
        return self._keys

    def charges(self, key: FlavorResource) -> Ints:
        """What each holding is charged of one quota."""
        number = self._keys.get(key)
        if number is None:
            return np.zeros(self.jobs.size, np.int64)
        return self._charges[number, : self.jobs.size]

    def of(self, job_id: str) -> Iterable[Holding]:
        """What a job holds, queue by queue."""
        return self._of_job.get(job_id, ())

    def follow(self, snapshot: Snapshot) -> None:
        """Bring everything up to date with what the snapshot shows."""
        changed = None if self._seen < 0 else snapshot.changes.since(self._seen)
        self._seen = snapshot.changes.number
        known = list(self._of_job) if changed is None else changed
        self._drop([holding for job_id in known for holding in self._of_job.pop(job_id, ())])
        jobs = snapshot.jobs
        coming = jobs.values() if changed is None else (jobs[job_id] for job_id in changed if job_id in jobs)
        fleet = snapshot.fleet
        self._enter([holding for job in coming for holding in _holdings(snapshot, job)], fleet)
        # Copies of a fleet share the mapping; another one means another numbering.
        if self._fleet is not None and self._fleet.row is not fleet.row:
            self._move(fleet)
        self._fleet = fleet

    def _drop(self, going: list[Holding]) -> None:
        numbers = [holding.number for holding in going]
        places = [place for holding in going for place in holding.places]
        for number in numbers:
            self.holdings[number] = None
        self.jobs["tasks"][numbers] = 0
        self._charges[:, numbers] = 0
        self.places["owner"][places] = NOBODY
        self._free.extend(numbers)
        self._free_places.extend(places)

    def _enter(self, coming: list[Holding], fleet: Fleet) -> None:
        ints, floats, places = [], [], list[tuple[int, ...]]()
        of_whom: list[int] = []
        of_what: list[int] = []
        amounts: list[int] = []
        alike: dict[tuple[tuple[Charge, ...], int], _Worth] = {}
        for holding in coming:
            holding.charges, cards, known = self._worth(holding.tasks, alike)
            number = self._place(holding)
            ints.append(self._job_row(holding))
            floats.append(_times(holding.job, cards))
            of_whom.extend([number] * len(known))
            of_what.extend(known)
            amounts.extend(holding.charges.values())
            places.extend(_standings(holding, fleet))
        numbers = [holding.number for holding in coming]
        self.jobs.put(numbers, ints)
        self.times.put(numbers, floats)
        self.places.put([place for holding in coming for place in holding.places], places)
        self._charges = grown(self._charges, self.jobs.size, len(self._keys))
        self._charges[of_what, of_whom] = amounts

    def _worth(
        self, tasks: tuple[Allocation, ...], alike: dict[tuple[tuple[Charge, ...], int], _Worth]
    ) -> _Worth:
        """What tasks are charged; known at once where as many others are charged the same."""
        first = tasks[0].charges
        same = len(tasks) == 1 or all(task.charges is first for task in tasks)
        known = alike.get((first, len(tasks))) if same else None
        if known is None:
            charges, cards = worth(tasks)
            known = (charges, cards, [self._keys.setdefault(key, len(self._keys)) for key in charges])
            if same:
                alike[first, len(tasks)] = known
        return known

    def _place(self, holding: Holding) -> int:
        """A number for a holding, and places for its tasks."""
        if self._free:
            number = self._free.pop()
            self.holdings[number] = holding
        else:
            number = len(self.holdings)
            self.holdings.append(holding)
        holding.number = number
        first, count = self._next_place, len(holding.tasks)
        reused = [self._free_places.pop() for _ in range(min(count, len(self._free_places)))]
        self._next_place = first + count - len(reused)
        holding.places = [*reused, *range(first, self._next_place)]
        self._of_job.setdefault(holding.job.id, []).append(holding)
        return number

    def _job_row(self, holding: Holding) -> tuple[int, ...]:
        job = holding.job
        queue = self.queues.setdefault(holding.queue, len(self.queues))
        return (queue, job.priority, holding.leaving, job.preemptible, job.evictions, len(holding.tasks))

    def _move(self, fleet: Fleet) -> None:
        """Find the tasks on the rows of another fleet."""
        known = [holding for holding in self.holdings if holding is not None]
        rows = [row for holding in known for row in _standings(holding, fleet)]
        self.places.put([place for holding in known for place in holding.places], rows)


def register_of(snapshot: Snapshot) -> Register:
    """The snapshot's register, up to date."""
    known = snapshot.kept.get(Register)
    if not isinstance(known, Register):
        known = snapshot.kept[Register] = Register()
    known.follow(snapshot)
    return known


def worth(tasks: tuple[Allocation, ...]) -> tuple[Mapping[FlavorResource, int], float]:
    """What tasks are charged together, and how many cards' worth of compute that is."""
    first = tasks[0].charges
    if all(task.charges is first or task.charges == first for task in tasks):
        return _multiplied(first, len(tasks))
    charges = charged(tasks)
    return charges, gpus(charges)


def grown(table: NDArray[Any], columns: int, rows: int = 1) -> NDArray[Any]:
    """The table with room for so many columns and rows, twice as many as before; zeros where it is new."""
    high, wide = table.shape
    if columns <= wide and rows <= high:
        return table
    shape = (high if rows <= high else 2 * rows, wide if columns <= wide else 2 * columns)
    larger = np.zeros(shape, table.dtype)
    larger[:high, :wide] = table
    return larger


def together(groups: Ints) -> Ints:
    """The order that puts equal numbers together, ascending; equal ones stay in theirs. None is negative."""
    # Short numbers are sorted by their digits, in a small part of the time.
    short = int(groups.max(initial=0)) <= np.iinfo(np.uint16).max
    order: Ints = np.argsort(groups.astype(np.uint16) if short else groups, kind="stable")
    return order


def _holdings(snapshot: Snapshot, job: Job) -> Sequence[Holding]:
    held = snapshot.held(job.id) if job.state in HOLDING else ()
    if not held:
        return ()
    queue = held[0].queue
    if len(held) == 1 or all(task.queue == queue for task in held):
        return (Holding(job, queue, held),)
    parts = groupby(sorted(held, key=lambda task: task.queue), key=lambda task: task.queue)
    return [Holding(job, name, tuple(tasks)) for name, tasks in parts]


def _times(job: Job, cards: float) -> tuple[float, ...]:
    return (
        UNKNOWN if job.since is None else job.since,
        job.checkpoint_interval_s or 0.0,
        UNKNOWN if job.min_run_s is None else job.min_run_s,
        cards,
    )


def _standings(holding: Holding, fleet: Fleet) -> list[tuple[int, ...]]:
    """The rows of the columns for a holding's tasks."""
    owner, spared, rows = holding.number, holding.spared, fleet.row
    found: list[tuple[int, ...]] = []
    going = {(task.role, task.index) for task in spared}
    for task in holding.tasks:
        slices, row = task.slices, rows.get(task.node, NOBODY)
        if len(slices) == 1:
            (part,) = slices
            cores, card = part.cores, NOBODY if row < 0 else fleet.columns[row].get(part.device, NOBODY)
        else:
            cores, card = sum([part.cores for part in slices]), NOBODY
        may_go = bool(going) and (task.role, task.index) in going
        found.append((owner, row, len(slices), cores, task.cpu, task.memory, card, may_go))
    return found


@lru_cache(maxsize=REMEMBERED)
def _multiplied(charges: tuple[Charge, ...], count: int) -> tuple[Mapping[FlavorResource, int], float]:
    total: dict[FlavorResource, int] = {}
    for charge in charges:
        total[charge.key] = total.get(charge.key, 0) + charge.amount * count
    return total, gpus(total)
