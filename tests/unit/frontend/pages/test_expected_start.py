"""The expected start on the page of a job, and its accuracy on the page of a queue."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
import time_machine
from django.test import Client
from django.utils import translation

from foundation.core import clock
from frontend.pages.jobs.pending.job_expected import format_basis
from frontend.pages.policies.queue_timeline import describe_timeline
from scheduling.models import CellForecast, ForecastResult, Job, JobState, StartPrediction
from scheduling.prediction.run_times import RunGroup
from tenants.models import User
from tests.builders import jobs
from tests.builders.predictions import prediction
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


def text_of(client: Client, who: User, address: str, key: str) -> str:
    """The words of one card of a page."""
    client.force_login(who)
    answer = client.get(address)
    assert answer.status_code == 200
    found = re.search(rf'<section class="card" id="{key}".*?</section>', answer.content.decode(), re.DOTALL)
    assert found, "the card is missing"
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found[0])).split())


def job_text(client: Client, w: World, job: Job) -> str:
    return text_of(client, w.viewer, f"/w/team-a/jobs/{job.pk}", "expected-start")


def started(w: World, waited_s: int) -> None:
    job = jobs.job(w.queue, w.editor, state=JobState.SUCCEEDED)
    prediction(job, clock.now() - timedelta(days=2), waited_s=waited_s)


@pytest.mark.parametrize(
    ("age_s", "shown", "likely"),
    [
        # The 90 % range is 10 to 60 minutes after the prediction, the 50 % range 20 to 40.
        (0, "12:10 – 13:00", "50 % range: 12:20 – 12:40"),
        (1_500, "12:00 – 12:35", "50 % range: 12:00 – 12:15"),
        (3_000, "12:00 – 12:10", ""),
    ],
)
def test_a_job_that_waits_is_expected_from_now_on(
    client: Client, w: World, age_s: int, shown: str, likely: str
) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    with time_machine.travel(now, tick=False):
        job = jobs.job(w.queue, w.editor)
        prediction(job, now - timedelta(seconds=age_s))
        text = job_text(client, w, job)
    assert shown in text
    assert likely in text if likely else "50 % range" not in text


def test_a_range_that_has_passed_is_no_expected_start(client: Client, w: World) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    with time_machine.travel(now, tick=False):
        job = jobs.job(w.queue, w.editor)
        prediction(job, now - timedelta(seconds=3_660))
        text = job_text(client, w, job)
        (row,) = describe_timeline(w.admin, w.queue).pending  # type: ignore[union-attr]
    assert "Later than estimated The 90 % range 11:09 – 11:59 has passed." in text
    assert "50 % range" not in text
    assert (row.unknown, row.wide, row.likely) == ("Later than estimated", None, None)


def test_a_range_with_its_basis_and_its_record(client: Client, w: World) -> None:
    for waited in 4 * (1_300, 3_000, 3_900):
        started(w, waited)
    job = jobs.job(w.queue, w.editor)
    prediction(job, clock.now())

    shown = job_text(client, w, job)

    assert "90 % range. 50 % range:" in shown
    assert "Based on 24 simulations of the scheduling domain with its usual jobs, 3 d ahead." in shown
    assert "that of this job from 1,240 runs of this user" in shown
    assert "An estimate, not a guarantee." in shown
    assert "In the last 28 days, the 90 % range held for 67 % of 12 jobs in this queue." in shown


def test_a_record_of_too_few_jobs_has_no_figure(client: Client, w: World) -> None:
    for waited in 3 * (1_300, 3_000, 3_900):
        started(w, waited)
    job = jobs.job(w.queue, w.editor)
    prediction(job, clock.now())

    shown = job_text(client, w, job)

    assert "Accuracy is shown from 10 started jobs on; 9 so far." in shown
    assert "range held for" not in shown


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"high_s": None}, "or later 90 % range; may not start within 3 d."),
        ({"high_s": None, "likely_high_s": None}, "50 % range:"),
        (
            {"low_s": None, "likely_low_s": None, "median_s": None, "likely_high_s": None, "high_s": None},
            "Not within 3 d",
        ),
    ],
)
def test_what_lies_beyond_the_horizon_is_said_so(
    client: Client, w: World, fields: dict[str, None], expected: str
) -> None:
    with time_machine.travel(clock.now(), tick=False):  # a second later it looks less far ahead than 3 d
        job = jobs.job(w.queue, w.editor)
        prediction(job, clock.now(), **fields)
        assert expected in job_text(client, w, job)


@pytest.mark.parametrize(
    ("age", "shown", "row"),
    [
        (timedelta(hours=1), "Not within 2 d 23 h", "Not within 2 d 23 h"),
        (timedelta(days=4), "Later than estimated.", "Later than estimated"),
    ],
)
def test_the_horizon_counts_from_now(client: Client, w: World, age: timedelta, shown: str, row: str) -> None:
    """A prediction of an hour ago looks an hour less far ahead than it did."""
    bounds = dict.fromkeys(("low_s", "likely_low_s", "median_s", "likely_high_s", "high_s"))
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    with time_machine.travel(now, tick=False):
        job = jobs.job(w.queue, w.editor)
        prediction(job, now - age, **bounds)
        text = job_text(client, w, job)
        (found,) = describe_timeline(w.admin, w.queue).pending  # type: ignore[union-attr]
    assert shown in text
    assert found.unknown == row


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("", "Not available yet"),
        (ForecastResult.NO_HISTORY, "fewer than 20 jobs have finished"),
        (ForecastResult.OUT_OF_TIME, "took too long"),
        (ForecastResult.FAILED, "last estimate failed"),
    ],
)
def test_without_a_forecast_the_page_says_why(client: Client, w: World, result: str, expected: str) -> None:
    CellForecast.unscoped.create(cell=w.cell, result=result)

    assert expected in job_text(client, w, jobs.job(w.queue, w.editor))


def test_every_basis_has_its_words_in_both_languages() -> None:
    def format_each() -> set[str]:
        return {
            format_basis(StartPrediction(futures=24, runs=1_240, run_group=level.value, horizon_s=3_600))
            for level in RunGroup
        }

    predicted = format_each()
    with translation.override("zh-hans"):
        translated = format_each()

    assert len(predicted) == len(translated) == len(RunGroup)
    assert not predicted & translated


def test_the_queue_page_shows_how_ranges_held_in_words_and_as_a_chart(client: Client, w: World) -> None:
    page = f"/ops/queues/{w.workspace.slug}/{w.queue.name}"
    assert "has started yet" in text_of(client, w.admin, page, "accuracy")
    for waited in 2 * (1_300, 3_000, 3_900, 100):
        started(w, waited)
    few = text_of(client, w.admin, page, "accuracy")
    assert "Accuracy is shown from 10 started jobs on; 8 so far." in few
    assert "chart-expected-starts" not in few and "%" not in few
    for waited in (1_300, 3_000, 3_900, 100):
        started(w, waited)

    shown = text_of(client, w.admin, page, "accuracy")

    assert "The 90 % range held for 50 % and the 50 % range for 25 % of 12 jobs." in shown
    client.force_login(w.admin)
    assert (
        "In 50 % range 3 jobs, In 90 % range only 3 jobs, Outside 6 jobs" in client.get(page).content.decode()
    )


def test_the_record_of_another_queue_is_not_counted(client: Client, w: World) -> None:
    other = jobs.job(w.other_queue, w.outsider, state=JobState.SUCCEEDED)
    prediction(other, clock.now() - timedelta(days=2), waited_s=1)
    job = jobs.job(w.queue, w.editor)
    prediction(job, clock.now())

    assert "In the last" not in job_text(client, w, job)
    assert client.get(f"/ops/queues/team-b/{w.other_queue.name}").status_code == 404
