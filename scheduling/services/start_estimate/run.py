"""Computes requested estimates of starts."""

from __future__ import annotations

import uuid
from typing import Any, Final

from django.forms.models import model_to_dict

from foundation.core import clock
from scheduling.models import EstimateSubject, StartEstimate, StartPrediction
from scheduling.services.simulations.background_run import SimulationRun, run_simulation
from scheduling.services.start_estimate.change import compare_starts
from scheduling.services.start_estimate.draft import estimate_draft
from tenants.models import Tenant

TASK_LIMIT_S: Final = 280
"""The time after which the task is ended, in seconds: above what an estimate may take, below the time after
which the broker hands the task to another worker."""
_STORED: Final = (
    "low_s", "likely_low_s", "median_s", "likely_high_s", "high_s", "simulated", "horizon_s", "futures",
    "runs", "run_group", "outcomes",
)  # fmt: skip


def run_estimate(estimate_id: uuid.UUID) -> bool:
    """Compute an estimate and store its result; return whether this process did (`run_simulation`)."""
    return run_simulation(StartEstimate, estimate_id, _compute)


def _compute(run: SimulationRun) -> None:
    row = StartEstimate.unscoped.select_related("user").get(pk=run.pk)
    if row.subject == EstimateSubject.CHANGE:
        run.write_fields(
            result=compare_starts(row.cell_id, row.asked, now=clock.now(), report=run.report_progress)
        )
        return
    place = Tenant.unscoped.get(pk=str(row.workspace_id))
    drafted = estimate_draft(
        acting_user=row.user, workspace=place, body=row.asked, now=clock.now(), report=run.report_progress
    )
    run.write_fields(result=_content_of(drafted))


def _content_of(found: StartPrediction) -> dict[str, Any]:
    return {"made_at": found.made_at.isoformat(), **model_to_dict(found, fields=_STORED)}
