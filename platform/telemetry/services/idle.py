"""Tells scheduling which jobs hold cards that do nothing, where a policy sets a time-out for that."""

from __future__ import annotations

from collections import Counter

from foundation.core import clock
from foundation.core.actor import SYSTEM
from scheduling.services.idle import idle_limits, suspend_idle
from telemetry.series.idle import idle_allocated


def idle_report() -> int:
    """Have the jobs suspended that were idle for too long; returns how many.

    A job that nobody measured is not idle; one that runs for less than its time-out never is.
    """
    suspended = 0
    for limit_s, workspaces in sorted(idle_limits().items()):
        found = idle_allocated(SYSTEM, limit_s).slices
        idle = Counter(part.job_id for part in found if part.workspace_id in workspaces)
        suspended += suspend_idle(idle, limit_s=limit_s, now=clock.now())
    return suspended
