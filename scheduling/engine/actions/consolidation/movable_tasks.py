"""Which running tasks may be moved for others, looked up where they stand.

Nothing is worked out for jobs on whose nodes nobody looks: on a large fleet those are nearly all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduling.engine.actions.consolidation.node_occupancy import SoleOccupancy, node_occupancy_of
from scheduling.engine.gang.clearable_nodes import rank_unit
from scheduling.engine.gang.moves import MovablePart, MovableUnit
from scheduling.engine.model import DecisionKind, Job
from scheduling.engine.preemption.eviction_cost import running_seconds, unsaved_seconds
from scheduling.engine.quota.verdict import capped
from scheduling.engine.session.session import Session

CHANGED_BY_DECISION = (DecisionKind.EVICT, DecisionKind.SHRINK, DecisionKind.MIGRATE)


class MovableTasks:
    """The units that may move in one cycle: nobody moves twice, and nobody who was told to leave."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._occupants = node_occupancy_of(session.snapshot)
        self._told = {decision.job for decision in session.decisions if decision.kind in CHANGED_BY_DECISION}
        # By node, of what stands there alone the units that may move.
        self._units: dict[str, tuple[SoleOccupancy, tuple[MovableUnit, ...]]] = {}

    @property
    def excluded_jobs(self) -> int:
        """How many jobs stay where they are because a decision of the cycle names them."""
        return len(self._told)

    def exclude_jobs(self, jobs: Iterable[str]) -> None:
        """These stay where they are from now on."""
        self._told.update(jobs)
        self._units.clear()

    def units_for(self, job: Job) -> JobMovableUnits:
        """Those who may move for a job, as things stand."""
        self._occupants.follow_changes()
        return JobMovableUnits(self, job)

    def find_units_touching(self, nodes: Iterable[str], job: Job) -> list[MovableUnit]:
        """Units with a task on one of these nodes that may move for a job, in the order of taking them up."""
        self._occupants.follow_changes()
        near, jobs = set(nodes), self._session.snapshot.jobs
        movers = dict.fromkeys(name for node in near for name in self._occupants.jobs_on(node))
        found = [
            self._unit(jobs[job_id], part)
            for job_id in movers
            for part in self._occupants.parts_of_job(job_id)
            if job_id != job.id
            and self._may_move(jobs[job_id])
            and any(task.node in near for task in part.tasks)
        ]
        return sorted(found, key=_cheapest if self._session.config.consolidation.cheapest_first else _newest)

    def units_only_on(self, node: str, job: Job) -> Sequence[MovableUnit]:
        """Units of which all tasks stand on a node and that may move for a job, the cheapest first."""
        alone, known = self._occupants.sole_occupancy(node), self._units.get(node)
        if known is None or known[0] is not alone:
            units = [self._unit(mover, part) for mover, part in alone.parts if self._may_move(mover)]
            known = self._units[node] = alone, tuple(sorted(units, key=rank_unit))
        return [unit for unit in known[1] if unit.job.id != job.id]

    def max_freeable(self, node: str, *, whole: bool) -> int:
        """How many cards or core units are free at most when all units are gone that stand there alone."""
        alone = self._occupants.sole_occupancy(node)
        return alone.cards if whole else alone.cores

    def _unit(self, job: Job, part: MovablePart) -> MovableUnit:
        return MovableUnit(job, part, part.gpus * unsaved_seconds(job, self._session.now))

    def _may_move(self, mover: Job) -> bool:
        """Whether the mover was told nothing yet and is none that may not be asked to leave, or not yet."""
        if mover.id in self._told:
            return False
        session = self._session
        guarded = mover.min_run_s is not None and running_seconds(mover, session.now) < mover.min_run_s
        return not guarded and not capped(mover, session.config.preemption.eviction_cap)


class JobMovableUnits(NamedTuple):
    """Who may move for one job."""

    movable_tasks: MovableTasks
    job: Job

    def units_only_on(self, node: str) -> Sequence[MovableUnit]:
        """Units of which all tasks stand on a node, the cheapest first."""
        return self.movable_tasks.units_only_on(node, self.job)

    def max_freeable(self, node: str, *, whole: bool) -> int:
        """How many cards or core units become free there at most."""
        return self.movable_tasks.max_freeable(node, whole=whole)


def _newest(unit: MovableUnit) -> tuple[int, float, str]:
    return (unit.job.priority, -unit.job.submitted_at, unit.job.id)


def _cheapest(unit: MovableUnit) -> tuple[int, float, float, str]:
    return (unit.job.priority, unit.eviction_cost, -unit.job.submitted_at, unit.job.id)
