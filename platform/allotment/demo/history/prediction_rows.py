"""Converts the recorded predictions of starts into rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from allotment.demo.history.recording import RecordedPrediction
from scheduling.models import Job, StartPrediction


def prediction_rows(
    recorded: Sequence[RecordedPrediction],
    jobs: Mapping[int, Job],
    *,
    find_moment: Callable[[int], datetime],
    now: datetime,
) -> Iterator[StartPrediction]:
    """Yield the predictions made before `now`; those of jobs that have not started by then are open."""
    for one in recorded:
        made_at = find_moment(one.made_s)
        if made_at >= now:
            return
        job, start = jobs[one.job], None if one.started_s is None else find_moment(one.started_s)
        known = None if start is None or start >= now else start
        low, likely_low, median, likely_high, high = one.bounds
        yield StartPrediction(
            job=job, queue_id=job.queue_id, made_at=made_at, first=True, low_s=low,
            likely_low_s=likely_low, median_s=median, likely_high_s=likely_high, high_s=high,
            simulated=list(one.simulated), horizon_s=one.horizon_s, futures=one.futures, runs=one.runs,
            run_group=one.run_group, outcomes=one.outcomes, started_at=known, closed_at=known,
            created_at=made_at,
        )  # fmt: skip
