"""Compares starts and preemptions of a cell with and without a change, by simulation; nothing is written."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.clock import start_work_stopwatch
from quotas.hooks.job_effects import OverQuota
from quotas.models import Queue, QuotaKey
from quotas.tree import NodeLimits
from scheduling import engine
from scheduling.engine import model as em
from scheduling.models import ForecastResult
from scheduling.prediction.comparison import compare_forecasts
from scheduling.prediction.forecast import (
    FEWEST_FUTURES,
    Forecast,
    ForecastOptions,
    History,
    forecast_starts,
)
from scheduling.services.quota_effect import build_quota_puts, jobs_to_drain
from scheduling.services.start_estimate.draft import NoEstimateError
from scheduling.services.start_prediction.history import read_history
from scheduling.services.start_prediction.predict import find_returning, find_waiting_jobs, forecast_config
from scheduling.snapshots import CellSnapshot, read_cell
from scheduling.snapshots.delegated import read_delegated
from scheduling.snapshots.tree import engine_queue

OPTIONS: Final = ForecastOptions(futures=16, horizon_s=24 * 3_600.0, budget_s=20.0, paired=True)
"""The budget is CPU time, for each of the two simulations."""
MOST_WALL_PER_WORK: Final = 5.0
"""On a busy machine, a simulation may take this multiple of its budget in wall time."""


def compare_starts(
    cell_id: uuid.UUID,
    asked: Mapping[str, Any],
    *,
    now: datetime,
    report: Callable[[float], None] = lambda part: None,
) -> dict[str, Any]:
    """Return which jobs start earlier, later, or are preempted after a change, as `change_request` wrote it.

    The lists are those of `compare_forecasts`; `left_out` is the number of pending jobs that aren't compared.
    Raises: NoEstimateError.
    """
    reading = read_cell(cell_id, but=read_delegated(cell_id))
    taken, changed = reading.build_snapshot(), reading.build_snapshot()
    history = read_history(cell_id, taken.jobs, now=now)
    if history is None:
        raise NoEstimateError(_("Too few finished jobs."), code=ForecastResult.NO_HISTORY.upper())
    drained = _apply(changed.snapshot, asked)
    waiting = find_waiting_jobs(taken)
    as_is = _forecast(taken, taken.sharing, history, waiting, now, lambda part: report(part / 2))
    then = _forecast(
        changed,
        asked.get("sharing", taken.sharing),
        history,
        waiting,
        now,
        lambda part: report(0.5 + part / 2),
        drained=drained,
    )
    running = {key for key, job in taken.snapshot.jobs.items() if job.state is em.JobState.LIVE}
    return {
        "made_at": now.isoformat(),
        **compare_forecasts(as_is, then, running=running, drained=drained),
        "futures": min(as_is.futures, then.futures),
        "horizon_s": round(min(as_is.horizon_s, then.horizon_s)),
        "runs": as_is.runs,
        "evaluated": len(waiting),
        "left_out": sum(job.state is em.JobState.QUEUED for job in taken.snapshot.jobs.values())
        - len(waiting),
    }


def _forecast(
    taken: CellSnapshot,
    sharing: str,
    history: History,
    waiting: Collection[str],
    now: datetime,
    report: Callable[[float], None],
    drained: Collection[str] = (),
) -> Forecast:
    found = forecast_starts(
        taken.snapshot,
        forecast_config(sharing),
        history,
        now=now.timestamp(),
        seed=int(now.timestamp()),
        jobs=waiting,
        options=OPTIONS,
        returning=find_returning(taken) | frozenset(drained),
        stopwatch=start_work_stopwatch(most_wall_per_work=MOST_WALL_PER_WORK),
        report=report,
    )
    if found.futures < FEWEST_FUTURES:
        raise NoEstimateError(_("The estimate took too long."), code=ForecastResult.OUT_OF_TIME.upper())
    return found


def _apply(snapshot: engine.Snapshot, asked: Mapping[str, Any]) -> list[str]:
    """Apply the change to a snapshot; return the jobs that it evicts at once."""
    if "queue" in asked and asked["queue"] in snapshot.queues:
        queue = copy(Queue.unscoped.get(pk=asked["queue"]))
        for name, value in asked["settings"].items():
            setattr(queue, name, value)
        wanted = asked["flavors"] or snapshot.queues[asked["queue"]].flavors
        # Those of clusters with a scheduler of their own are not part of the snapshot.
        order = [flavor for flavor in wanted if flavor in snapshot.flavors]
        snapshot.apply_delta(engine.Delta((engine.QueuePut(engine_queue(queue, tuple(order))),)))
    rows = {
        _key(node, flavor, resource): NodeLimits(nominal, borrowing, lending)
        for node, flavor, resource, nominal, borrowing, lending in asked.get("quotas", ())
    }
    snapshot.apply_delta(engine.Delta(tuple(build_quota_puts(snapshot, rows))))
    over = [
        OverQuota(_key(node, flavor, resource), reserved, limit)
        for node, flavor, resource, reserved, limit in asked.get("drained", ())
    ]
    drained = jobs_to_drain(snapshot, over)
    snapshot.apply_delta(engine.Delta(tuple(_evict(snapshot, drained))))
    return drained


def _key(node: str, flavor: str, resource: str) -> QuotaKey:
    return QuotaKey.at_node(uuid.UUID(node), em.FlavorResource(flavor, resource))


def _evict(snapshot: engine.Snapshot, jobs: Iterable[str]) -> Iterable[engine.Change]:
    for key in jobs:
        yield from (engine.AllocationRemoved(one.id) for one in snapshot.allocations_of(key))
        yield engine.JobPut(replace(snapshot.jobs[key], state=em.JobState.LEAVING))
