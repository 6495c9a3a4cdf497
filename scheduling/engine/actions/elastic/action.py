"""The action that lets elastic jobs breathe: they give up surplus for others and grow into idle room."""

from __future__ import annotations

from scheduling.engine.actions.elastic.growth import JobGrowth
from scheduling.engine.actions.elastic.release_surplus import SurplusRelease
from scheduling.engine.gang.attempt import StartAttempt
from scheduling.engine.gang.bounds import SlotBounds
from scheduling.engine.model import DecisionKind
from scheduling.engine.session.session import Session


class ElasticResize:
    """Surplus is lent: it goes to jobs that run when nobody waits for it, and comes back when one does.

    Giving up: for a waiting job, tasks of elastic jobs of the same queue and of no higher priority that
    their gangs can spare; only when the waiting job then starts. Growing: one task at a time, jobs of
    higher priority first, then those at their minimum, then the older ones. A gang that lost tasks gets
    its minimum back first, whoever waits: it is no use to anybody as it is. Source of the order of
    growing: KAI-Scheduler's elastic plug-in.
    """

    name = "elastic"

    def run(self, session: Session) -> None:
        """Give up first, then grow."""
        attempt = StartAttempt(session.snapshot, session.placer, session.config.preemption.eviction_cap)
        bounds = SlotBounds(session.snapshot, session.placer, session.equivalence)
        SurplusRelease(session, attempt, bounds).release_surplus()
        moving = any(decision.kind is DecisionKind.MIGRATE for decision in session.decisions)
        if not moving:
            JobGrowth(session, attempt, bounds).grow_jobs()
