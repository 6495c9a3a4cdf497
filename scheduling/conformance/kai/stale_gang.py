"""KAI's stale gang eviction as an action of the engine: gangs that lost tasks and did not get them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.engine.extension import Session, evict_job, find_running_among, is_gang_complete
from scheduling.engine.model import EvictRule, Instant


@dataclass(slots=True, eq=False)
class StaleGangEviction:
    """Evicts gangs that were below their minimum for their grace period, unless part of them has finished.

    `broken` are the jobs below their minimum, with the time since when and the grace in seconds; negative is
    never.
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
