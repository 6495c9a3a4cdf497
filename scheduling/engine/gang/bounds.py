"""Whether tasks can find seats, told by counting and without seating anybody.

Most jobs of a full cluster find no seats whatever is tried for them. Seating a gang to learn that costs a
hundred times what counting costs, so searches count first and seat only where there is hope.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from scheduling.engine.gang.area_search import constrains_placement
from scheduling.engine.gang.task_counts import find_missing_tasks
from scheduling.engine.model import Allocation, Flavor, Job, Queue
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.index.question import members
from scheduling.engine.placement.placer import Placer
from scheduling.engine.preemption.slot_counts import FreeSlotCounter, get_slot_counts, is_countable
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Ints, Rows
from scheduling.engine.state.shape import resolve
from scheduling.engine.state.snapshot import Snapshot

MAX_CACHED = 4096

WantedSlots = tuple[tuple[Board, int], ...]
"""For each flavor in which a job may stand, the board of its tasks and how many of them it lacks."""


class FreedAmounts(NamedTuple):
    """What tasks would free: rows, each once, and on each of them cards and core units. All `[rows]`."""

    rows: Ints
    cards: Ints
    cores: Ints

    @staticmethod
    def of_tasks(fleet: Fleet, tasks: Iterable[Allocation]) -> FreedAmounts:
        """What these tasks would free."""
        found: dict[int, list[int]] = {}
        for task in tasks:
            row = fleet.row.get(task.node)
            if row is not None:
                amounts = found.setdefault(row, [0, 0])
                amounts[0] += len(task.slices)
                amounts[1] += sum(part.cores for part in task.slices)
        table = np.array([(row, *amounts) for row, amounts in found.items()], np.int64).reshape(-1, 3)
        return FreedAmounts(*table.T.copy())


class SlotCounts:
    """What one shape finds on each row, brought up to date when it is looked at.

    `slots` is how many more of its tasks a row takes. `free_amounts` is what a row has of what the shape is
    most of: empty cards for whole ones, core units of cards for parts; `amount_per_task` is how much of it a
    task takes.
    """

    def __init__(self, board: Board) -> None:
        task = board.question.task
        self.board = board
        self.slots = get_slot_counts(board)
        self.amount_per_task = task.cards if task.whole else task.cores * task.cards
        self._whole = task.whole
        self._free: Ints = np.zeros(0, np.int64)
        self._seen = self._epoch = -1

    def free_amounts(self) -> Ints:
        """`[rows]`, not to be written to."""
        fleet = self.board.question.fleet
        if self._whole:
            self.slots.current_counts()
            return self.slots.usable_cards
        if self._epoch != fleet.epoch:
            self._free = self._freely(ALL_ROWS)
        elif self._seen < len(fleet.touched):
            rows = fleet.touched_since(self._seen)
            self._free[rows] = self._freely(rows)
        self._epoch, self._seen = fleet.epoch, len(fleet.touched)
        return self._free

    def _freely(self, rows: Rows) -> Ints:
        question = self.board.question
        total: Ints = np.where(question.usable[rows], question.fleet.cores_free[rows], 0).sum(axis=1)
        return total


class ClassNumbering(Protocol):
    """Numbers jobs so that those with equal needs have equal numbers."""

    def class_of(self, job: Job) -> int:
        """The number of a job."""


MissingTasks = tuple[dict[str, int], WantedSlots | None]
"""The tasks of each role that a job lacks, and where they would have to stand (see `Bounds.wanted`)."""


class _Shelf:
    """What is kept with a fleet from cycle to cycle: counts by board, and what jobs of one kind lack."""

    follows_fleet = True

    def __init__(self) -> None:
        self.kinds: ClassNumbering | None = None
        self.counted: dict[Board, SlotCounts] = {}
        self.lacking: dict[Hashable, MissingTasks] = {}

    def of(self, board: Board) -> SlotCounts:
        """What the board's shape finds on each row."""
        known = self.counted.get(board)
        if known is None:
            known = self.counted[board] = SlotCounts(board)
        return known


def count_free_slots(board: Board, needed: int) -> int | None:
    """How many of so many tasks find seats one after the other; None where counting is not exact."""
    if not is_countable(board):
        return None
    return get_slot_counts(board).count_up_to(needed)


