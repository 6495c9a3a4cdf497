"""KAI's stale gang eviction as an action of the engine: evicts gangs that lost tasks without replacement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.engine.extension import Session, evict_job, find_running_among, is_gang_complete
from scheduling.engine.model import EvictRule, Instant


@dataclass(slots=True, eq=False)
class StaleGangEviction:
    """Evicts gangs that were below their minimum for their grace period, unless some of their tasks have
    finished.

    `broken` has the time since which jobs are below their minimum, and the grace period in seconds; a
    negative one means never.
    """

    broken: Mapping[str, tuple[Instant, int]]
    name: str = "stale_gang"

    def run(self, session: Session) -> None:
        """Check every live job that is known to be below its minimum."""
        for job, running in find_running_among(session, self.broken):
            since, grace = self.broken[job.id]
            if grace < 0 or any(role.ended for role in job.roles):
                continue
            broken_for = session.now - since
            if broken_for >= grace and not is_gang_complete(job, running):
                numbers = {"tasks": len(running), "broken_s": int(broken_for), "grace_s": grace}
                evict_job(session, job, EvictRule.STALE_GANG, numbers)
