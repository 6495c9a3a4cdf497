"""This module evicts and scales down jobs whose cards are idle."""

from __future__ import annotations

from scheduling.engine.actions.eviction import evict_job, evict_tasks, find_running_among
from scheduling.engine.gang.task_counts import find_surplus_tasks
from scheduling.engine.model import EvictRule
from scheduling.engine.session.session import Session


class IdleEviction:
    """Evicts jobs whose cards were measured idle for longer than their limit, or scales them down.

    A job without measurements is not idle, and one without cards never is.
    """

    name = "idle"

    def run(self, session: Session) -> None:
        """Check every live job that is known to be idle."""
        for job, running in find_running_among(session, session.snapshot.live_jobs.idle):
            limit, cards = job.max_idle_s, sum(len(task.slices) for task in running)
            if job.idle_since is None or limit is None or limit < 0 or not cards:
                continue
            idle_for = session.now - job.idle_since
            if idle_for >= limit:
                numbers = {"cards": cards, "idle_s": int(idle_for), "limit_s": limit}
                surplus = find_surplus_tasks(job, running) if job.shrinks_when_idle else ()
                if surplus:
                    evict_tasks(session, job, surplus, EvictRule.IDLE, numbers=numbers)
                else:
                    evict_job(session, job, EvictRule.IDLE, numbers)
