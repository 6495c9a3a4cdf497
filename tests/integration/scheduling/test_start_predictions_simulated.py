"""Expected starts in a simulated cell: jobs run, later ones are predicted, and start within their ranges."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from foundation.core import clock
from scheduling.models import CellForecast, ForecastResult, StartPrediction
from scheduling.prediction.forecast import ForecastOptions
from scheduling.services.start_prediction import predict
from scheduling.services.start_prediction.outcomes import close_predictions
from tests.builders import jobs
from tests.builders.stage import Stage

pytestmark = pytest.mark.django_db


def test_jobs_of_a_simulated_cell_start_within_their_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes run one job of eight GPUs each for 40 seconds; after 24 such jobs six more are submitted."""
    monkeypatch.setattr(predict, "OPTIONS", ForecastOptions(futures=8, horizon_s=3_600.0))
    stage, begun = Stage(), clock.now()
    role = jobs.RoleOf(cards=8)
    for number in range(24):
        stage.submit(f"past-{number}", role, run_s=40)
    stage.run(700)
    with time_machine.travel(begun + timedelta(seconds=701), tick=False):
        stage.assert_nothing_is_held()
        for number in range(6):
            stage.submit(f"next-{number}", role, run_s=40)
        stage.run(15)
    now = begun + timedelta(seconds=717)

    predicted = predict.predict_starts(cell_id=stage.cell.pk, now=now)

    assert CellForecast.unscoped.get().result == ForecastResult.DONE
    assert predicted == 4
    with time_machine.travel(now, tick=False):
        stage.run(250)
    close_predictions(cell_id=stage.cell.pk, now=now + timedelta(seconds=251))
    rows = list(StartPrediction.unscoped.order_by("started_at"))
    waits = [(row.started_at - row.made_at).total_seconds() for row in rows if row.started_at]
    assert len(waits) == 4
    for row, waited in zip(rows, waits, strict=True):
        assert row.median_s is not None
        # The simulation leaves out the seconds that pods take to start and to end.
        assert abs(row.median_s - waited) <= 0.5 * waited + 20, (row.bounds, waited)
