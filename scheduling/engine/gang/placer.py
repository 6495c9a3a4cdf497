"""This module places a whole gang or nothing: parts in their domains, the hardest roles first, the minimum
before surplus."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from functools import partial

import numpy as np

from scheduling.engine.gang.area_search import AreaSearch, constrains_placement
from scheduling.engine.gang.bounds import count_free_slots
from scheduling.engine.gang.domains import ANYWHERE, DomainArea
from scheduling.engine.gang.parts import GangPart, GangRules, TaskCounts
from scheduling.engine.gang.refusal_cache import RefusalCache
from scheduling.engine.gang.refusals import add_free_cards, refuse_no_room, refuse_too_few
from scheduling.engine.gang.task_counts import count_placed_tasks
from scheduling.engine.gang.tasks import RoleTasks, role_tasks, summed_allocation
from scheduling.engine.model import Allocation, Job, Queue, Role
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.placer import Placer
from scheduling.engine.preemption.trials.slot_counts import get_slot_counts
from scheduling.engine.quota.assignment import Assignment, Refusal
from scheduling.engine.state.fleet import Ints
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Mark, Statement

# At most this many equally good nodes are searched for tasks of the job's own queue.
MAX_EQUALS_SEEN = 64


class PlacementExtent(StrEnum):
    """The part of a job that is placed.

    `full` is the minimum and all surplus that fits on nodes, `minimum` is no surplus, and `step` is the
    minimum or, for a gang that has it, the next step of its surplus.
    """

    FULL = "full"
    MINIMUM = "minimum"
    STEP = "step"


class GangPlacer:
    """Places the tasks that jobs lack; `refusals` is shared by attempts between which nothing is freed."""

    def __init__(self, snapshot: Snapshot, placer: Placer, refusals: RefusalCache | None = None) -> None:
        self._snapshot = snapshot
        self._placer = placer
        self._refusals = RefusalCache() if refusals is None else refusals

    def place_job(
        self,
        statement: Statement,
        queue: Queue,
        job: Job,
        assignment: Assignment,
        extent: PlacementExtent = PlacementExtent.FULL,
    ) -> tuple[Allocation, ...] | Refusal:
        """Place the tasks that the job lacks in the flavors of the assignment, inside the statement.

        The assignment's counts are how many tasks each role may get on top of its running ones. The result
        are the new allocations by role and index; a refusal leaves nothing in the statement.

        Raises:
            PartsError: when the job's parts form no tree.
            ConfigError: when a flavor's policy is not configured.
        """
        mark = statement.checkpoint()
        placing = _GangPlacement(self._snapshot, self._placer, self._refusals, statement, queue, job)
        placing.prepare_roles(assignment)
        refusal = placing.place_extent(extent)
        if refusal is not None:
            statement.rollback(mark)
            return refusal
        return placing.new_allocations()


class _GangPlacement:
    """One attempt to place one job."""

    def __init__(
        self,
        snapshot: Snapshot,
        placer: Placer,
        full: RefusalCache,
        statement: Statement,
        queue: Queue,
        job: Job,
    ) -> None:
        self._snapshot, self._placer, self._refusals = snapshot, placer, full
        self._statement, self._queue, self._job = statement, queue, job
        self._gang = GangRules(job)
        self._counts = count_placed_tasks(job, snapshot.allocations_of(job.id))
        self._limits = dict(self._counts)
        self._tasks: dict[str, RoleTasks] = {}
        self._placed: list[Allocation] = []
        self._placed_by_role: Counter[str] = Counter()
        self._area_search = AreaSearch(snapshot, placer, job, self._tasks)
        self._refusal: Refusal | None = None
        self._among = partial(prefer_own_queue, snapshot, queue)

    def new_allocations(self) -> tuple[Allocation, ...]:
        """Return the allocations of this attempt by role and index."""
        return tuple(sorted(self._placed, key=lambda allocation: (allocation.role, allocation.index)))

    def prepare_roles(self, assignment: Assignment) -> None:
        """Allocate the roles that need no nodes, and determine how far the other roles may grow."""
        assigned = {entry.role: entry for entry in assignment.roles}
        for role in self._job.roles:
            assigned_role = assigned.get(role.name)
            if assigned_role is None:
                continue
            tasks = role_tasks(self._snapshot, self._job, role, assigned_role)
            if tasks is not None:
                self._tasks[role.name] = tasks
                self._limits[role.name] += min(assigned_role.count, len(tasks.free_indices))
                continue
            if self._counts[role.name] == role.ended:
                self._allocate(summed_allocation(self._queue, self._job, assigned_role))
            most = max(assigned_role.count + role.ended, role.min_count)
            self._counts[role.name] = self._limits[role.name] = most

    def place_extent(self, extent: PlacementExtent) -> Refusal | None:
        """Place the minimum, then surplus; the result is the refusal, or None."""
        missing = self._gang.missing_minimum(self._counts, self._limits)
        for name, more in missing.items():
            if self._counts[name] + more > self._limits[name]:
                return refuse_too_few(name, self._counts[name] + more, self._limits[name])
        if missing and not self._place_counts(missing):
            return self._refusal
        if extent is PlacementExtent.MINIMUM or (extent is PlacementExtent.STEP and missing):
            return None
        self._grow(once=extent is PlacementExtent.STEP)
        return None if self._placed else self._refusal

    def _grow(self, *, once: bool) -> None:
        if not once:
            self._grow_together()
        barred: frozenset[str] = frozenset()
        while (step := self._gang.next_step(self._counts, self._limits, barred)) is not None:
            if not self._place_counts(step):
                barred |= step.keys()
            elif once:
                return

    def _grow_together(self) -> None:
        """Place as much surplus as there are slots for, if all tasks have one shape that can be counted."""
        role = _only_free_role(self._job)
        entry = None if role is None else self._tasks.get(role.name)
        if role is None or entry is None:
            return
        surplus = self._limits[role.name] - self._counts[role.name]
        if surplus > 1 and (
            more := count_free_slots(self._placer.get_board(entry.task, entry.flavor), surplus)
        ):
            self._place_counts({role.name: more})

    def _place_counts(self, more: TaskCounts) -> bool:
        """Place this many more tasks of each role, or none of them."""
        mark = self._mark()
        if not self._place_part(self._gang.root, more, ANYWHERE):
            self._undo(mark)
            return False
        for name, number in more.items():
            self._counts[name] += number
        return True

    def _place_part(self, part: GangPart, more: TaskCounts, area: DomainArea) -> bool:
        """Place a part in the best of its domains that takes all of it."""
        roles = [role for role in part.all_roles() if more.get(role.name)]
        if not roles:
            return True
        rule = part.topology
        if rule is None or not constrains_placement(rule):
            return self._place_children(part, more, area)
        for inner in self._area_search.find_areas(rule, roles, more, area, list(part.all_roles())):
            mark = self._mark()
            if self._place_children(part, more, inner):
                return True
            self._undo(mark)
        self._refusal = self._area_search.explain_refusal(rule, roles, more, area) or self._refusal
        return False

    def _place_children(self, part: GangPart, more: TaskCounts, area: DomainArea) -> bool:
        children = sorted(
            part.parts, key=lambda child: self._area_search.hardest_first_key(child.all_roles(), more)
        )
        if not all(self._place_part(child, more, area) for child in children):
            return False
        here = sorted(part.roles, key=lambda role: self._area_search.hardest_first_key((role,), more))
        return self._place_roles(here, more, area)

    def _place_roles(self, roles: list[Role], more: TaskCounts, area: DomainArea) -> bool:
        """Place roles one after the other.

        A role that finds no node beside those before it is moved before them, once: they may have other nodes
        where it has none.
        """
        mark, refusal, moved = self._mark(), self._refusal, set[str]()
        while True:
            failed = next((r for r in roles if not self._place_tasks(r, more.get(r.name, 0), area)), None)
            if failed is None:
                return True
            refusal = self._refusal if not moved else refusal
            if failed is roles[0] or failed.name in moved:
                self._refusal = refusal
                return False
            self._undo(mark)
            moved.add(failed.name)
            roles = [failed, *(role for role in roles if role is not failed)]

    def _place_tasks(self, role: Role, number: int, area: DomainArea) -> bool:
        """Place tasks one after the other; each sees the state after the ones before."""
        if not number:
            return True
        entry = self._tasks[role.name]
        alone = area is ANYWHERE and not self._placed
        known = self._refusals.find_refusal(entry.task, number) if alone else None
        if known is not None:
            self._refusal = known.with_numbers(role=role.name, asked=entry.max_tasks, limit=entry.max_tasks)
            return False
        board = self._placer.get_board(entry.task, entry.flavor)
        free_slots = count_free_slots(board, number) if area is ANYWHERE else None
        if free_slots is not None and free_slots < number:
            return self._refuse(board, entry, number, free_slots, alone=alone)
        mark, slots = self._mark(), None if free_slots is None else get_slot_counts(board).current_counts()
        taken: Counter[int] = Counter()
        for done in range(number):
            row = self._place_one(entry, area)
            if row is None:
                # The refusal states what is free without the tasks that were placed in vain.
                self._undo(mark)
                return self._refuse(board, entry, number, done, alone=alone)
            taken[row] += 1
            if slots is not None:
                board.record_placement(row, full=taken[row] == slots[row])
        return True

    def _refuse(
        self, board: ScoreBoard, entry: RoleTasks, number: int, placed_count: int, *, alone: bool
    ) -> bool:
        self._refusal = refuse_no_room(board, entry, placed_count)
        if alone:
            self._refusals.record_refusal(entry.task, number, self._refusal)
        else:
            # The job's own tasks take part of these nodes, so the refusal states what is free without them.
            self._refusal = add_free_cards(board, self._refusal.resolve_numbers())
        return False

    def _place_one(self, entry: RoleTasks, area: DomainArea) -> int | None:
        """Place one task and return its row; the result is None if no row takes it."""
        index = self._placed_by_role[entry.role.name]
        for rows in area.row_masks():
            placement = self._placer.find_placement(entry.task, entry.flavor, rows, self._among)
            if placement is not None:
                self._allocate(
                    entry.build_allocation(self._queue, self._job, placement, entry.free_indices[index])
                )
                return placement.row
        return None

    def _allocate(self, allocation: Allocation) -> None:
        self._statement.allocate(allocation)
        self._placed.append(allocation)
        self._placed_by_role[allocation.role] += 1

    def _mark(self) -> tuple[Mark, int]:
        return self._statement.checkpoint(), len(self._placed)

    def _undo(self, mark: tuple[Mark, int]) -> None:
        self._statement.rollback(mark[0])
        for allocation in self._placed[mark[1] :]:
            self._placed_by_role[allocation.role] -= 1
        del self._placed[mark[1] :]


def prefer_own_queue(snapshot: Snapshot, queue: Queue, equals: Ints) -> int:
    """Return, of equally good rows, the first with the largest share of tasks of a queue."""
    rows, fleet = equals[:MAX_EQUALS_SEEN], snapshot.fleet
    if not fleet.used_pods[rows].any():
        return int(rows[0])
    own = [snapshot.count_tasks_on(fleet.nodes[row].id, queue.id) for row in rows.tolist()]
    return int(rows[np.argmax(own / np.maximum(1, fleet.used_pods[rows]))])


def _only_free_role(job: Job) -> Role | None:
    """Return the only role of a job whose tasks may each run anywhere; None without one."""
    if len(job.roles) != 1 or job.sub_gangs or job.topology is not None or job.min_available is not None:
        return None
    return job.roles[0]
