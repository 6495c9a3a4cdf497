"""What moving others would give a waiting job, found with as little simulation as possible.

Most waiting jobs cannot be helped: too little is free, or their queue has no quota left. That is told by
arithmetic. Of the others each shape is searched once, on the nodes that lack least.
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
from scheduling.engine.placement.board import Board
from scheduling.engine.placement.index.question import members
from scheduling.engine.preemption.eviction_cost import count_cards, sum_charges, unsaved_seconds
from scheduling.engine.quota.assignment import Mode, Refusal
from scheduling.engine.session.consolidation_gain import ConsolidationGain
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import asked_of
from scheduling.engine.state.shape import TaskShape, resolve


class ConsolidationCase(NamedTuple):
    """A job that lacks nothing but room in the right places: how many more tasks of each role it needs, and
    the board of the hardest of them with how many there are. `is_countable` ones are all that it needs, and
    counting tells whether they fit."""

    queue: Queue
    job: Job
    missing: dict[str, int]
    hardest: tuple[Board, int]
    is_countable: bool


class ConsolidationSearch:
    """The search of one cycle. `searches` counts the jobs for which movers were looked at, `budget` is what
    is left of the cycle's, which several searches may share."""

    def __init__(self, session: Session, budget: SearchBudget | None = None) -> None:
        self._session = session
        self._attempt = new_start_attempt(session)
        self._bounds = SlotBounds(session.snapshot, session.placer, session.equivalence)
        # By board, what it takes to clear rows in one state.
        self._rows_known: dict[Board, tuple[object, dict[int, ClearableRow | None]]] = {}
        self._vain: set[tuple[Board, int, float]] = set()
        self.budget = budget or SearchBudget(session.config.consolidation.effort)
        self.searches = 0

    @cached_property
    def movable_tasks(self) -> MovableTasks:
        """Who may move."""
        return MovableTasks(self._session)

    def find_gain(self, queue: Queue, job: Job) -> ConsolidationGain | None:
        """The moves that open room for a job; None where none do."""
        case = self._case(queue, job)
        if case is None:
            return None
        lost = self._bearable(case)
        if lost <= 0:
            return None
        key = (*case.hardest, lost)
        if case.is_countable and key in self._vain:
            return None
        self.searches += 1
        opening = self._opened(case, lost)
        if opening is None or not opening.moves:
            self._vain.add(key)
            return None
        return compute_gain(self._session, opening)

    def new_move_search(self, max_eviction_cost: float) -> MoveSearch:
        """A search for moves that lose no more GPU-seconds and keep to the cycle's bounds."""
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
        self, hardest: tuple[Board, int], job: Job, search: MoveSearch, can_evict: CanEvict | None = None
    ) -> Iterable[tuple[MovableUnit, ...]]:
        """What would have to leave together on the nodes that are cheapest to clear for a job.

        Units that `can_evict` accepts need no other place; without it all must find one.
        """
        board, needed = hardest
        counted = self._bounds.slot_counts(board)
        shelter = (
            RelocationCapacity(counted, needed, self._bounds.reachable_rows(board.question.flavor))
            if can_evict is None
            else None
        )
        units, holds = self.movable_tasks.units_for(job), self._session.snapshot.holds(job.id)
        # What may be evicted differs from job to job, and a job never moves for itself.
        known = self._find_known_rows(board) if can_evict is None and not holds else {}
        return find_clearable_sets(counted, needed, units, search.within_bounds, shelter, can_evict, known)

    def _find_known_rows(self, board: Board) -> dict[int, ClearableRow | None]:
        """What it takes to clear rows for tasks of a board, as far as that was worked out in this state."""
        state = (self._session.snapshot.state(), self.movable_tasks.excluded_jobs)
        known = self._rows_known.get(board)
        if known is None or known[0] != state:
            known = self._rows_known[board] = state, {}
        return known[1]

    # Which jobs can be helped at all

    def _case(self, queue: Queue, job: Job) -> ConsolidationCase | None:
        """None where moving others cannot help the job, as far as that is told without looking at them."""
        more, wanted = self._bounds.find_missing(queue, job)
        if not more:
            return None
        if wanted is None:
            return self._mixed(queue, job, more)
        known = [
            each
            for each in wanted
            if self._bounds.has_free_cores(*each) and self._affordable(queue, job, more, each)
        ]
        assignment = self._attempt.assign_quota(queue, job, more) if known else None
        if assignment is None or assignment.mode is not Mode.FIT:
            return None
        given = {name for role in assignment.roles for name in role.flavors}
        mine: WantedSlots = tuple(each for each in known if each[0].question.flavor.id in given)
        if not mine or self._bounds.fits_now(mine[:1]):
            return None
        return ConsolidationCase(queue, job, more, mine[0], True)

    def _affordable(self, queue: Queue, job: Job, more: dict[str, int], wanted: tuple[Board, int]) -> bool:
        """Whether quota may be free, by a first look at what is available."""
        tree = self._session.snapshot.quota
        for key, amount in asked_of(job, more, wanted[0].question.flavor).items():
            available = tree.available(queue.quota_node, key)
            if available is not None and available < amount:
                return False
        return True

    def _mixed(self, queue: Queue, job: Job, more: dict[str, int]) -> ConsolidationCase | None:
        """A job of which counting does not tell whether it fits: it is tried."""
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

    # Movers

    def _opened(self, case: ConsolidationCase, lost: float) -> MovePlan | None:
        search, options = self.new_move_search(lost), self._session.config.consolidation
        queue, job, more = case.queue, case.job, case.missing
        if options.cheapest_first:
            found = search.find_first_plan(queue, job, more, self.clearable_sets(case.hardest, job, search))
            # Where nodes are many, what was not found on those that lack least would be luck.
            if found is not None or (case.is_countable and len(self._session.snapshot.fleet) > NODES_SEEN):
                return found
        movers = (
            unit
            for unit in self.movable_tasks.find_units_touching(self._near(case), job)
            if unit.eviction_cost <= lost
        )
        return search.find_plan(queue, job, more, movers, FreedCoreBound(*case.hardest).add_unit)

    def _near(self, case: ConsolidationCase) -> Iterable[str]:
        """The nodes that lack least for a job; all of its flavors' nodes where they are few."""
        fleet, flavors = self._session.snapshot.fleet, self._session.snapshot.flavors
        if len(fleet) > NODES_SEEN and self._session.config.consolidation.cheapest_first:
            return [
                fleet.nodes[row].id
                for row in find_nearest_rows(self._bounds.slot_counts(case.hardest[0]), case.hardest[1])
            ]
        names = {name for group in case.queue.groups for name in group.flavors}
        placed = [
            flavor for name in sorted(names) if (flavor := flavors.get(name)) is not None and flavor.placed
        ]
        rows = np.flatnonzero(np.any([members(fleet, flavor) for flavor in placed], axis=0))
        return [fleet.nodes[row].id for row in rows]

    def _bearable(self, case: ConsolidationCase) -> float:
        """The most GPU-seconds that movers may lose for a case."""
        bound = self._session.config.consolidation.loss_s
        if bound is None:
            return float("inf")
        asked = asked_of(case.job, case.missing, case.hardest[0].question.flavor)
        return count_cards(asked) * bound if would_borrow(self._session, case.queue, asked) else float("inf")


