"""Which running tasks may be moved for others, looked up where they stand.

Nothing is worked out for jobs on whose nodes nobody looks: on a large fleet those are nearly all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from scheduling.engine.actions.occupants import occupants_of
from scheduling.engine.gang.moves import MovablePart, MovableUnit
from scheduling.engine.model import DecisionKind, Job
from scheduling.engine.preemption.loss import running_for, unsaved
from scheduling.engine.quota.verdict import capped
from scheduling.engine.session.session import Session

TOLD = (DecisionKind.EVICT, DecisionKind.SHRINK, DecisionKind.MIGRATE)


class Movers:
    """The units that may move in one cycle: nobody moves twice, and nobody who was told to leave."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._occupants = occupants_of(session.snapshot)
        self._told = {decision.job for decision in session.decisions if decision.kind in TOLD}

    def told(self, jobs: Iterable[str]) -> None:
        """These stay where they are from now on."""
        self._told.update(jobs)

    def beside(self, job: Job) -> Beside:
        """Those who may move for a job, as things stand."""
        self._occupants.follow()
        return Beside(self, job)

    def touching(self, nodes: Iterable[str], job: Job) -> list[MovableUnit]:
        """Units with a task on one of these nodes that may move for a job, in the order of taking them up."""
        self._occupants.follow()
        near, jobs = set(nodes), self._session.snapshot.jobs
        movers = dict.fromkeys(name for node in near for name in self._occupants.on(node))
        found = [
            self._unit(jobs[job_id], part)
            for job_id in movers
            for part in self._occupants.parts(job_id)
            if self._may_move(jobs[job_id], job) and any(task.node in near for task in part.tasks)
        ]
        return sorted(found, key=_cheapest if self._session.config.consolidation.cheapest_first else _newest)

    def units_only_on(self, node: str, job: Job) -> list[MovableUnit]:
        """Units of which all tasks stand on a node and that may move for a job."""
        parts = self._occupants.alone(node).parts
        return [self._unit(mover, part) for mover, part in parts if self._may_move(mover, job)]

    def max_freeable(self, node: str, *, whole: bool) -> int:
        """How many cards or core units are free at most when all units are gone that stand there alone."""
        alone = self._occupants.alone(node)
        return alone.cards if whole else alone.cores

    def _unit(self, job: Job, part: MovablePart) -> MovableUnit:
        return MovableUnit(job, part, part.gpus * unsaved(job, self._session.now))

    def _may_move(self, mover: Job, job: Job) -> bool:
        """Whether the mover was told nothing yet and is none that may not be asked to leave, or not yet."""
        if mover.id in self._told or mover.id == job.id:
            return False
        session = self._session
        guarded = mover.min_run_s is not None and running_for(mover, session.now) < mover.min_run_s
        return not guarded and not capped(mover, session.config.preemption.eviction_cap)


class Beside(NamedTuple):
    """Who may move for one job."""

    movers: Movers
    job: Job

    def units_only_on(self, node: str) -> list[MovableUnit]:
        """Units of which all tasks stand on a node."""
        return self.movers.units_only_on(node, self.job)

    def max_freeable(self, node: str, *, whole: bool) -> int:
        """How many cards or core units become free there at most."""
        return self.movers.max_freeable(node, whole=whole)


def _newest(unit: MovableUnit) -> tuple[int, float, str]:
    return (unit.job.priority, -unit.job.submitted_at, unit.job.id)


def _cheapest(unit: MovableUnit) -> tuple[int, float, float, str]:
    return (unit.job.priority, unit.eviction_cost, -unit.job.submitted_at, unit.job.id)
