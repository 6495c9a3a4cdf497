"""Which running tasks may be moved for others, looked up where they stand.

Nothing is worked out for jobs on whose nodes nobody looks: on a large fleet those are nearly all.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from scheduling.engine.actions.occupants import Occupants, occupants_of
from scheduling.engine.gang.moves import Part, Unit, parts_of
from scheduling.engine.model import Allocation, DecisionKind, Job, JobState
from scheduling.engine.preemption.loss import running_for, unsaved
from scheduling.engine.quota.verdict import capped

if TYPE_CHECKING:
    from scheduling.engine.session import Session

TOLD = (DecisionKind.EVICT, DecisionKind.SHRINK, DecisionKind.MIGRATE)
KEPT = 1024

_Parts = dict[str, tuple[Job, tuple[Allocation, ...], tuple[Part, ...]]]


class Movers:
    """The units that may move in one cycle: nobody moves twice, and nobody who was told to leave."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._units: dict[str, tuple[Unit, ...]] = {}
        self._parts = _parts_kept(session)
        self._told = {decision.job for decision in session.decisions if decision.kind in TOLD}

    def told(self, jobs: Iterable[str]) -> None:
        """These stay where they are from now on."""
        self._told.update(jobs)

    def touching(self, nodes: Iterable[str], job: Job) -> list[Unit]:
        """Units with a task on one of these nodes that may move for a job, in the order of taking them up."""
        near = set(nodes)
        found = [
            unit
            for job_id in dict.fromkeys(name for node in near for name in self._occupants.on(node))
            for unit in self._of(job_id)
            if job_id != job.id and any(task.node in near for task in unit.tasks)
        ]
        return sorted(found, key=_cheapest if self._session.config.consolidation.cheapest_first else _newest)

    def standing_on(self, node: str, job: Job) -> list[Unit]:
        """Units of which all tasks stand on a node and that may move for a job."""
        return [
            unit
            for job_id in self._occupants.on(node)
            for unit in self._of(job_id)
            if unit.part.node == node and job_id != job.id
        ]

    @cached_property
    def _occupants(self) -> Occupants:
        """Who stood where when this was first asked."""
        return occupants_of(self._session.snapshot)

    def _of(self, job_id: str) -> tuple[Unit, ...]:
        if job_id in self._told:
            return ()
        known = self._units.get(job_id)
        if known is None:
            job, now = self._session.snapshot.jobs.get(job_id), self._session.now
            known = ()
            if job is not None and self._may_move(job):
                again_s = unsaved(job, now)
                known = tuple(Unit(job, part, part.gpus * again_s) for part in self._parts_of(job))
            self._units[job_id] = known
        return known

    def _parts_of(self, job: Job) -> tuple[Part, ...]:
        """The parts of a job; kept from cycle to cycle for those of which nothing came or went."""
        held = self._session.snapshot.held(job.id)
        known = self._parts.get(job.id)
        if known is None or known[0] is not job or known[1] is not held:
            staying = [task for task in held if not task.leaving]
            known = self._parts[job.id] = (job, held, tuple(parts_of(job, staying)))
        return known[2]

    def _may_move(self, job: Job) -> bool:
        """Whether the job is none that may not be asked to leave, or not yet."""
        session = self._session
        guarded = job.min_run_s is not None and running_for(job, session.now) < job.min_run_s
        free = job.state is JobState.LIVE and job.preemptible and job.movable and not guarded
        return free and not capped(job, session.config.preemption.eviction_cap)


def _parts_kept(session: Session) -> _Parts:
    memo = session.snapshot.job_memo
    known = memo.get(Movers)
    if not isinstance(known, dict) or len(known) > KEPT + 2 * len(session.snapshot.jobs):
        known = memo[Movers] = {}
    return known


def _newest(unit: Unit) -> tuple[int, float, str]:
    return (unit.job.priority, -unit.job.submitted_at, unit.job.id)


def _cheapest(unit: Unit) -> tuple[int, float, float, str]:
    return (unit.job.priority, unit.lost, -unit.job.submitted_at, unit.job.id)
