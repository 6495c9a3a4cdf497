"""Checks Kueue's tables of whole cycles with topology-aware scheduling with the action `admit`.

Flavors with a topology are topology-aware; otherwise these cases run like all cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scheduling.conformance.kueue.cycles.schedule import check_schedule

TABLES: Mapping[str, Callable[[Mapping[str, Any]], str | None]] = {
    "TestScheduleForTAS": check_schedule,
    "TestScheduleForTASCohorts": check_schedule,
    "TestScheduleForTASPreemption": check_schedule,
}