def _shelf_of(fleet: Fleet) -> _Shelf:
    shelf = fleet.memo.get(_Shelf)
    if not isinstance(shelf, _Shelf) or len(shelf.counted) > MAX_CACHED:
        shelf = fleet.memo[_Shelf] = _Shelf()
    return shelf


class SlotBounds:
    """Counts seats in the present state of a snapshot; what it keeps follows the state."""

    def __init__(self, snapshot: Snapshot, placer: Placer, kinds: ClassNumbering | None = None) -> None:
        self._snapshot, self._placer = snapshot, placer
        shelf = _shelf_of(snapshot.fleet)
        self._shelf, self._kinds = shelf, kinds
        if shelf.kinds is not kinds or len(shelf.lacking) > MAX_CACHED:
            shelf.kinds, shelf.lacking = kinds, {}
        self._free: dict[Board, tuple[int, int, tuple[int, int] | None]] = {}
        self._reaches: dict[str, Bools] = {}

    def find_missing(self, queue: Queue, job: Job) -> MissingTasks:
        """What a job lacks to its minimum, or, of a gang that stands, to its next step."""
        held = self._snapshot.held(job.id)
        more = find_missing_tasks(job, held) or {} if held or self._kinds is None else None
        return self.locate_missing(queue, job, more)

    def locate_missing(self, queue: Queue, job: Job, more: dict[str, int] | None) -> MissingTasks:
        """As `find_missing`, of a job of which it is known what it lacks; None: that nothing of it stands."""
        if self._kinds is None:
            return more or {}, self.find_wanted_slots(queue, job, more or {})
        kind = (self._kinds.class_of(job), queue.flavors, queue.resource_groups)
        key = kind if more is None else (kind, tuple(more.items()))
        known = self._shelf.lacking.get(key)
        if known is None:
            more = find_missing_tasks(job, ()) or {} if more is None else more
            known = self._shelf.lacking[key] = (more, self.find_wanted_slots(queue, job, more))
        return known

    def find_wanted_slots(self, queue: Queue, job: Job, more: Mapping[str, int]) -> WantedSlots | None:
        """Where so many more tasks of each role would have to stand, if they are all alike.

        None where they are not, where it matters how they stand to each other or to others, and where they
        may do without a node.
        """
        rules = (job.topology, *(role.topology for role in job.roles))
        roles = [role for role in job.roles if more.get(role.name)]
        if (
            len(roles) != 1
            or job.sub_gangs
            or any(rule is not None and constrains_placement(rule) for rule in rules)
        ):
            return None
        (role,) = roles
        flavors = self._flavors(queue)
        if not flavors or any(not flavor.takes_tasks for flavor in flavors):
            return None
        boards = [
            self._placer.board(resolve(role.request, job.rules_of(role), flavor), flavor)
            for flavor in flavors
        ]
        if not all(is_countable(board) for board in boards):
            return None
        return tuple((board, more[role.name]) for board in boards)

    def slot_counts(self, board: Board) -> SlotCounts:
        """What the board's shape finds on each row."""
        return self._shelf.of(board)

    def free_slot_counters(self, wanted: WantedSlots) -> tuple[FreeSlotCounter, ...]:
        """Counted seats in each flavor, in which tasks can be thought away."""
        return tuple(FreeSlotCounter(self.slot_counts(board).slots, needed) for board, needed in wanted)

    def fits_now(self, wanted: WantedSlots) -> bool:
        """Whether the job finds its seats as things stand."""
        return any(self.count_slots(board, needed) >= needed for board, needed in wanted)

    def has_free_cores(self, board: Board, needed: int) -> bool:
        """Whether as many core units of cards are free as so many tasks need, on their nodes or on others to
        which those who stand there may move."""
        task, fleet = board.question.task, board.question.fleet
        if not task.cards or task.derived:
            return True
        state = (fleet.epoch, len(fleet.touched))
        free, each, at = self._free.get(board, (0, 0, None))
        if at != state:
            usable = board.question.usable & self.reachable_rows(board.question.flavor)[:, None]
            each = int(fleet.card_cores[usable].min(initial=task.cores)) if task.whole else task.cores
            free = int(fleet.cores_free[usable].sum())
            self._free[board] = (free, each, state)
        return free >= needed * task.cards * each

    def may_fit_after(self, wanted: WantedSlots, freed: FreedAmounts) -> bool:
        """False where the job finds too few seats, even with this much freed; a quick and rough bound."""
        return any(self._most(*each, freed) for each in wanted)

    def reachable_rows(self, flavor: Flavor) -> Bools:
        """The rows of a flavor and of those that share some with it. `[rows]`."""
        known = self._reaches.get(flavor.id)
        if known is None:
            fleet = self._snapshot.fleet
            mine = members(fleet, flavor)
            others = (members(fleet, other) for other in self._snapshot.flavors.values() if other.placed)
            near = [rows for rows in others if bool((rows & mine).any())]
            known = self._reaches[flavor.id] = np.any([mine, *near], axis=0)
        return known

    def count_slots(self, board: Board, needed: int) -> int:
        """How many of so many tasks find seats as things stand."""
        return self.slot_counts(board).slots.count_up_to(needed)

    def count_gained_slots(self, board: Board, needed: int, freed: FreedAmounts) -> Ints | None:
        """How many seats more each of the freed rows could have for so many tasks, at most `[freed]`; None
        where that is not told by cards."""
        counted = self.slot_counts(board)
        if not counted.amount_per_task:
            return None
        rows, amounts = freed.rows, freed.cards if board.question.task.whole else freed.cores
        then = np.minimum((counted.free_amounts()[rows] + amounts) // counted.amount_per_task, needed)
        more: Ints = np.maximum(then - counted.slots.current_counts()[rows], 0)
        return more

    def _most(self, board: Board, needed: int, freed: FreedAmounts) -> bool:
        total = self.count_slots(board, needed)
        more = None if total >= needed else self.count_gained_slots(board, needed, freed)
        return more is None or total + int(more.sum()) >= needed

    def _flavors(self, queue: Queue) -> list[Flavor]:
        names = dict.fromkeys(name for group in queue.groups for name in group.flavors)
        return [flavor for name in names if (flavor := self._snapshot.flavors.get(name)) is not None]


class AssumedReleases:
    """Tasks that are thought away, of which some may come back."""

    def __init__(self, seats: Sequence[FreeSlotCounter], tasks: Sequence[Allocation]) -> None:
        self._seats, self._gone = seats, {task.id: task for task in tasks}
        for counted in seats:
            counted.remove_tasks(tasks)

    def restore_if_fitting(self, rest: Sequence[Allocation], task: Allocation) -> bool:
        """Let a task come back, if there are enough seats with the rest alone gone."""
        for counted in self._seats:
            counted.remove_tasks((task,), -1)
        if any(counted.fits for counted in self._seats):
            del self._gone[task.id]
            return True
        for counted in self._seats:
            counted.remove_tasks((task,))
        return False

    def restore_all(self) -> None:
        """Everybody is back."""
        for counted in self._seats:
            counted.remove_tasks(tuple(self._gone.values()), -1)


@contextmanager
def assume_released(
    seats: Sequence[FreeSlotCounter], tasks: Sequence[Allocation]
) -> Iterator[AssumedReleases]:
    """The seats as they would be without these tasks, until the block ends."""
    away = AssumedReleases(seats, tasks)
    try:
        yield away
    finally:
        away.restore_all()


def count_needed_releases(seats: Iterable[FreeSlotCounter], tasks: Sequence[Allocation]) -> int | None:
    """With how many of the first of these tasks gone the seats of some flavor suffice; None: not with all."""
    counts = [count for counted in seats if (count := _fewest(counted, tasks)) is not None]
    return min(counts, default=None)


def _fewest(seats: FreeSlotCounter, tasks: Sequence[Allocation]) -> int | None:
    gone = 0
    while not seats.fits and gone < len(tasks):
        seats.remove_tasks(tasks[gone : gone + 1])
        gone += 1
    found = gone if seats.fits else None
    seats.remove_tasks(tasks[:gone], -1)
    return found
