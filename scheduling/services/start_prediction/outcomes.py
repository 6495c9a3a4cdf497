"""Records the outcomes of predictions when jobs start or stop waiting; they calibrate later predictions."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from foundation.sql import row_scope
from scheduling.models import PENDING_STATES, Attempt, Job, StartPrediction
from scheduling.prediction.calibration import MOST_SCORES, Scores, score_open, score_range
from scheduling.prediction.forecast import StartRange

KEEP_COUNTED: Final = timedelta(days=90)
"""The time for which the first prediction of each wait is kept; later ones are kept for `KEEP_OTHERS`."""
KEEP_OTHERS: Final = timedelta(days=7)
_BATCH: Final = 2_000


@row_scope.whole()
def close_predictions(*, cell_id: uuid.UUID, now: datetime) -> int:
    """Close the predictions of jobs that have started, or stopped waiting without a start; return how many.

    It may run twice or late: the start is that of the first attempt after the prediction.
    """
    rows = list(StartPrediction.unscoped.filter(queue__cell_id=cell_id, closed_at__isnull=True))
    if not rows:
        return 0
    jobs = {row.job_id for row in rows}
    oldest = min(row.made_at for row in rows)
    starts: defaultdict[uuid.UUID, list[datetime]] = defaultdict(list)
    began = Attempt.unscoped.filter(job_id__in=jobs, admitted_at__gte=oldest).order_by("admitted_at")
    for job_id, at in began.values_list("job_id", "admitted_at"):
        starts[job_id].append(at)
    waiting = set(Job.unscoped.filter(pk__in=jobs, state__in=PENDING_STATES).values_list("pk", flat=True))
    closed = []
    for row in rows:
        start = next((at for at in starts[row.job_id] if at >= row.made_at), None)
        if start is not None or row.job_id not in waiting:
            row.started_at, row.closed_at = start, start or now
            closed.append(row)
    StartPrediction.unscoped.bulk_update(closed, ["started_at", "closed_at"], batch_size=500)
    return len(closed)


def read_scores(queues: Sequence[uuid.UUID], *, now: datetime) -> Mapping[uuid.UUID, list[Scores]]:
    """Return the latest scores of each queue, oldest first; jobs that still wait beyond their range count
    too."""
    found: dict[uuid.UUID, list[Scores]] = {}
    for queue in queues:
        first = StartPrediction.unscoped.filter(queue_id=queue, first=True)
        closed = first.filter(started_at__isnull=False).order_by("-closed_at")[:MOST_SCORES]
        scored: list[tuple[datetime, Scores]] = []
        for row in closed:
            if row.started_at is not None:
                waited = max((row.started_at - row.made_at).total_seconds(), 0.0)
                scored.append((row.started_at, score_range(_simulated(row), waited)))
        for row in first.filter(closed_at__isnull=True).order_by("-made_at")[:MOST_SCORES]:
            score = score_open(_simulated(row), (now - row.made_at).total_seconds())
            if score is not None:
                scored.append((now, score))
        scored.sort(key=lambda one: one[0])
        found[queue] = [score for _, score in scored]
    return found


def prune_predictions(*, now: datetime) -> int:
    """Delete predictions that are no longer shown or counted; return the number of rows."""
    closed = StartPrediction.unscoped.filter(closed_at__lt=now - KEEP_OTHERS)
    others = closed.filter(first=False)
    counted = StartPrediction.unscoped.filter(first=True, closed_at__lt=now - KEEP_COUNTED)
    deleted = 0
    for rows in (others, counted):
        ids = list(rows.order_by("closed_at").values_list("pk", flat=True)[:_BATCH])
        deleted += StartPrediction.unscoped.filter(pk__in=ids).delete()[0]
    return deleted


def _simulated(row: StartPrediction) -> StartRange:
    return StartRange(tuple(row.simulated), row.horizon_s)
