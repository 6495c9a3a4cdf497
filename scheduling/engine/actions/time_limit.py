"""The action that ends jobs whose run time is over."""

from __future__ import annotations

from scheduling.engine.actions.leaving import evict, running_among
from scheduling.engine.model import EvictRule
from scheduling.engine.session.session import Session


class TimeLimit:
    """Evicts jobs that have run for their `max_run_s`.

    The time counts from when the gang was up; until that is known, from its admission.
    """

    name = "time_limit"

    def run(self, session: Session) -> None:
        """End every live job that is past its limit."""
        for job, _ in running_among(session, session.snapshot.watch.overdue(session.now)):
            numbers = {"ran_s": int(session.now - (job.since or 0)), "limit_s": job.max_run_s or 0}
            evict(session, job, EvictRule.TIME_LIMIT, numbers)
