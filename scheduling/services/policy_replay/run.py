"""Computes replays, one at a time in the whole installation, and records their progress."""

from __future__ import annotations

import time
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
from scheduling.simulation.history_replay import replay_scenario

log = structlog.get_logger(__name__)

BUDGET_S: Final = 240.0
"""The time for both simulations of a replay together, in seconds."""
TASK_LIMIT_S: Final = 280
"""The time after which the task is ended, in seconds: below the broker's visibility timeout."""
LOST_AFTER: Final = timedelta(seconds=90)
"""The time without progress after which a run counts as lost; another process may then start it again, up to
`MOST_RUNS` runs."""
MOST_RUNS: Final = 2
_REPORT_EVERY_S: Final = 1.0


class ReplayStoppedError(RuntimeError):
    """The replay was canceled or deleted, or another process computes it."""


class ReplayTooLongError(RuntimeError):
    """The simulation took longer than `BUDGET_S`."""


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
def run_replay(replay_id: uuid.UUID, *, stopwatch: Callable[[], float] = time.monotonic) -> bool:
    """Compute a replay and store its result; return whether this process did.

    It may run twice or concurrently: only the latest run counts.
    """
    run = _claim(replay_id)
    if run is None:
        return False
    begun = stopwatch()
    try:
        with gc_paused():
            result = _compute(_Reporter(replay_id, run, stopwatch))
    except ReplayStoppedError:
        return False
    except ReplayTooLongError:
        return _end(replay_id, run, stopwatch() - begun, error="TOO_LONG")
    except Invalid as refusal:
        return _end(replay_id, run, stopwatch() - begun, error=refusal.code)
    except Exception:
        _end(replay_id, run, stopwatch() - begun, error="INTERNAL")
        raise
    return _end(replay_id, run, stopwatch() - begun, result=result)


def _claim(replay_id: uuid.UUID) -> int | None:
    """Take the replay for this process; return the number of its run, None if it can't be taken."""
    now = clock.now()
    lost = Q(state=ReplayState.RUNNING, seen_at__lt=now - LOST_AFTER)
    row = PolicyReplay.unscoped.filter(lost | Q(state=ReplayState.PENDING), pk=replay_id)
    before = row.values_list("runs", flat=True).first()
    if before is None:
        return None
    mine = row.filter(runs=before).update(
        state=ReplayState.RUNNING, runs=F("runs") + 1, seen_at=now, progress=0
    )
    return before + 1 if mine else None


def _end(
    replay_id: uuid.UUID, run: int, seconds: float, *, error: str = "", result: dict[str, Any] | None = None
) -> bool:
    rows = PolicyReplay.unscoped.filter(pk=replay_id, runs=run, state=ReplayState.RUNNING)
    ended = rows.update(
        state=ReplayState.FAILED if error else ReplayState.DONE,
        error=error,
        result=result or {},
        progress=0 if error else 1_000,
        finished_at=clock.now(),
        seconds=round(seconds, 3),
    )
    log.info("policy replayed", replay=str(replay_id), seconds=round(seconds, 1), error=error)
    return bool(ended)


class _Reporter:
    """Records the progress of a run, and stops it when its time is over or it was canceled."""

    def __init__(self, replay_id: uuid.UUID, run: int, stopwatch: Callable[[], float]) -> None:
        self.replay_id, self._run, self._stopwatch = replay_id, run, stopwatch
        self._begun = self._said = stopwatch()

    def report_progress(self, part: float) -> None:
        """Record the part of the work that is done, 0 to 1. Raises: ReplayStoppedError,
        ReplayTooLongError."""
        now = self._stopwatch()
        if now - self._begun > BUDGET_S:
            raise ReplayTooLongError
        if now - self._said < _REPORT_EVERY_S:
            return
        self._said = now
        rows = PolicyReplay.unscoped.filter(pk=self.replay_id, runs=self._run, state=ReplayState.RUNNING)
        if not rows.update(progress=int(part * 1_000), seen_at=clock.now()):
            raise ReplayStoppedError


def _compute(reporter: _Reporter) -> dict[str, Any]:
    row = PolicyReplay.unscoped.select_related("cell").get(pk=reporter.replay_id)
    period: RecordedPeriod = read_period(row.cell, begin=row.begin_at, end=row.end_at)
    changed = apply_change(period.scenario, row.change)
    return {
        "measured": period.measure_period(),
        "recorded": replay_scenario(period.scenario, lambda part: reporter.report_progress(part / 2)),
        "changed": replay_scenario(changed, lambda part: reporter.report_progress((1 + part) / 2)),
        "jobs": len(period.scenario.jobs),
        "running_on": sum(one.work_s is None and one.withdrawn_at is None for one in period.scenario.jobs),
    }
