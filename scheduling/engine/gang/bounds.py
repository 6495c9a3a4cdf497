"""This module decides by counting free slots whether tasks can be placed, without placing them.

Most pending jobs of a full cluster find no nodes whatever is tried for them. Placing a gang costs about a
hundred times as much as counting its slots, so every search counts first and places only where the count
suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scheduling.engine.gang.area_search import relates_tasks
from scheduling.engine.gang.task_counts import find_missing_tasks
from scheduling.engine.model import Allocation, Flavor, Job, Queue
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.index.question import member_rows
from scheduling.engine.placement.placer import Placer
from scheduling.engine.preemption.trials.slot_counts import FreeSlotCounter, get_slot_counts, is_countable
from scheduling.engine.state.fleet import Bools, Fleet, Ints
from scheduling.engine.state.memo import read_memo
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.task_shape import resolve_shape

MAX_CACHED = 4096

WantedSlots = tuple[tuple[ScoreBoard, int], ...]
"""For each flavor that a job may use, the board of its tasks and the number of tasks that it lacks."""


class FreedAmounts(NamedTuple):
    """The capacity that the end of some tasks would free: each row once, with cards and core units. All
    arrays are `[rows]`."""

    rows: Ints
    cards: Ints
    cores: Ints

    @staticmethod
    def of_tasks(fleet: Fleet, tasks: Iterable[Allocation]) -> FreedAmounts:
        """Return the capacity that the end of these tasks would free."""
        found: dict[int, list[int]] = {}
        rows = fleet.row
        for task in tasks:
            row = rows.get(task.node)
            if row is None:
                continue
            amounts = found.get(row)
            if amounts is None:
                amounts = found[row] = [0, 0]
            amounts[0] += len(task.slices)
            for part in task.slices:
                amounts[1] += part.cores
        table = np.array([(row, *amounts) for row, amounts in found.items()], np.int64).reshape(-1, 3)
        return FreedAmounts(*table.T.copy())


ClassNumbering = Callable[[Job], int]
"""Returns a number that is equal for jobs with equal needs."""

MissingTasks = tuple[dict[str, int], WantedSlots | None]
"""The tasks of each role that a job lacks, and the slots that they need (see
`SlotBounds.find_wanted_slots`)."""


class _MissingCache:
    """The missing tasks by equivalence class that stay with a fleet between cycles."""

    follows_fleet = True

    def __init__(self) -> None:
        self.class_of: ClassNumbering | None = None
        self.lacking: dict[Hashable, MissingTasks] = {}


def count_free_slots(board: ScoreBoard, needed: int) -> int | None:
    """Return how many of `needed` tasks find slots, one after the other; None where counting is not exact."""
    if not is_countable(board):
        return None
    return get_slot_counts(board).count_up_to(needed)


class SlotBounds:
    """Counts slots in the present state of a snapshot; its caches follow that state."""

    def __init__(self, snapshot: Snapshot, placer: Placer, class_of: ClassNumbering) -> None:
        self._snapshot, self._placer = snapshot, placer
        cache = read_memo(snapshot.fleet.memo, _MissingCache, _MissingCache)
        self._cache, self._class_of = cache, class_of
        if cache.class_of != class_of or len(cache.lacking) > MAX_CACHED:
            cache.class_of, cache.lacking = class_of, {}
        self._free: dict[ScoreBoard, tuple[int, int, tuple[int, int] | None]] = {}
        self._reachable: dict[str, Bools] = {}

    def find_missing(self, queue: Queue, job: Job) -> MissingTasks:
        """Return the tasks that a job lacks to its minimum or, for a complete gang, to its next step, with
        the slots they need."""
        held = self._snapshot.allocations_of(job.id)
        more = find_missing_tasks(job, held) or {} if held else None
        return self.locate_missing(queue, job, more)

    def locate_missing(self, queue: Queue, job: Job, more: dict[str, int] | None) -> MissingTasks:
        """Return the same for a job whose missing tasks are known; None is one that does not run."""
        kind = (self._class_of(job), queue.flavors, queue.resource_groups)
        key = kind if more is None else (kind, tuple(more.items()))
        known = self._cache.lacking.get(key)
        if known is None:
            more = find_missing_tasks(job, ()) or {} if more is None else more
            known = self._cache.lacking[key] = (more, self.find_wanted_slots(queue, job, more))
        return known

    def find_wanted_slots(self, queue: Queue, job: Job, more: Mapping[str, int]) -> WantedSlots | None:
        """Return the boards on which the missing tasks could be placed, if all of them have one shape.

        The result is None if they have several shapes, if a topology rule applies, or if a flavor has no
        nodes of its own.
        """
        roles = [role for role in job.roles if more.get(role.name)]
        if len(roles) != 1 or relates_tasks(job):
            return None
        (role,) = roles
        flavors = self._flavors(queue)
        if not flavors or any(not flavor.takes_tasks for flavor in flavors):
            return None
        boards = [
            self._placer.get_board(resolve_shape(role.request, job.rules_of(role), flavor), flavor)
            for flavor in flavors
        ]
        if not all(is_countable(board) for board in boards):
            return None
        return tuple((board, more[role.name]) for board in boards)

    def free_slot_counters(self, wanted: WantedSlots) -> tuple[FreeSlotCounter, ...]:
        """Return a counter of free slots for each flavor, in which the end of tasks can be assumed."""
        return tuple(FreeSlotCounter(get_slot_counts(board), needed) for board, needed in wanted)

    def fits_now(self, wanted: WantedSlots) -> bool:
        """Return whether the missing tasks find slots in the present state."""
        return any(self.count_slots(board, needed) >= needed for board, needed in wanted)

    def has_free_cores(self, board: ScoreBoard, needed: int) -> bool:
        """Return whether enough core units of cards are free for the tasks.

        The sum covers the flavor's nodes and those to which running tasks may be moved, so it is an upper
        bound for consolidation.
        """
        task, fleet = board.question.task, board.question.fleet
        if not task.cards or task.derived:
            return True
        state = (fleet.epoch, len(fleet.changed_rows))
        free, each, at = self._free.get(board, (0, 0, None))
        if at != state:
            usable = board.question.usable & self.reachable_rows(board.question.flavor)[:, None]
            each = int(fleet.card_cores[usable].min(initial=task.cores)) if task.whole else task.cores
            free = int(fleet.cores_free[usable].sum())
            self._free[board] = (free, each, state)
        return free >= needed * task.cards * each

    def may_fit_after(self, wanted: WantedSlots, freed: FreedAmounts) -> bool:
        """Return False if slots do not suffice even with this capacity freed; True is an upper bound."""
        return any(self._may_fit_board(*each, freed) for each in wanted)

    def fits_after(self, wanted: WantedSlots, ended: Sequence[Allocation]) -> bool:
        """Return whether the missing tasks find slots once these tasks have ended."""
        for counter in self.free_slot_counters(wanted):
            counter.remove_tasks(ended)
            if counter.fits:
                return True
        return False

    def reachable_rows(self, flavor: Flavor) -> Bools:
        """Return the rows of a flavor and of all flavors that share rows with it, `[rows]`."""
        known = self._reachable.get(flavor.id)
        if known is None:
            fleet = self._snapshot.fleet
            mine = member_rows(fleet, flavor)
            others = (member_rows(fleet, other) for other in self._snapshot.flavors.values() if other.placed)
            overlapping = [rows for rows in others if bool((rows & mine).any())]
            known = self._reachable[flavor.id] = np.any([mine, *overlapping], axis=0)
        return known

    def count_slots(self, board: ScoreBoard, needed: int) -> int:
        """Return how many of `needed` tasks find slots in the present state."""
        return get_slot_counts(board).count_up_to(needed)

    def count_gained_slots(self, board: ScoreBoard, needed: int, freed: FreedAmounts) -> Ints | None:
        """Return how many more slots each freed row could have for the tasks, `[freed]`, an upper bound. The
        result is None where cards do not decide."""
        counted = get_slot_counts(board)
        if not counted.amount_per_task:
            return None
        rows, amounts = freed.rows, freed.cards if board.question.task.whole else freed.cores
        then = np.minimum((counted.free_amounts()[rows] + amounts) // counted.amount_per_task, needed)
        more: Ints = np.maximum(then - counted.current_counts()[rows], 0)
        return more

    def _may_fit_board(self, board: ScoreBoard, needed: int, freed: FreedAmounts) -> bool:
        total = self.count_slots(board, needed)
        more = None if total >= needed else self.count_gained_slots(board, needed, freed)
        return more is None or total + int(more.sum()) >= needed

    def _flavors(self, queue: Queue) -> list[Flavor]:
        names = dict.fromkeys(name for group in queue.effective_groups for name in group.flavors)
        return [flavor for name in names if (flavor := self._snapshot.flavors.get(name)) is not None]


def restore_if_fitting(counters: Sequence[FreeSlotCounter], task: Allocation) -> bool:
    """Restore a task that was removed from the counts if the slots suffice all the same, and return whether
    they do."""
    for counted in counters:
        counted.remove_tasks((task,), -1)
    if any(counted.fits for counted in counters):
        return True
    for counted in counters:
        counted.remove_tasks((task,))
    return False


def count_needed_releases(counters: Iterable[FreeSlotCounter], tasks: Sequence[Allocation]) -> int | None:
    """Return how many of the first tasks must end until some flavor has enough slots. The result is None if
    all of them are not enough."""
    counts = [count for counted in counters if (count := _count_needed(counted, tasks)) is not None]
    return min(counts, default=None)


def _count_needed(counters: FreeSlotCounter, tasks: Sequence[Allocation]) -> int | None:
    ended = 0
    while not counters.fits and ended < len(tasks):
        counters.remove_tasks(tasks[ended : ended + 1])
        ended += 1
    found = ended if counters.fits else None
    counters.remove_tasks(tasks[:ended], -1)
    return found
