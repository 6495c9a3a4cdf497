"""This module looks up which running tasks may be moved for others, by node.

Nothing is computed for jobs on nodes that no search examines: on a large fleet those are nearly all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from scheduling.engine.actions.consolidation.node_occupancy import SoleOccupancy, node_occupancy_of
from scheduling.engine.gang.clearable_nodes import MovableUnits, rank_unit
from scheduling.engine.gang.moves import MovablePart, MovableUnit
from scheduling.engine.model import RELEASING_KINDS, Job
from scheduling.engine.preemption.candidates.eviction_cost import running_seconds, unsaved_seconds
from scheduling.engine.quota.shortage import is_eviction_capped
from scheduling.engine.session.session import Session


class MovableTasks:
    """The units that may move in one cycle: no job moves twice, and none that the cycle evicts."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._occupancy = node_occupancy_of(session.snapshot)
        self._excluded = {decision.job for decision in session.decisions if decision.kind in RELEASING_KINDS}
        # The units that may move, by the node on which all their tasks run.
        self._units: dict[str, tuple[SoleOccupancy, tuple[MovableUnit, ...]]] = {}

    @property
    def excluded_jobs(self) -> int:
        """The number of jobs that stay where they are because a decision of the cycle changes them."""
        return len(self._excluded)

    def exclude_jobs(self, jobs: Iterable[str]) -> None:
        """Exclude these jobs from now on."""
        self._excluded.update(jobs)
        self._units.clear()

    def units_for(self, job: Job, *, whole: bool) -> MovableUnits:
        """Return the units that may move in the present state for a job of whole cards or of parts."""
        self._occupancy.follow_changes()
        return MovableUnits(partial(self._units_only_on, job=job), partial(self._count_freeable, whole=whole))

    def find_units_touching(self, nodes: Iterable[str], job: Job) -> list[MovableUnit]:
        """Return the units with a task on one of these nodes that may move for a job, in the order in which
        they are released."""
        self._occupancy.follow_changes()
        node_ids, jobs = set(nodes), self._session.snapshot.jobs
        candidates = dict.fromkeys(name for node in node_ids for name in self._occupancy.jobs_on(node))
        found = [
            self._unit(jobs[job_id], part)
            for job_id in candidates
            for part in self._occupancy.parts_of_job(job_id)
            if job_id != job.id
            and self._may_move(jobs[job_id])
            and any(task.node in node_ids for task in part.tasks)
        ]
        return sorted(found, key=_cheapest if self._session.config.consolidation.cheapest_first else _newest)

    def _units_only_on(self, node: str, job: Job) -> Sequence[MovableUnit]:
        alone, known = self._occupancy.sole_occupancy(node), self._units.get(node)
        if known is None or known[0] is not alone:
            units = [
                self._unit(candidate, part) for candidate, part in alone.parts if self._may_move(candidate)
            ]
            known = self._units[node] = alone, tuple(sorted(units, key=rank_unit))
        return [unit for unit in known[1] if unit.job.id != job.id]

    def _count_freeable(self, node: str, *, whole: bool) -> int:
        alone = self._occupancy.sole_occupancy(node)
        return alone.cards if whole else alone.cores

    def _unit(self, job: Job, part: MovablePart) -> MovableUnit:
        return MovableUnit(job, part, part.gpus * unsaved_seconds(job, self._session.now))

    def _may_move(self, candidate: Job) -> bool:
        """Return whether a job may be moved: no decision of this cycle changes it, and no protection or
        eviction cap covers it."""
        if candidate.id in self._excluded:
            return False
        session = self._session
        is_protected = (
            candidate.min_run_s is not None and running_seconds(candidate, session.now) < candidate.min_run_s
        )
        return not is_protected and not is_eviction_capped(candidate, session.config.preemption.eviction_cap)


def _newest(unit: MovableUnit) -> tuple[int, float, str]:
    return (unit.job.priority, -unit.job.submitted_at, unit.job.id)


def _cheapest(unit: MovableUnit) -> tuple[int, float, float, str]:
    return (unit.job.priority, unit.eviction_cost, -unit.job.submitted_at, unit.job.id)
