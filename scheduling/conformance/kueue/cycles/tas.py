"""Kueue's tables of whole cycles with topology-aware scheduling, against the engine's action `admit`.

The flavors with a topology are topology-aware there; otherwise these cases run as all cycles do.
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
