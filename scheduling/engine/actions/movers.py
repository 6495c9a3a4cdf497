"""Which running tasks may be moved for others, looked up where they stand.

Nothing is worked out for jobs on whose nodes nobody looks: on a large fleet those are nearly all.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from scheduling.engine.gang.moves import Unit, units_of
from scheduling.engine.model import DecisionKind, Job, JobState
from scheduling.engine.preemption.loss import running_for, unsaved
from scheduling.engine.quota.verdict import capped

if TYPE_CHECKING:
    from scheduling.engine.session import Session

TOLD = (DecisionKind.EVICT, DecisionKind.SHRINK, DecisionKind.MIGRATE)


class Movers:
    """The units that may move in one cycle: nobody moves twice, and nobody who was told to leave."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._units: dict[str, tuple[Unit, ...]] = {}
        self._told = {decision.job for decision in session.decisions if decision.kind in TOLD}

    def told(self, jobs: Iterable[str]) -> None:
        """These stay where they are from now on."""
        self._told.update(jobs)

    def touching(self, nodes: Iterable[str], job: Job) -> list[Unit]:
        """Units with a task on one of these nodes that may move for a job, in the order of taking them up."""
        near = set(nodes)
        found = [
            unit
            for job_id in dict.fromkeys(name for node in near for name in self._on.get(node, ()))
            for unit in self._of(job_id)
            if job_id != job.id and any(task.node in near for task in unit.tasks)
        ]
        return sorted(found, key=_cheapest if self._session.config.consolidation.cheapest_first else _newest)

    def standing_on(self, node: str, job: Job) -> list[Unit]:
        """Units of which all tasks stand on a node and that may move for a job."""
        return [
            unit
            for job_id in self._on.get(node, ())
            for unit in self._of(job_id)
            if job_id != job.id and all(task.node == node for task in unit.tasks)
        ]

    @cached_property
    def _on(self) -> dict[str, dict[str, None]]:
        """The jobs of which something stood on a node when this was first asked."""
        found: dict[str, dict[str, None]] = {}
        for task in self._session.snapshot.allocations.values():
            found.setdefault(task.node, {})[task.job] = None
        return found

    def _of(self, job_id: str) -> tuple[Unit, ...]:
        if job_id in self._told:
            return ()
        known = self._units.get(job_id)
        if known is None:
            job, now = self._session.snapshot.jobs.get(job_id), self._session.now
            known = ()
            if job is not None and self._may_move(job):
                staying = [task for task in self._session.snapshot.held(job_id) if not task.leaving]
                known = tuple(units_of(job, staying, unsaved(job, now)))
            self._units[job_id] = known
        return known

    def _may_move(self, job: Job) -> bool:
        """Whether the job is none that may not be asked to leave, or not yet."""
        session = self._session
        guarded = job.min_run_s is not None and running_for(job, session.now) < job.min_run_s
        free = job.state is JobState.LIVE and job.preemptible and job.movable and not guarded
        return free and not capped(job, session.config.preemption.eviction_cap)


def _newest(unit: Unit) -> tuple[int, float, str]:
    return (unit.job.priority, -unit.job.submitted_at, unit.job.id)


def _cheapest(unit: Unit) -> tuple[int, float, float, str]:
    return (unit.job.priority, unit.lost, -unit.job.submitted_at, unit.job.id)
