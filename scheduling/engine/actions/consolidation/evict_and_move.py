"""This module makes room for a job inside its queue's own quota where neither evictions nor moves alone
suffice.

The jobs that may be evicted can be scattered over nodes on which other jobs run that may not. Then some are
evicted, wherever they run, and the others move together onto what becomes free. The rules of preemption
decide which jobs may be evicted, as always; only the notion of room is wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from scheduling.engine.actions.consolidation.search import ConsolidationSearch
from scheduling.engine.gang.moves import MovableUnit, MovePlan, MoveSearch
from scheduling.engine.model import Decision, DecisionKind, FlavorResource, Job, Queue
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.preemption.trials.targets import Preemptor, Target
from scheduling.engine.session.session import Session

# The most checks that the search for victims makes for one set of nodes.
VICTIM_SEARCH_BUDGET = 64


class EntitledJob(NamedTuple):
    """A job that is entitled to room: the tasks of each role that it lacks, what it will be charged, and the
    board of its hardest task with the number of such tasks."""

    queue: Queue
    job: Job
    missing: dict[str, int]
    usage: dict[FlavorResource, int]
    hardest: tuple[ScoreBoard, int]

    @property
    def contested(self) -> frozenset[FlavorResource]:
        """The quota that victims would have to release for it."""
        return frozenset(key for key, amount in self.usage.items() if amount)

    @property
    def preemptor(self) -> Preemptor:
        """The job as a preemptor."""
        return Preemptor(job=self.job, queue=self.queue, usage=self.usage, contested=self.contested)


class EvictAndMovePlan(NamedTuple):
    """The victims, the allocations that they release, and the moves that become possible."""

    targets: tuple[Target, ...]
    released: tuple[str, ...]
    move_plan: MovePlan


def find_evictions_and_moves(
    session: Session, entitled: EntitledJob, consolidation: ConsolidationSearch
) -> EvictAndMovePlan | None:
    """Return the plan for the first of the cheapest nodes that can be cleared; nothing is changed."""
    if not session.victims.could_find_victims(entitled.preemptor):
        return None
    search = consolidation.new_move_search(float("inf"))
    candidates, contested = session.victims.index, entitled.contested

    def can_evict(unit: MovableUnit) -> bool:
        return unit.job.queue != entitled.queue.id and candidates.was_above_nominal(unit.job.queue, contested)

    sets = consolidation.clearable_sets(entitled.hardest, entitled.job, search, can_evict)
    for released_units in islice(sets, session.config.consolidation.max_node_sets):
        if consolidation.budget.is_spent:
            return None
        evictable_there = frozenset(unit.job.id for unit in released_units if can_evict(unit))
        # A victim elsewhere makes room for a moved job, but may use up what its queue can be asked for.
        for only in (evictable_there, None) if evictable_there else (None,):
            plan = _clear_units(session, entitled, search, released_units, only)
            if plan is not None:
                return plan
    return None


def _clear_units(
    session: Session,
    entitled: EntitledJob,
    search: MoveSearch,
    released_units: Sequence[MovableUnit],
    only: frozenset[str] | None,
) -> EvictAndMovePlan | None:
    """Clear these units away: those that may be evicted are (of `only` some jobs), the others move."""
    snapshot = session.snapshot

    def plan_moves() -> MovePlan | None:
        units = [
            unit for unit in released_units if all(task.id in snapshot.allocations for task in unit.tasks)
        ]
        return search.try_moving(entitled.queue, entitled.job, entitled.missing, units)

    found = session.victims.find_victims(
        entitled.preemptor, lambda: plan_moves() is not None, budget=VICTIM_SEARCH_BUDGET, only_jobs=only
    )
    if not found.targets:
        return None
    with snapshot.statement() as statement:
        released = tuple(
            key
            for target in found.targets
            for key in (target.tasks or tuple(held.id for held in snapshot.allocations_of(target.job)))
        )
        for key in released:
            statement.release(key)
        move_plan = plan_moves()
    return None if move_plan is None else EvictAndMovePlan(found.targets, released, move_plan)


def evict_victims(session: Session, job: Job, plan: EvictAndMovePlan) -> None:
    """Evict the victims of a plan for a job; the snapshot shows them as gone."""
    for target in plan.targets:
        held = target.tasks or tuple(task.id for task in session.snapshot.allocations_of(target.job))
        with session.snapshot.statement() as statement:
            for key in held:
                statement.release(key)
            statement.commit()
        if target.already_leaving:
            continue
        session.counters["evicted"] += 1
        session.decisions.append(
            Decision(
                kind=DecisionKind.SHRINK if target.tasks else DecisionKind.EVICT,
                job=target.job,
                rule=target.rule,
                beneficiary=job.id,
                released=held,
            )
        )