def new_start_attempt(session: Session) -> StartAttempt:
    """How a job is tried in a session without asking anybody to leave."""
    options = session.config.preemption
    return StartAttempt(session.snapshot, session.placer, options.eviction_cap, options.beside_capped)


def would_borrow(session: Session, queue: Queue, asked: dict[FlavorResource, int]) -> bool:
    """Whether the queue would be a borrower with this much more."""
    tree = session.snapshot.quota
    return any(tree.borrows(queue.quota_node, key, amount) for key, amount in asked.items())


def first_placed_flavor(session: Session, queue: Queue) -> Flavor | None:
    """The queue's first flavor that has nodes."""
    names = (name for group in queue.groups for name in group.flavors)
    known = (session.snapshot.flavors.get(name) for name in names)
    return next((flavor for flavor in known if flavor is not None and flavor.placed), None)


def find_hardest_task(
    session: Session, job: Job, more: dict[str, int], flavor: Flavor
) -> tuple[Board, int] | None:
    """The board of the hardest task that the job lacks, and how many such tasks it lacks."""
    counted: Counter[TaskShape] = Counter()
    for role in job.roles:
        if more.get(role.name):
            counted[resolve(role.request, job.rules_of(role), flavor)] += more[role.name]
    hardest = max(
        counted, key=lambda shape: (shape.whole, shape.cards * shape.cores, shape.cpu), default=None
    )
    return None if hardest is None else (session.placer.board(hardest, flavor), counted[hardest])


def compute_gain(session: Session, opening: MovePlan) -> ConsolidationGain:
    """What an opening gives and costs."""
    jobs = {move.before.job for move in opening.moves}
    return ConsolidationGain(
        cards=sum(len(seat.slices) for seat in opening.allocations),
        tasks=len(opening.moves),
        jobs=len(jobs),
        gpu_seconds=sum(
            count_cards(sum_charges((move.before,)))
            * unsaved_seconds(session.get_job(move.before.job), session.now)
            for move in opening.moves
        ),
        plan=opening,
    )
