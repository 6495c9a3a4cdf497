"""This module evicts gangs that lost members and did not get them back in time."""

from __future__ import annotations

from scheduling.engine.actions.eviction import evict_job, find_running_among
from scheduling.engine.gang.parts import GangRules
from scheduling.engine.gang.task_counts import count_placed_tasks
from scheduling.engine.model import EvictRule
from scheduling.engine.session.session import Session


class StaleGangEviction:
    """Evicts gangs that were below their minimum for their grace period, unless part of them has finished.

    What is left of such a gang holds cards and makes no progress. A gang with finished tasks is about to end
    by itself. Source of the rule: KAI-Scheduler's stale gang eviction.
    """

    name = "stale_gang"

    def run(self, session: Session) -> None:
        """Check every live job that is known to be below its minimum."""
        for job, running in find_running_among(session, session.snapshot.live_jobs.broken):
            grace = session.config.housekeeping.stale_grace_s
            if job.stale_grace_s is not None:
                grace = job.stale_grace_s
            if job.broken_since is None or grace < 0 or any(role.ended for role in job.roles):
                continue
            broken_for = session.now - job.broken_since
            if broken_for >= grace and not GangRules(job).is_satisfied(count_placed_tasks(job, running)):
                numbers = {"tasks": len(running), "broken_s": int(broken_for), "grace_s": grace}
                evict_job(session, job, EvictRule.STALE_GANG, numbers)
