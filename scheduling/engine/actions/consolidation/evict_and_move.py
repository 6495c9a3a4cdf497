"""Room for a job inside its queue's nominal where neither evictions nor moves alone would open it.

What may be asked to leave can stand scattered over nodes on which others run whom nobody may evict. Then
some leave, wherever they stand, and the others move together into what they leave. Who may be asked is
decided by the rules of preemption as always; only what counts as room is wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from scheduling.engine.actions.consolidation.search import ConsolidationSearch
from scheduling.engine.gang.moves import MovableUnit, MovePlan, MoveSearch
from scheduling.engine.model import Decision, DecisionKind, FlavorResource, Job, Queue
from scheduling.engine.placement.board import Board
from scheduling.engine.preemption.targets import Preemptor, Target
from scheduling.engine.session.session import Session

# How often the search for victims of one set of nodes looks whether that is enough.
VICTIM_SEARCH_BUDGET = 64


class EntitledJob(NamedTuple):
    """A job that has a right to room: how many more tasks of each role it needs, what it will be charged,
    and the board of its hardest task with how many of them there are."""

    queue: Queue
    job: Job
    missing: dict[str, int]
    usage: dict[FlavorResource, int]
    hardest: tuple[Board, int]

    @property
    def contested(self) -> frozenset[FlavorResource]:
        """What others would have to give up for it."""
        return frozenset(key for key, amount in self.usage.items() if amount)

    @property
    def preemptor(self) -> Preemptor:
        """It as one for which others may be asked to leave."""
        return Preemptor(job=self.job, queue=self.queue, usage=self.usage, contested=self.contested)


class EvictAndMovePlan(NamedTuple):
    """Who leaves, what they give up, and what moves then open."""

    targets: tuple[Target, ...]
    released: tuple[str, ...]
    move_plan: MovePlan


def find_evictions_and_moves(
    session: Session, entitled: EntitledJob, consolidation: ConsolidationSearch
) -> EvictAndMovePlan | None:
    """The first of the nodes that are cheapest to clear for which it works; changes nothing."""
    if not session.victims.could_find_victims(entitled.preemptor):
        return None
    search = consolidation.new_move_search(float("inf"))
    roster, contested = session.victims.index, entitled.contested

    def gives(unit: MovableUnit) -> bool:
        return unit.job.queue != entitled.queue.id and roster.was_above_nominal(unit.job.queue, contested)

    sets = consolidation.clearable_sets(entitled.hardest, entitled.job, search, gives)
    for taken in islice(sets, session.config.consolidation.ways_tried):
        if consolidation.budget.is_spent:
            return None
        here = frozenset(unit.job.id for unit in taken if gives(unit))
        # Whoever leaves elsewhere makes room for one that moves, but may use up what its queue has to give.
        for only in (here, None) if here else (None,):
            way = _cleared(session, entitled, search, taken, only)
            if way is not None:
                return way
    return None


def _cleared(
    session: Session,
    wanting: EntitledJob,
    search: MoveSearch,
    taken: Sequence[MovableUnit],
    only: frozenset[str] | None,
) -> EvictAndMovePlan | None:
    """Clear these units away: of `only` some jobs, or of all, those who may be asked leave, others move."""
    snapshot = session.snapshot

    def opened() -> MovePlan | None:
        staying = [unit for unit in taken if all(task.id in snapshot.allocations for task in unit.tasks)]
        return search.try_moving(wanting.queue, wanting.job, wanting.missing, staying)

    found = session.victims.find_victims(
        wanting.preemptor, lambda: opened() is not None, budget=VICTIM_SEARCH_BUDGET, only_jobs=only
    )
    if not found.targets:
        return None
    with snapshot.statement() as statement:
        released = tuple(
            key
            for target in found.targets
            for key in (target.tasks or tuple(held.id for held in snapshot.held(target.job)))
        )
        for key in released:
            statement.release(key)
        opening = opened()
    return None if opening is None else EvictAndMovePlan(found.targets, released, opening)


def evict_victims(session: Session, job: Job, way: EvictAndMovePlan) -> None:
    """Tell the victims to leave for a job; the snapshot shows them gone."""
    for target in way.targets:
        held = target.tasks or tuple(task.id for task in session.snapshot.held(target.job))
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
