"""This module finds what moving others would give a pending job, with as little simulation as possible.

Most pending jobs cannot be helped: too little is free, or their queue has no quota left, and arithmetic shows
both. Of the others each shape is searched once, on the nodes that lack least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from scheduling.engine.actions.consolidation.movable_tasks import MovableTasks
from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.bounds import SlotBounds, WantedSlots
from scheduling.engine.gang.clearable_nodes import (
    NODES_SEEN,
    CanEvict,
    ClearableRow,
    FreedCoreBound,
    RelocationCapacity,
    find_clearable_sets,
    find_nearest_rows,
)
from scheduling.engine.gang.moves import MovableUnit, MovePlan, MoveSearch, SearchBudget
from scheduling.engine.model import Flavor, FlavorResource, Job, Queue, Reason
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.index.question import member_rows
from scheduling.engine.preemption.candidates.eviction_cost import count_cards, unsaved_seconds
from scheduling.engine.preemption.trials.slot_counts import get_slot_counts
from scheduling.engine.quota.assignment import AssignmentMode, Refusal
from scheduling.engine.session.consolidation_gain import ConsolidationGain
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import compute_job_demand, sum_task_charges
from scheduling.engine.state.task_shape import TaskShape, resolve_shape


class ConsolidationCase(NamedTuple):
    """A job that lacks nothing but room in the right places: the tasks of each role that it lacks, and the
    board of the hardest of them with their number. It is countable if these are all that it lacks and
    counting decides whether they fit."""

    queue: Queue
    job: Job
    missing: dict[str, int]
    hardest: tuple[ScoreBoard, int]
    is_countable: bool


class ConsolidationSearch:
    """The search of one cycle. `searches` counts the jobs for which movable tasks were examined; `budget` may
    be shared by several searches."""

    def __init__(self, session: Session, budget: SearchBudget | None = None) -> None:
        self._session = session
        self._attempt = new_start_attempt(session)
        self._bounds = SlotBounds(session.snapshot, session.placer, session.equivalence.class_of)
        # The units to clear from rows, by board, for one state.
        self._rows_known: dict[ScoreBoard, tuple[object, dict[int, ClearableRow | None]]] = {}
        self._failed: set[tuple[ScoreBoard, int, float]] = set()
        self.budget = budget or SearchBudget(session.config.consolidation.placement_budget)
        self.searches = 0

    @cached_property
    def movable_tasks(self) -> MovableTasks:
        """The tasks that may move in this cycle."""
        return MovableTasks(self._session)

    def find_gain(self, queue: Queue, job: Job) -> ConsolidationGain | None:
        """Return the moves that make a job fit, with their gain; None if there are none."""
        case = self._case(queue, job)
        if case is None:
            return None
        max_cost = self._max_eviction_cost(case)
        if max_cost <= 0:
            return None
        key = (*case.hardest, max_cost)
        if case.is_countable and key in self._failed:
            return None
        self.searches += 1
        plan = self._find_plan(case, max_cost)
        if plan is None or not plan.moves:
            self._failed.add(key)
            return None
        return compute_gain(self._session, plan)

    def new_move_search(self, max_eviction_cost: float) -> MoveSearch:
        """Return a search for moves of at most this many GPU-seconds, within the cycle's bounds."""
        options = self._session.config.consolidation
        return MoveSearch(
            self._session.snapshot,
            self._attempt,
            max_jobs=options.jobs_per_move,
            max_tasks=options.moves_per_cycle - self._session.counters["moved"],
            max_eviction_cost=max_eviction_cost,
            budget=self.budget,
        )

    def clearable_sets(
        self, hardest: tuple[ScoreBoard, int], job: Job, search: MoveSearch, can_evict: CanEvict | None = None
    ) -> Iterable[tuple[MovableUnit, ...]]:
        """Return sets of units that would be evicted together from the nodes that are cheapest to clear for
        a job.

        Units that `can_evict` accepts need no other place; without it all units must find one.
        """
        board, needed = hardest
        counted = get_slot_counts(board)
        relocation = (
            RelocationCapacity(counted, needed, self._bounds.reachable_rows(board.question.flavor))
            if can_evict is None
            else None
        )
        units = self.movable_tasks.units_for(job, whole=board.question.task.whole)
        holds = self._session.snapshot.count_tasks(job.id)
        # The units that may be evicted differ from job to job, and a job never moves for itself.
        known = self._find_known_rows(board) if can_evict is None and not holds else {}
        return find_clearable_sets(counted, needed, units, search.within_bounds, relocation, can_evict, known)

    def _find_known_rows(self, board: ScoreBoard) -> dict[int, ClearableRow | None]:
        """Return the units to clear from rows for a board's tasks that were computed in this state."""
        state = (self._session.snapshot.usage_version(), self.movable_tasks.excluded_jobs)
        known = self._rows_known.get(board)
        if known is None or known[0] != state:
            known = self._rows_known[board] = state, {}
        return known[1]

    # Jobs that can be helped

    def _case(self, queue: Queue, job: Job) -> ConsolidationCase | None:
        """Return the case of a job, or None if moving others cannot help it, as far as that is known without
        examining them."""
        more, wanted = self._bounds.find_missing(queue, job)
        if not more:
            return None
        if wanted is None:
            return self._mixed_case(queue, job, more)
        known = [
            each
            for each in wanted
            if self._bounds.has_free_cores(*each) and self._may_afford(queue, job, more, each)
        ]
        assignment = self._attempt.assign_quota(queue, job, more) if known else None
        if assignment is None or assignment.mode is not AssignmentMode.FIT:
            return None
        given = {name for role in assignment.roles for name in role.flavors}
        mine: WantedSlots = tuple(each for each in known if each[0].question.flavor.id in given)
        if not mine or self._bounds.fits_now(mine[:1]):
            return None
        return ConsolidationCase(queue, job, more, mine[0], True)

    def _may_afford(
        self, queue: Queue, job: Job, more: dict[str, int], wanted: tuple[ScoreBoard, int]
    ) -> bool:
        """Return whether quota may be free, by a first look at what is available."""
        tree = self._session.snapshot.quota
        for key, amount in compute_job_demand(job, more, wanted[0].question.flavor).items():
            available = tree.available(queue.quota_node, key)
            if available is not None and available < amount:
                return False
        return True

    def _mixed_case(self, queue: Queue, job: Job, more: dict[str, int]) -> ConsolidationCase | None:
        """Return the case of a job that counting does not decide: it is tried."""
        flavor = first_placed_flavor(self._session, queue)
        hardest = None if flavor is None else find_hardest_task(self._session, job, more, flavor)
        if (
            hardest is None
            or not self._bounds.has_free_cores(*hardest)
            or not self.budget.spend_tasks(sum(more.values()))
        ):
            return None
        with self._session.snapshot.statement() as statement:
            found = self._attempt.start_job(statement, queue, job, more)
        lacks_room = isinstance(found, Refusal) and found.reason is Reason.NO_ROOM
        return ConsolidationCase(queue, job, more, hardest, False) if lacks_room else None

    # Move plans

    def _find_plan(self, case: ConsolidationCase, max_cost: float) -> MovePlan | None:
        search, options = self.new_move_search(max_cost), self._session.config.consolidation
        queue, job, more = case.queue, case.job, case.missing
        if options.cheapest_first:
            found = search.find_first_plan(queue, job, more, self.clearable_sets(case.hardest, job, search))
            # On a large fleet a plan beyond the nearest nodes would be luck.
            if found is not None or (case.is_countable and len(self._session.snapshot.fleet) > NODES_SEEN):
                return found
        candidate_units = (
            unit
            for unit in self.movable_tasks.find_units_touching(self._nearest_nodes(case), job)
            if unit.eviction_cost <= max_cost
        )
        return search.find_plan(queue, job, more, candidate_units, FreedCoreBound(*case.hardest).add_unit)

    def _nearest_nodes(self, case: ConsolidationCase) -> Iterable[str]:
        """Return the nodes that lack least for a job; all of its flavors' nodes if they are few."""
        fleet, flavors = self._session.snapshot.fleet, self._session.snapshot.flavors
        if len(fleet) > NODES_SEEN and self._session.config.consolidation.cheapest_first:
            return [
                fleet.nodes[row].id
                for row in find_nearest_rows(get_slot_counts(case.hardest[0]), case.hardest[1])
            ]
        names = {name for group in case.queue.effective_groups for name in group.flavors}
        placed = [
            flavor for name in sorted(names) if (flavor := flavors.get(name)) is not None and flavor.placed
        ]
        rows = np.flatnonzero(np.any([member_rows(fleet, flavor) for flavor in placed], axis=0))
        return [fleet.nodes[row].id for row in rows]

    def _max_eviction_cost(self, case: ConsolidationCase) -> float:
        """Return the most GPU-seconds that moved jobs may repeat for a case."""
        bound = self._session.config.consolidation.max_loss_s
        if bound is None:
            return float("inf")
        asked = compute_job_demand(case.job, case.missing, case.hardest[0].question.flavor)
        return count_cards(asked) * bound if would_borrow(self._session, case.queue, asked) else float("inf")


