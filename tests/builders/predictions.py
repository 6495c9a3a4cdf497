"""Predictions of starts as rows, with their outcomes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from scheduling.models import Job, StartPrediction


def prediction(job: Job, made_at: datetime, *, waited_s: int | None = None, **fields: Any) -> StartPrediction:
    """A prediction of a start within 10 to 60 minutes, likely 20 to 40; `waited_s` is its outcome, if any."""
    started = None if waited_s is None else made_at + timedelta(seconds=waited_s)
    predicted = {
        "first": True,
        "low_s": 600,
        "likely_low_s": 1_200,
        "median_s": 1_800,
        "likely_high_s": 2_400,
        "high_s": 3_600,
        "horizon_s": 259_200,
        "futures": 24,
        "runs": 1_240,
        "run_group": "same_job",
        "outcomes": 60,
        "started_at": started,
        "closed_at": started,
    } | fields
    row = StartPrediction(job=job, queue_id=job.queue_id, made_at=made_at, **predicted)
    row.simulated = list(row.bounds)
    row.save()
    return row
