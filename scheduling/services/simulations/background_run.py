"""Runs requested simulations, one at a time in the whole installation, and records their progress.

Simulations take minutes of one processor, so that a second one would leave too few workers for other tasks.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models import F, Q, QuerySet

from foundation.core import clock
from foundation.core.errors import AllotmentError
from foundation.core.garbage_collection import gc_paused
from foundation.sql import row_scope
from foundation.sql.postgres import transactions_in_turn
from scheduling.models import BackgroundSimulation, PolicyReplay, SimulationState, StartEstimate

log = structlog.get_logger(__name__)

MODELS: Final[tuple[type[BackgroundSimulation], ...]] = (StartEstimate, PolicyReplay)
LOST_AFTER: Final = timedelta(seconds=90)
"""The time without progress after which a run counts as lost; another process may then start it again, up to
`MOST_RUNS` runs."""
MOST_RUNS: Final = 2
_REPORT_EVERY_S: Final = 0.5
_LOCK: Final = 0x73696D75
"""The key of the advisory lock: two processes that begin at once would both find none running."""


class StoppedError(RuntimeError):
    """The simulation was canceled or deleted, or another process computes it."""


class TooLongError(RuntimeError):
    """The simulation took longer than its budget."""


@row_scope.whole()
def find_simulation_to_run(*, now: datetime) -> BackgroundSimulation | None:
    """Return the next simulation to compute, unless one is running; those that were lost `MOST_RUNS` times
    fail.

    The oldest estimate goes first, because a user waits for it, unless a replay was requested earlier and
    none has run since the estimate was: an estimate waits for one replay at most, and a replay only for the
    estimates that are pending already.
    """
    for model in MODELS:
        model.unscoped.filter(_is_lost(now), runs__gte=MOST_RUNS).update(
            state=SimulationState.FAILED, error="INTERRUPTED", finished_at=now, **model.at_end
        )
    if _is_any_running(now):
        return None
    estimate, replay = (
        model.unscoped.filter(_can_begin(now)).order_by("created_at", "pk").first() for model in MODELS
    )
    if estimate is None or replay is None:
        return estimate or replay
    replayed = PolicyReplay.unscoped.filter(seen_at__gt=estimate.created_at).exists()
    return estimate if replayed or estimate.created_at < replay.created_at else replay


def _is_any_running(now: datetime) -> bool:
    running = Q(state=SimulationState.RUNNING) & ~_is_lost(now)
    return any(model.unscoped.filter(running).exists() for model in MODELS)


def _can_begin(now: datetime) -> Q:
    return _is_lost(now) | Q(state=SimulationState.PENDING)


def _is_lost(now: datetime) -> Q:
    unseen = Q(seen_at__isnull=True) | Q(seen_at__lt=now - LOST_AFTER)
    return Q(state=SimulationState.RUNNING) & unseen


class SimulationRun:
    """One run of a simulation: it writes progress and results as long as the run is the latest one and was
    not canceled."""

    def __init__(self, model: type[BackgroundSimulation], pk: uuid.UUID, number: int) -> None:
        self.pk = pk
        self._model, self._number = model, number
        self._begun, self._reported_at = clock.now(), 0.0

    @property
    def _rows(self) -> QuerySet[BackgroundSimulation]:
        return self._model.unscoped.filter(pk=self.pk, runs=self._number, state=SimulationState.RUNNING)

    def report_progress(self, part: float) -> None:
        """Write the computed part, 0 to 1, every half second. Raises: StoppedError."""
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_EVERY_S:
            self._reported_at = now
            self.write_fields(progress=int(part * 1_000))

    def write_fields(self, **fields: Any) -> None:
        """Write fields of the row. Raises: StoppedError."""
        now = clock.now()
        seconds = round((now - self._begun).total_seconds(), 3)
        if not self._rows.update(seen_at=now, seconds=seconds, **fields):
            raise StoppedError

    def end_run(self, error: str = "") -> bool:
        """End the run; what it has written stays, also where it failed. Return whether it was the latest."""
        ended = self._rows.update(
            state=SimulationState.FAILED if error else SimulationState.DONE,
            error=error,
            progress=F("progress") if error else 1_000,
            finished_at=clock.now(),
            **self._model.at_end,
        )
        log.info("simulation ended", kind=self._model.__name__, pk=str(self.pk), error=error)
        return bool(ended)


@row_scope.whole()
def run_simulation(
    model: type[BackgroundSimulation],
    pk: uuid.UUID,
    compute: Callable[[SimulationRun], None],
) -> bool:
    """Compute a simulation and store its result; return whether this process did: not while another one is
    computed.

    It may run twice or concurrently: only the latest run counts. An error of `compute` ends it as failed,
    with the code of an AllotmentError, `TOO_LONG` or `INTERNAL`.
    """
    number = _claim(model, pk)
    if number is None:
        return False
    run = SimulationRun(model, pk, number)
    try:
        with gc_paused():
            compute(run)
    except StoppedError:
        return False
    except TooLongError:
        return run.end_run("TOO_LONG")
    except AllotmentError as refusal:
        return run.end_run(refusal.code[:20])
    except Exception:
        run.end_run("INTERNAL")
        raise
    return run.end_run()


@transaction.atomic
def _claim(model: type[BackgroundSimulation], pk: uuid.UUID) -> int | None:
    """Take a simulation for this process; return the number of its run, None if it can't be taken.

    A task may have waited in the broker while another one was begun, so that this checks again.
    """
    transactions_in_turn(_LOCK)
    now = clock.now()
    if _is_any_running(now):
        return None
    row = model.unscoped.filter(_can_begin(now), pk=pk)
    before = row.values_list("runs", flat=True).first()
    if before is None:
        return None
    mine = row.filter(runs=before).update(
        state=SimulationState.RUNNING, runs=F("runs") + 1, seen_at=now, progress=0, result={}
    )
    return before + 1 if mine else None
