"""Finds the predictions that hold for pending jobs now."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import Max

from scheduling.models import StartPrediction


def find_open_predictions(jobs: Collection[uuid.UUID]) -> dict[uuid.UUID, StartPrediction]:
    """Return the latest open prediction of each job that has one of its current wait, by job.

    A prediction that was made before the last attempt ended is about an earlier wait. The caller has checked
    permissions.
    """
    open_ones = StartPrediction.unscoped.filter(job__in=jobs, closed_at__isnull=True)
    times = (Max("made_at"), Max("job__attempts__ended_at"))
    found = open_ones.order_by().values_list("job_id").annotate(*times)
    latest = {job: made for job, made, ended in found if ended is None or made >= ended}
    rows = open_ones.filter(made_at__in=set(latest.values())).defer("simulated")
    return {row.job_id: row for row in rows if row.made_at == latest.get(row.job_id)}
