"""The action that ends gangs which lost members and did not get them back in time."""

from __future__ import annotations

from scheduling.engine.actions.eviction import evict_job, find_running_among
from scheduling.engine.gang.parts import GangRules
from scheduling.engine.gang.task_counts import count_placed_tasks
from scheduling.engine.model import EvictRule
from scheduling.engine.session.session import Session


class StaleGangEviction:
    """Evicts gangs that have been below their minimum for their grace, unless part of them has finished.

    What is left of such a gang holds cards and gets nothing done. A gang of which tasks have finished is
    on its way out by itself. Source of the rule: KAI-Scheduler's stale gang eviction.
    """

    name = "stale_gang"

    def run(self, session: Session) -> None:
        """Judge every live job that was noticed to be broken."""
        for job, staying in find_running_among(session, session.snapshot.watch.broken):
            grace = session.config.housekeeping.stale_grace_s
            if job.stale_grace_s is not None:
                grace = job.stale_grace_s
            if job.broken_since is None or grace < 0 or any(role.ended for role in job.roles):
                continue
            broken_for = session.now - job.broken_since
            if broken_for >= grace and not GangRules(job).is_satisfied(count_placed_tasks(job, staying)):
                numbers = {"tasks": len(staying), "broken_s": int(broken_for), "grace_s": grace}
                evict_job(session, job, EvictRule.STALE_GANG, numbers)
