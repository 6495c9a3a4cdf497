"""Estimates when a draft of a job would start, as predictions of submitted jobs do; nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.clock import start_work_stopwatch
from foundation.core.errors import Refused
from scheduling import engine
from scheduling.models import ForecastResult, StartPrediction
from scheduling.prediction.forecast import FEWEST_FUTURES, ForecastOptions, basis_of, forecast_starts
from scheduling.services.jobs.job_check import Submission, job_check
from scheduling.services.jobs.job_preview import build_engine_job
from scheduling.services.jobs.job_read import job_read
from scheduling.services.start_prediction.history import read_history, traits_of
from scheduling.services.start_prediction.outcomes import read_scores
from scheduling.services.start_prediction.predict import build_prediction, find_returning, forecast_config
from scheduling.snapshots import cell_snapshot
from scheduling.snapshots.delegated import read_delegated
from tenants.models import Tenant, User

OPTIONS: Final = ForecastOptions(budget_s=30.0)
"""The budget is CPU time of one worker."""
MOST_WALL_PER_WORK: Final = 7.0
"""On a busy machine, an estimate may take this multiple of its budget in wall time."""


class NoEstimateError(Refused):
    """An estimate is not possible; the code is one of `ForecastResult`, in capitals."""


def estimate_draft(
    *,
    acting_user: User,
    workspace: Tenant,
    body: Mapping[str, Any],
    now: datetime,
    report: Callable[[float], None] | None = None,
) -> StartPrediction:
    """Return the prediction for a job that the user would submit now; it is not stored.

    Raises: NoEstimateError; as `job_read` and `job_check`, if the job would be refused.
    """
    spec = job_read(acting_user=acting_user, workspace=workspace, body=body).spec
    submission = job_check(acting_user=acting_user, workspace=workspace, spec=spec)
    return _estimate(submission, now, report)


def _estimate(
    submission: Submission, now: datetime, report: Callable[[float], None] | None
) -> StartPrediction:
    queue = submission.queue
    taken = cell_snapshot(queue.cell_id, but=read_delegated(queue.cell_id))
    known = read_history(queue.cell_id, taken.jobs, now=now)
    if known is None:
        raise NoEstimateError(_("Too few finished jobs."), code=ForecastResult.NO_HISTORY.upper())
    job, rows = build_engine_job(submission, now), submission.build_rows(now)
    history = replace(known, traits={**known.traits, job.id: traits_of(rows.job, rows.roles)})
    taken.snapshot.apply_delta(engine.Delta((engine.JobPut(job),)))
    forecast = forecast_starts(
        taken.snapshot,
        forecast_config(taken.sharing),
        history,
        now=now.timestamp(),
        seed=int(now.timestamp()),
        jobs=[job.id],
        options=OPTIONS,
        returning=find_returning(taken),
        stopwatch=start_work_stopwatch(most_wall_per_work=MOST_WALL_PER_WORK),
        report=report,
    )
    if forecast.futures < FEWEST_FUTURES:
        raise NoEstimateError(_("The estimate took too long."), code=ForecastResult.OUT_OF_TIME.upper())
    return build_prediction(
        forecast.ranges[job.id],
        basis_of(history, taken.snapshot.jobs[job.id]),
        read_scores([queue.pk], now=now)[queue.pk],
        futures=forecast.futures,
        now=now,
    )
