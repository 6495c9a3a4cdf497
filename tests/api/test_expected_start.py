"""The expected start of a job through the API: its range and basis, or why there is none."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from foundation.core import clock
from scheduling.models import Attempt, CellForecast, ForecastResult, JobState
from tests.api.conftest import As
from tests.builders import jobs
from tests.builders.predictions import prediction
from tests.builders.world import World

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/workspaces/team-a/jobs/train/expected-start"


def test_the_latest_prediction_of_the_wait_with_its_basis_and_its_record(w: World, as_user: As) -> None:
    now = clock.now()
    for waited in (500, 1_300, 3_000, 3_590):
        prediction(
            jobs.job(w.queue, w.editor, state=JobState.SUCCEEDED), now - timedelta(days=1), waited_s=waited
        )
    old = prediction(
        jobs.job(w.queue, w.editor, state=JobState.SUCCEEDED), now - timedelta(days=40), waited_s=5
    )
    train = jobs.job(w.queue, w.editor, "train")
    prediction(train, now - timedelta(minutes=10))
    latest = prediction(train, now - timedelta(minutes=5), first=False, high_s=None)

    body = as_user(w.viewer).get(ADDRESS).json()

    def moment(seconds: int) -> datetime:
        return latest.made_at + timedelta(seconds=seconds)

    found = {name: at and datetime.fromisoformat(at) for name, at in body["range"].items()}
    assert found == {
        "earliest": moment(600),
        "likely_earliest": moment(1_200),
        "median": moment(1_800),
        "likely_latest": moment(2_400),
        "latest": None,
        "horizon_at": moment(259_200),
        "made_at": latest.made_at,
    }
    assert body["basis"] == {"futures": 24, "runs": 1_240, "run_group": "same_job", "outcomes": 60}
    assert body["unknown"] is None
    assert old.closed_at is not None
    assert body["calibration"] == {"days": 28, "jobs": 4, "held": 3, "likely_held": 1}


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ("", "not_yet"),
        (ForecastResult.DONE, "not_yet"),
        (ForecastResult.NO_HISTORY, "no_history"),
        (ForecastResult.OUT_OF_TIME, "out_of_time"),
        (ForecastResult.FAILED, "failed"),
    ],
)
def test_without_a_prediction_there_is_a_reason(w: World, as_user: As, result: str, why: str) -> None:
    jobs.job(w.queue, w.editor, "train")
    CellForecast.unscoped.create(cell=w.cell, result=result)

    body = as_user(w.viewer).get(ADDRESS).json()

    assert (body["range"], body["basis"], body["unknown"]) == (None, None, why)


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUSPENDED, JobState.SUCCEEDED])
def test_a_job_that_is_not_queued_has_no_expected_start(w: World, as_user: As, state: JobState) -> None:
    train = jobs.job(w.queue, w.editor, "train", state=state)
    prediction(train, clock.now())

    assert as_user(w.viewer).get(ADDRESS).json()["unknown"] == "not_queued"


def test_a_prediction_from_before_the_last_run_is_not_shown(w: World, as_user: As) -> None:
    train, now = jobs.job(w.queue, w.editor, "train"), clock.now()
    prediction(train, now - timedelta(minutes=10))
    ran = now - timedelta(minutes=2)
    Attempt.unscoped.create(job=train, number=1, epoch=1, admitted_at=ran, started_at=ran, ended_at=ran)

    assert as_user(w.viewer).get(ADDRESS).json()["range"] is None


def test_others_find_nothing(w: World, as_user: As) -> None:
    prediction(jobs.job(w.queue, w.editor, "train"), clock.now())

    assert as_user(w.outsider).get(ADDRESS).status_code == 404
    assert as_user(None).get(ADDRESS).status_code == 401
