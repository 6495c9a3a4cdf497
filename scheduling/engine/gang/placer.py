"""Seats for a whole gang, or none: parts in their domains, roles hardest first, minimum before surplus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum

import numpy as np

from scheduling.engine.gang.area_search import AreaSearch, constrains_placement, slice_rule
from scheduling.engine.gang.bounds import count_free_slots
from scheduling.engine.gang.domains import ANYWHERE, DomainArea
from scheduling.engine.gang.parts import GangPart, GangRules, TaskCounts
from scheduling.engine.gang.refusal_cache import RefusalCache
from scheduling.engine.gang.refusals import add_free_cards, refuse_no_room, refuse_too_few
from scheduling.engine.gang.task_counts import count_placed_tasks
from scheduling.engine.gang.tasks import RoleTasks, role_tasks, summed_allocation
from scheduling.engine.model import Allocation, Job, Queue, Role, TopologyRule
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.placer import Placer
from scheduling.engine.preemption.slot_counts import get_slot_counts
from scheduling.engine.quota.assignment import Assignment, Refusal
from scheduling.engine.state.fleet import Ints
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Mark, Statement

_SeatIn = Callable[[DomainArea], bool]
# Of so many equally good nodes at most it is asked who stands there.
EQUALS_SEEN = 64


class PlacementExtent(StrEnum):
    """How much of a job is placed.

    `full` is the minimum and all surplus that fits on nodes, `minimum` is no surplus, and `step` is the
    minimum or, for a gang that has it, the next step of its surplus.
    """

    FULL = "full"
    MINIMUM = "minimum"
    STEP = "step"


class GangPlacer:
    """Places what jobs lack. `refusals` is shared by all tries between which nothing is freed."""

    def __init__(self, snapshot: Snapshot, placer: Placer, refusals: RefusalCache | None = None) -> None:
        self._snapshot = snapshot
        self._placer = placer
        self._full = RefusalCache() if refusals is None else refusals

    def place_job(
        self,
        statement: Statement,
        queue: Queue,
        job: Job,
        assignment: Assignment,
        extent: PlacementExtent = PlacementExtent.FULL,
    ) -> tuple[Allocation, ...] | Refusal:
        """Seat the tasks that the job lacks in the flavors of the assignment, inside the statement.

        The assignment's counts are how many tasks each role may get on top of those that stand. Returns
        what is held more, by role and index; a refusal leaves nothing.

        Raises:
            PartsError: when the job's parts form no tree.
            ConfigError: when a flavor's policy is not configured.
        """
        mark = statement.checkpoint()
        seating = _Seating(self._snapshot, self._placer, self._full, statement, queue, job)
        seating.prepare(assignment)
        refusal = seating.run(extent)
        if refusal is not None:
            statement.rollback(mark)
            return refusal
        return seating.placed()


class _Seating:
    """One try to seat one job."""

    def __init__(
        self,
        snapshot: Snapshot,
        placer: Placer,
        full: RefusalCache,
        statement: Statement,
        queue: Queue,
        job: Job,
    ) -> None:
        self._snapshot, self._placer, self._full = snapshot, placer, full
        self._statement, self._queue, self._job = statement, queue, job
        self._gang = GangRules(job)
        self._counts = count_placed_tasks(job, snapshot.held(job.id))
        self._limits = dict(self._counts)
        self._tasks: dict[str, RoleTasks] = {}
        self._placed: list[Allocation] = []
        self._seated: Counter[str] = Counter()
        self._where = AreaSearch(snapshot, placer, job, self._tasks)
        self._refusal: Refusal | None = None

    def placed(self) -> tuple[Allocation, ...]:
        """What the job holds more than before."""
        return tuple(sorted(self._placed, key=lambda allocation: (allocation.role, allocation.index)))

    def prepare(self, assignment: Assignment) -> None:
        """Hold what needs no seats, and find out how far the other roles may grow."""
        assigned = {entry.role: entry for entry in assignment.roles}
        for role in self._job.roles:
            given = assigned.get(role.name)
            if given is None:
                continue
            tasks = role_tasks(self._snapshot, self._job, role, given)
            if tasks is not None:
                self._tasks[role.name] = tasks
                self._limits[role.name] += min(given.count, len(tasks.free_indices))
                continue
            if self._counts[role.name] == role.ended:
                self._hold(summed_allocation(self._queue, self._job, given))
            self._counts[role.name] = self._limits[role.name] = max(given.count + role.ended, role.least)

    def run(self, extent: PlacementExtent) -> Refusal | None:
        """Seat the minimum, then surplus; why not, or None."""
        missing = self._gang.missing_minimum(self._counts, self._limits)
        for name, more in missing.items():
            if self._counts[name] + more > self._limits[name]:
                return refuse_too_few(name, self._counts[name] + more, self._limits[name])
        if missing and not self._take(missing):
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
            if not self._take(step):
                barred |= step.keys()
            elif once:
                return

    def _grow_together(self) -> None:
        """Seat as much surplus as there is room for, where all tasks are alike and it can be counted."""
        role = _only_role(self._job)
        entry = None if role is None else self._tasks.get(role.name)
        if role is None or entry is None:
            return
        surplus = self._limits[role.name] - self._counts[role.name]
        if surplus > 1 and (more := count_free_slots(self._placer.board(entry.task, entry.flavor), surplus)):
            self._take({role.name: more})

    def _take(self, more: TaskCounts) -> bool:
        """Seat so many more tasks of each role, or none of them."""
        mark = self._mark()
        if not self._part(self._gang.root, more, ANYWHERE):
            self._undo(mark)
            return False
        for name, number in more.items():
            self._counts[name] += number
        return True

    def _part(self, part: GangPart, more: TaskCounts, area: DomainArea) -> bool:
        """Seat a part in the best of its domains that takes all of it."""
        roles = [role for role in part.all_roles() if more.get(role.name)]
        if not roles:
            return True
        return self._within(
            part.topology,
            roles,
            more,
            area,
            pinned=list(part.all_roles()),
            seat=lambda inner: self._inside(part, more, inner),
        )

    def _inside(self, part: GangPart, more: TaskCounts, area: DomainArea) -> bool:
        children = sorted(
            part.parts, key=lambda child: self._where.hardest_first_key(child.all_roles(), more)
        )
        if not all(self._part(child, more, area) for child in children):
            return False
        here = sorted(part.roles, key=lambda role: self._where.hardest_first_key((role,), more))
        return self._in_turn(here, more, area)

    def _in_turn(self, roles: list[Role], more: TaskCounts, area: DomainArea) -> bool:
        """Seat roles one after the other. One that finds no room beside those before it goes before them,
        once: these may have other places where it has none."""
        mark, refusal, moved = self._mark(), self._refusal, set[str]()
        while True:
            failed = next((role for role in roles if not self._role(role, more, area)), None)
            if failed is None:
                return True
            refusal = self._refusal if not moved else refusal
            if failed is roles[0] or failed.name in moved:
                self._refusal = refusal
                return False
            self._undo(mark)
            moved.add(failed.name)
            roles = [failed, *(role for role in roles if role is not failed)]

    def _role(self, role: Role, more: TaskCounts, area: DomainArea) -> bool:
        number = more.get(role.name, 0)
        if not number:
            return True
        return self._within(
            role.topology,
            [role],
            more,
            area,
            pinned=[role],
            seat=lambda inner: self._slices(role, number, inner),
        )

    def _slices(self, role: Role, number: int, area: DomainArea) -> bool:
        """Every so many tasks share a domain of a finer level."""
        finer = slice_rule(role.topology)
        if role.topology is None or finer is None:
            return self._seats(role, number, area)
        size = role.topology.slice_size
        return all(
            self._slice(role, finer, min(size, number - start), area) for start in range(0, number, size)
        )

    def _slice(self, role: Role, rule: TopologyRule, number: int, area: DomainArea) -> bool:
        return self._within(
            rule,
            [role],
            {role.name: number},
            area,
            pinned=[],
            seat=lambda inner: self._seats(role, number, inner),
        )

    def _within(
        self,
        rule: TopologyRule | None,
        roles: list[Role],
        more: TaskCounts,
        area: DomainArea,
        *,
        pinned: list[Role],
        seat: _SeatIn,
    ) -> bool:
        """Seat tasks in the first area of the rule that takes all of them."""
        if rule is None or not constrains_placement(rule):
            return seat(area)
        for inner in self._where.find_areas(rule, roles, more, area, pinned):
            mark = self._mark()
            if seat(inner):
                return True
            self._undo(mark)
        self._refusal = self._where.explain_refusal(rule, roles, more, area) or self._refusal
        return False

    def _seats(self, role: Role, number: int, area: DomainArea) -> bool:
        """Seat so many tasks one after the other; each sees what the former took."""
        entry = self._tasks[role.name]
        alone = area is ANYWHERE and not self._placed
        known = self._full.find_refusal(entry.task, number) if alone else None
        if known is not None:
            self._refusal = known.but(role=role.name, asked=entry.max_tasks, limit=entry.max_tasks)
            return False
        board = self._placer.board(entry.task, entry.flavor)
        most = count_free_slots(board, number) if area is ANYWHERE else None
        if most is not None and most < number:
            return self._refused(board, entry, number, most, alone=alone)
        mark, slots = self._mark(), None if most is None else get_slot_counts(board).current_counts()
        taken: Counter[int] = Counter()
        for done in range(number):
            row = self._seat(entry, area)
            if row is None:
                # What is told to be free is so without those that found seats in vain.
                self._undo(mark)
                return self._refused(board, entry, number, done, alone=alone)
            taken[row] += 1
            if slots is not None:
                board.seated(row, full=taken[row] == slots[row])
        return True

    def _refused(self, board: Board, entry: RoleTasks, number: int, seated: int, *, alone: bool) -> bool:
        self._refusal = refuse_no_room(board, entry, seated)
        if alone:
            self._full.record_refusal(entry.task, number, self._refusal)
        else:
            # The nodes that refuse are those beside the job's own tasks; what is free is told without these.
            self._refusal = add_free_cards(board, self._refusal.told())
        return False

    def _seat(self, entry: RoleTasks, area: DomainArea) -> int | None:
        """Seat one task; the row where it stands, None where no row takes it."""
        index = self._seated[entry.role.name]
        for rows in area.row_masks():
            seat = self._placer.choose(entry.task, entry.flavor, rows, self._beside_own)
            if seat is not None:
                self._hold(entry.build_allocation(self._queue, self._job, seat, entry.free_indices[index]))
                return seat.row
        return None

    def _beside_own(self, equals: Ints) -> int:
        """Of equally good rows the one where most tasks are of the job's queue; the first of equals."""
        rows, fleet = equals[:EQUALS_SEEN], self._snapshot.fleet
        if not fleet.used_pods[rows].any():
            return int(rows[0])
        own = [self._snapshot.tasks_on(fleet.nodes[row].id, self._queue.id) for row in rows.tolist()]
        return int(rows[np.argmax(own / np.maximum(1, fleet.used_pods[rows]))])

    def _hold(self, allocation: Allocation) -> None:
        self._statement.allocate(allocation)
        self._placed.append(allocation)
        self._seated[allocation.role] += 1

    def _mark(self) -> tuple[Mark, int]:
        return self._statement.checkpoint(), len(self._placed)

    def _undo(self, mark: tuple[Mark, int]) -> None:
        self._statement.rollback(mark[0])
        for allocation in self._placed[mark[1] :]:
            self._seated[allocation.role] -= 1
        del self._placed[mark[1] :]


def _only_role(job: Job) -> Role | None:
    """The role of a job whose tasks may each stand anywhere; None where there are parts or rules of place."""
    if len(job.roles) != 1 or job.sub_gangs or job.min_available is not None:
        return None
    (role,) = job.roles
    rules = (job.topology, role.topology)
    return role if all(rule is None for rule in rules) else None
