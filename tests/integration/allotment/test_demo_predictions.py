"""The predictions in the demo's week were made before what they predict, and have its outcome."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
import time_machine

from allotment.demo.start import prepare_installation
from clusters.models import Cell
from foundation.core import clock
from foundation.core.actor import SYSTEM
from quotas.models import Queue
from scheduling.models import Attempt, JobState, StartPrediction
from scheduling.selectors.pending.start_prediction import queue_calibration
from scheduling.services.start_prediction.outcomes import close_predictions

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]


def test_predictions_of_the_week_have_the_outcomes_of_its_jobs(tmp_path: Path) -> None:
    with time_machine.travel("2026-12-03T15:20:00Z", tick=False):
        prepare_installation(home=tmp_path, demo=True)
        starts = defaultdict(list)
        for job, at in Attempt.unscoped.order_by("admitted_at").values_list("job_id", "admitted_at"):
            starts[job].append(at)
        held = Counter[bool | None]()
        for row in StartPrediction.unscoped.select_related("job"):
            assert row.first and row.job.submitted_at <= row.made_at < clock.now()
            start = next((at for at in starts[row.job_id] if at >= row.made_at), None)
            assert (row.started_at, row.closed_at) == (start, start)
            assert start is not None or row.job.state == JobState.QUEUED
            assert row.runs and row.futures and len(row.simulated) == 5
            held[row.held] += 1
        assert held[True] > 2 * held[False] > 0
        found = [queue_calibration(viewer=SYSTEM, queue=one, now=clock.now()) for one in Queue.unscoped.all()]
        assert all(one.weeks for one in found)
        assert sum(one.total.are_enough for one in found) >= 3
        assert close_predictions(cell_id=Cell.unscoped.get(name="default").pk, now=clock.now()) == 0
