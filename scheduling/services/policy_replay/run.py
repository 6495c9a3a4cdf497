"""Computes replays and records their progress."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from foundation.core import clock
from scheduling.models import PolicyReplay
from scheduling.services.policy_replay.change import apply_change
from scheduling.services.policy_replay.recorded_period import RecordedPeriod, read_period
from scheduling.services.simulations.background_run import SimulationRun, TooLongError, run_simulation
from scheduling.simulation.history_replay import Scenario, replay_scenario

BUDGET_S: Final = 240.0
"""The CPU time of each of the two simulations of a replay, in seconds."""
MOST_WALL_PER_WORK: Final = 5.0
"""On a busy machine, a simulation may take this multiple of `BUDGET_S` in wall time."""
TASK_LIMIT_S: Final = round(2 * BUDGET_S * MOST_WALL_PER_WORK) + 300
"""The time after which the task is ended, in seconds: above what both simulations may take. The broker does
not wait so long, so the task is acknowledged when it begins; a lost one is found by its row."""

StartStopwatch = Callable[[], Callable[[], float]]


def _start_stopwatch() -> Callable[[], float]:
    return clock.start_work_stopwatch(most_wall_per_work=MOST_WALL_PER_WORK)


def run_replay(replay_id: uuid.UUID, *, start_stopwatch: StartStopwatch = _start_stopwatch) -> bool:
    """Compute a replay and store its result; return whether this process did (`run_simulation`).

    Each simulation has a stopwatch of its own.
    """
    return run_simulation(PolicyReplay, replay_id, partial(_compute, start_stopwatch=start_stopwatch))


def _compute(run: SimulationRun, *, start_stopwatch: StartStopwatch) -> None:
    """Write each part of the result as soon as it is computed."""
    row = PolicyReplay.unscoped.select_related("cell").get(pk=run.pk)
    period: RecordedPeriod = read_period(row.cell, begin=row.begin_at, end=row.end_at)
    changed = apply_change(period.scenario, row.change)
    result: dict[str, Any] = {
        "measured": period.measure_period(),
        "jobs": len(period.scenario.jobs),
        "running_on": sum(one.work_s is None and one.withdrawn_at is None for one in period.scenario.jobs),
    }
    result["recorded"] = _simulate(run, period.scenario, start_stopwatch(), 0.0)
    run.write_fields(result=result, progress=500)
    result["changed"] = _simulate(run, changed, start_stopwatch(), 0.5)
    run.write_fields(result=result, progress=1_000)


def _simulate(
    run: SimulationRun, scenario: Scenario, stopwatch: Callable[[], float], begin: float
) -> dict[str, Any]:
    """Return the figures of a scenario, which is the half of the whole work from `begin`.

    Raises: StoppedError, TooLongError.
    """

    def report(part: float) -> None:
        if stopwatch() > BUDGET_S:
            raise TooLongError
        run.report_progress(begin + part / 2)

    return replay_scenario(scenario, report)
