"""Computes replays, one at a time in the whole installation, and records their progress."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db.models import F, Q

from foundation.core import clock
from foundation.core.errors import Invalid
from foundation.core.garbage_collection import gc_paused
from foundation.sql import row_scope
from scheduling.models import PolicyReplay, ReplayState
from scheduling.services.policy_replay.change import apply_change
from scheduling.services.policy_replay.recorded_period import RecordedPeriod, read_period
from scheduling.simulation.history_replay import Scenario, replay_scenario

log = structlog.get_logger(__name__)

BUDGET_S: Final = 240.0
"""The CPU time of each of the two simulations of a replay, in seconds."""
MOST_WALL_PER_WORK: Final = 5.0
"""On a busy machine, a simulation may take this multiple of `BUDGET_S` in wall time."""
TASK_LIMIT_S: Final = round(2 * BUDGET_S * MOST_WALL_PER_WORK) + 300
"""The time after which the task is ended, in seconds: above what both simulations may take. The broker does
not wait so long, so the task is acknowledged when it begins; a lost one is found by its row."""
LOST_AFTER: Final = timedelta(seconds=90)
"""The time without progress after which a run counts as lost; another process may then start it again, up to
`MOST_RUNS` runs."""
MOST_RUNS: Final = 2
_REPORT_EVERY_S: Final = 0.5

StartStopwatch = Callable[[], Callable[[], float]]


def _start_stopwatch() -> Callable[[], float]:
    return clock.start_work_stopwatch(most_wall_per_work=MOST_WALL_PER_WORK)


class ReplayStoppedError(RuntimeError):
    """The replay was canceled or deleted, or another process computes it."""


class ReplayTooLongError(RuntimeError):
    """A simulation took longer than `BUDGET_S`."""


@row_scope.whole()
def find_replay_to_run(*, now: datetime) -> uuid.UUID | None:
    """Return the next replay to compute, unless one is running; replays that were lost `MOST_RUNS` times
    fail."""
    lost = Q(state=ReplayState.RUNNING) & (Q(seen_at__isnull=True) | Q(seen_at__lt=now - LOST_AFTER))
    PolicyReplay.unscoped.filter(lost, runs__gte=MOST_RUNS).update(
        state=ReplayState.FAILED, error="INTERRUPTED", finished_at=now
    )
    if PolicyReplay.unscoped.filter(state=ReplayState.RUNNING).exclude(lost).exists():
        return None
    waiting = PolicyReplay.unscoped.filter(lost | Q(state=ReplayState.PENDING))
    found: uuid.UUID | None = waiting.order_by("created_at").values_list("pk", flat=True).first()
    return found


@row_scope.whole()
def run_replay(replay_id: uuid.UUID, *, start_stopwatch: StartStopwatch = _start_stopwatch) -> bool:
    """Compute a replay and store its result; return whether this process did.

    It may run twice or concurrently: only the latest run counts. Each simulation has a stopwatch of its own.
    """
    run = _claim(replay_id)
    if run is None:
        return False
    try:
        with gc_paused():
            _compute(_Run(replay_id, run, start_stopwatch))
    except ReplayStoppedError:
        return False
    except ReplayTooLongError:
        return _end(replay_id, run, error="TOO_LONG")
    except Invalid as refusal:
        return _end(replay_id, run, error=refusal.code)
    except Exception:
        _end(replay_id, run, error="INTERNAL")
        raise
    return _end(replay_id, run)


def _claim(replay_id: uuid.UUID) -> int | None:
    """Take the replay for this process; return the number of its run, None if it can't be taken."""
    now = clock.now()
    lost = Q(state=ReplayState.RUNNING, seen_at__lt=now - LOST_AFTER)
    row = PolicyReplay.unscoped.filter(lost | Q(state=ReplayState.PENDING), pk=replay_id)
    before = row.values_list("runs", flat=True).first()
    if before is None:
        return None
    mine = row.filter(runs=before).update(
        state=ReplayState.RUNNING, runs=F("runs") + 1, seen_at=now, progress=0, result={}
    )
    return before + 1 if mine else None


def _end(replay_id: uuid.UUID, run: int, *, error: str = "") -> bool:
    """End a run; what it has computed stays, also where it failed."""
    rows = PolicyReplay.unscoped.filter(pk=replay_id, runs=run, state=ReplayState.RUNNING)
    ended = rows.update(
        state=ReplayState.FAILED if error else ReplayState.DONE,
        error=error,
        progress=F("progress") if error else 1_000,
        finished_at=clock.now(),
    )
    log.info("policy replayed", replay=str(replay_id), error=error)
    return bool(ended)


class _Run:
    """Records the progress and the results of a run, and stops it when a simulation takes too long or the
    replay was canceled."""

    def __init__(self, replay_id: uuid.UUID, run: int, start_stopwatch: StartStopwatch) -> None:
        self.replay_id, self._run, self._start_stopwatch = replay_id, run, start_stopwatch
        self._begun = clock.now()

    def simulate(self, scenario: Scenario, first: float, last: float) -> dict[str, Any]:
        """Return the figures of a scenario, which is the part of the whole work from `first` to `last`.

        Raises: ReplayStoppedError, ReplayTooLongError.
        """
        stopwatch, said = self._start_stopwatch(), 0.0

        def report(part: float) -> None:
            nonlocal said
            now = stopwatch()
            if now > BUDGET_S:
                raise ReplayTooLongError
            if now - said >= _REPORT_EVERY_S:
                said = now
                self.write(progress=int((first + part * (last - first)) * 1_000))

        return replay_scenario(scenario, report)

    def write(self, **fields: Any) -> None:
        """Write fields of the replay. Raises: ReplayStoppedError."""
        now = clock.now()
        rows = PolicyReplay.unscoped.filter(pk=self.replay_id, runs=self._run, state=ReplayState.RUNNING)
        if not rows.update(seen_at=now, seconds=round((now - self._begun).total_seconds(), 3), **fields):
            raise ReplayStoppedError


def _compute(run: _Run) -> None:
    """Write each part of the result as soon as it is computed."""
    row = PolicyReplay.unscoped.select_related("cell").get(pk=run.replay_id)
    period: RecordedPeriod = read_period(row.cell, begin=row.begin_at, end=row.end_at)
    changed = apply_change(period.scenario, row.change)
    result: dict[str, Any] = {
        "measured": period.measure_period(),
        "jobs": len(period.scenario.jobs),
        "running_on": sum(one.work_s is None and one.withdrawn_at is None for one in period.scenario.jobs),
    }
    result["recorded"] = run.simulate(period.scenario, 0.0, 0.5)
    run.write(result=result, progress=500)
    result["changed"] = run.simulate(changed, 0.5, 1.0)
    run.write(result=result, progress=1_000)