def new_start_attempt(session: Session) -> StartAttempt:
    """Return an attempt to start a job in this session without victims."""
    options = session.config.preemption
    return StartAttempt(
        session.snapshot, session.placer, options.eviction_cap, options.nominal_counts_unevictable_only
    )


def would_borrow(session: Session, queue: Queue, asked: dict[FlavorResource, int]) -> bool:
    """Return whether the queue would borrow with this usage added."""
    tree = session.snapshot.quota
    return any(tree.borrows(queue.quota_node, key, amount) for key, amount in asked.items())


def first_placed_flavor(session: Session, queue: Queue) -> Flavor | None:
    """Return the queue's first flavor that has nodes."""
    names = (name for group in queue.effective_groups for name in group.flavors)
    known = (session.snapshot.flavors.get(name) for name in names)
    return next((flavor for flavor in known if flavor is not None and flavor.placed), None)


def find_hardest_task(
    session: Session, job: Job, more: dict[str, int], flavor: Flavor
) -> tuple[ScoreBoard, int] | None:
    """Return the board of the hardest task that the job lacks, and the number of such tasks."""
    counted: Counter[TaskShape] = Counter()
    for role in job.roles:
        if more.get(role.name):
            counted[resolve_shape(role.request, job.rules_of(role), flavor)] += more[role.name]
    hardest = max(
        counted, key=lambda shape: (shape.whole, shape.cards * shape.cores, shape.cpu), default=None
    )
    return None if hardest is None else (session.placer.get_board(hardest, flavor), counted[hardest])


def compute_gain(session: Session, plan: MovePlan) -> ConsolidationGain:
    """Return what a move plan gives and costs."""
    jobs = {move.before.job for move in plan.moves}
    return ConsolidationGain(
        cards=sum(len(allocation.slices) for allocation in plan.allocations),
        tasks=len(plan.moves),
        jobs=len(jobs),
        gpu_seconds=sum(
            count_cards(sum_task_charges((move.before,)))
            * unsaved_seconds(session.get_job(move.before.job), session.now)
            for move in plan.moves
        ),
        plan=plan,
    )
