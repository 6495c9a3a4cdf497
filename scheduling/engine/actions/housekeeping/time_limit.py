"""This module evicts jobs whose run time is over."""

from __future__ import annotations

from scheduling.engine.actions.eviction import evict_job, find_running_among
from scheduling.engine.model import EvictRule
from scheduling.engine.session.session import Session


class TimeLimitEviction:
    """Evicts jobs that have run for their `max_run_s`.

    The time counts from when the gang was ready; until that is known, from its admission.
    """

    name = "time_limit"

    def run(self, session: Session) -> None:
        """Evict every live job that exceeded its limit."""
        for job, _ in find_running_among(session, session.snapshot.live_jobs.find_overdue_jobs(session.now)):
            numbers = {
                "ran_s": int(session.now - (job.attempt_started_at or 0)),
                "limit_s": job.max_run_s or 0,
            }
            evict_job(session, job, EvictRule.TIME_LIMIT, numbers)
