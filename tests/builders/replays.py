"""Replays of a recorded period as rows, with a result."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from clusters.models import Cell
from foundation.core import clock
from scheduling.models import PolicyReplay, SimulationState


def figures(**fields: Any) -> dict[str, Any]:
    """The figures of a workspace: half of its four jobs waited up to ten minutes."""
    return {
        "jobs": 4,
        "not_started": 0,
        "wait_median": {"seconds": 600, "at_least": False},
        "wait_p90": {"seconds": 7_200, "at_least": True},
        "preemptions": 2,
        "lost_gpu_hours": 1.5,
        "gpu_hours": 96.0,
        "inside_quota_s": 900,
    } | fields


def column(teams: dict[str, Any]) -> dict[str, Any]:
    """One column of a result, of a day."""
    return {
        "teams": teams,
        "total": figures(),
        "gpus": 16.0,
        "allocation_rate": 0.25,
        "bucket_s": 3_600,
        "allocated_gpus": [4.0] * 24,
    }


def replay(
    cell: Cell, *, team: str = "", state: SimulationState = SimulationState.DONE, **fields: Any
) -> PolicyReplay:
    """A replay of yesterday under classical sharing; with `team`, its result has a line of that workspace."""
    teams = {team: figures()} if team else {}
    changed = {team: figures(wait_median={"seconds": 60, "at_least": False})} if team else {}
    result = {
        "measured": column(teams),
        "recorded": column(teams),
        "changed": column(changed),
        "jobs": 5,
        "running_on": 1,
    }
    now = clock.now()
    made = {
        "name": "classical",
        "actor_name": "root",
        "begin_at": now - timedelta(days=1),
        "end_at": now,
        "change": {"sharing": "classical"},
        "state": state,
        "result": result if state == SimulationState.DONE else {},
    } | fields
    return PolicyReplay.unscoped.create(cell=cell, **made)
