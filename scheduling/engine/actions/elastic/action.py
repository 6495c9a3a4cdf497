"""This module lets elastic jobs release surplus tasks for pending jobs and grow into idle capacity."""

from __future__ import annotations

from scheduling.engine.actions.elastic.growth import JobGrowth
from scheduling.engine.actions.elastic.release_surplus import SurplusRelease
from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.bounds import SlotBounds
from scheduling.engine.model import DecisionKind
from scheduling.engine.session.session import Session


class ElasticResize:
    """Surplus is lent: it goes to running jobs while nothing waits for the capacity, and is released when
    something does.

    A pending job may take surplus tasks of elastic jobs of the same queue and of no higher priority, only if
    the job then starts. Jobs grow by one task at a time: higher priority first, then jobs at their minimum,
    then older ones. A gang that lost tasks regains its minimum first, whatever waits, because it is of no use
    as it is. Source of the order of growth: KAI-Scheduler's elastic plug-in.
    """

    name = "elastic"

    def run(self, session: Session) -> None:
        """Release surplus first, then grow."""
        attempt = StartAttempt(session.snapshot, session.placer, session.config.preemption.eviction_cap)
        bounds = SlotBounds(session.snapshot, session.placer, session.equivalence.class_of)
        SurplusRelease(session, attempt, bounds).release_surplus()
        moving = any(decision.kind is DecisionKind.MIGRATE for decision in session.decisions)
        if not moving:
            JobGrowth(session, attempt, bounds).grow_jobs()
