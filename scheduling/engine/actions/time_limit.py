"""The action that ends jobs whose run time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.engine.actions.leaving import evict, running
from scheduling.engine.model import EvictRule

if TYPE_CHECKING:
    from scheduling.engine.session import Session


class TimeLimit:
    """Evicts jobs that have run for their `max_run_s`.

    The time counts from when the gang was up; until that is known, from its admission.
    """

    name = "time_limit"

    def run(self, session: Session) -> None:
        """Judge every live job with a limit."""
        for job, _ in list(running(session)):
            since = job.admitted_at if job.running_since is None else job.running_since
            if job.max_run_s is None or since is None or session.now - since < job.max_run_s:
                continue
            numbers = {"ran_s": int(session.now - since), "limit_s": job.max_run_s}
            evict(session, job, EvictRule.TIME_LIMIT, numbers)
