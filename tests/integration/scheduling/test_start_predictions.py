"""Waiting jobs of a cell get predictions from its past, and the predictions their outcomes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db.models import F

from foundation.core import clock
from foundation.core.quantities import Resource
from quotas.models import Quota
from scheduling import tasks
from scheduling.models import Attempt, CellForecast, ForecastResult, Job, JobState, StartPrediction
from scheduling.prediction.calibration import FEWEST_SCORES
from scheduling.prediction.forecast import Forecast, ForecastOptions, StartRange, forecast_starts
from scheduling.selectors.pending.open_predictions import find_open_predictions
from scheduling.selectors.pending.start_prediction import job_expected_start
from scheduling.services.start_prediction import outcomes, predict
from scheduling.services.start_prediction.predict import EVERY, find_cell_to_predict, predict_starts
from scheduling.services.start_prediction.queue_times import list_pending_times
from tests.builders import clusters, jobs, quotas
from tests.builders.run_histories import finished_runs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
BUDGET_S = predict.OPTIONS.budget_s


@pytest.fixture(autouse=True)
def _bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few futures, and as much time for them as a busy machine needs."""
    monkeypatch.setattr(predict, "OPTIONS", ForecastOptions(futures=8, horizon_s=6 * 3_600.0))


@pytest.fixture
def here() -> World:
    """A world whose every node is taken by one job since ten minutes, and one job that waits for it."""
    made = world()
    Quota.unscoped.filter(node=made.queue.node).update(own_nominal=F("own_nominal") * 100)
    quotas.reserve(made.queue, made.flavor, Resource.GPU_CARDS, 8 * len(made.nodes))
    since = clock.now() - timedelta(minutes=10)
    for node in made.nodes:
        full = jobs.job(made.queue, made.editor, roles=[jobs.RoleOf(cards=8)], preemptible=False)
        attempt = jobs.allocate(full, node)
        Attempt.unscoped.filter(pk=attempt.pk).update(admitted_at=since, started_at=since)
        Job.unscoped.filter(pk=full.pk).update(admitted_at=since, started_at=since)
    return made


def waiting_job(here: World, **fields: object) -> Job:
    return jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=8)], **fields)  # type: ignore[arg-type]


def make_history(here: World, seconds: int = 3_600) -> None:
    finished_runs(here.queue, here.editor, [seconds] * 40, cards=8)


def test_a_waiting_job_starts_when_runs_like_those_before_it_end(here: World) -> None:
    make_history(here)
    job, now = waiting_job(here), clock.now()

    assert predict_starts(cell_id=here.cell.pk, now=now) == 1

    row = StartPrediction.unscoped.get()
    assert (row.job_id, row.queue_id, row.first, row.closed_at) == (job.pk, here.queue.pk, True, None)
    # All runs took an hour, of which ten minutes are over; arrivals of before come later than this one.
    assert row.median_s is not None and 2_950 <= row.median_s <= 3_200
    assert row.low_s is not None and row.low_s <= row.median_s
    assert (row.runs, row.run_group, row.futures) == (40, "same_job", 8)
    assert row.find_moment(row.median_s) == now + timedelta(seconds=row.median_s)
    forecast = CellForecast.unscoped.get()
    assert (forecast.result, forecast.made_at, forecast.waiting) == (ForecastResult.DONE, now, 1)


def test_without_history_there_is_no_prediction_and_a_reason(here: World) -> None:
    finished_runs(here.queue, here.editor, [60] * 5, cards=8)
    waiting_job(here)

    assert predict_starts(cell_id=here.cell.pk, now=clock.now()) == 0

    assert CellForecast.unscoped.get().result == ForecastResult.NO_HISTORY
    assert not StartPrediction.unscoped.exists()


def test_a_cell_is_forecast_once_in_five_minutes_and_not_without_waiting_jobs(here: World) -> None:
    now = clock.now()
    assert find_cell_to_predict(now=now) is None
    waiting_job(here)
    make_history(here)
    assert find_cell_to_predict(now=now) == here.cell.pk

    assert predict_starts(cell_id=here.cell.pk, now=now) == 1
    assert find_cell_to_predict(now=now + EVERY / 2) is None
    assert predict_starts(cell_id=here.cell.pk, now=now + EVERY / 2) == 0
    assert find_cell_to_predict(now=now + EVERY) == here.cell.pk
    assert predict_starts(cell_id=here.cell.pk, now=now + EVERY) == 1

    assert list(StartPrediction.unscoped.order_by("made_at").values_list("first", flat=True)) == [True, False]


def with_pending_job(here: World, name: str) -> uuid.UUID:
    """Return another cell, which has a pending job too."""
    cell = clusters.cell(name)
    flavor = clusters.flavor(clusters.cluster(cell, name))
    jobs.job(quotas.queue(cell, here.workspace, [flavor], name=name), here.editor)
    return cell.pk


def test_one_forecast_runs_at_a_time_that_of_the_most_overdue_cell(here: World) -> None:
    now, first, second = clock.now(), here.cell.pk, with_pending_job(here, "second")
    waiting_job(here)
    for cell, age in ((first, 2 * EVERY), (second, 3 * EVERY)):
        CellForecast.unscoped.create(cell_id=cell, begun_at=now - age, made_at=now - age)
    third = with_pending_job(here, "third")
    begun = []
    while (cell := find_cell_to_predict(now=now)) is not None:
        begun.append(cell)
        CellForecast.unscoped.update_or_create(cell_id=cell, defaults={"begun_at": now})
        assert find_cell_to_predict(now=now) is None, "it is running"
        CellForecast.unscoped.filter(cell=cell).update(made_at=now)
    assert begun == [third, second, first]


@pytest.mark.parametrize("made_at", [None, -EVERY], ids=["first", "later"])
def test_a_forecast_whose_process_was_ended_delays_others_only_for_its_limit(
    here: World, made_at: timedelta | None
) -> None:
    now, other = clock.now(), with_pending_job(here, "other")
    CellForecast.unscoped.create(
        cell=here.cell, begun_at=now, made_at=made_at if made_at is None else now + made_at
    )
    limit = timedelta(seconds=predict.TASK_LIMIT_S)
    assert find_cell_to_predict(now=now + limit - timedelta(seconds=1)) is None
    assert find_cell_to_predict(now=now + limit) == other
    assert find_cell_to_predict(now=now - limit) == other, "the clock was set back"


def test_the_end_of_a_forecast_starts_the_next_one(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting_job(here)
    other = with_pending_job(here, "other")
    sent: list[str] = []
    task = tasks.predict_cell_starts
    monkeypatch.setattr(task, "apply_async", lambda args, **_: sent.extend(args))
    tasks.predict_starts()
    task(sent[0])
    task(sent[1])
    assert sorted(sent) == sorted([str(here.cell.pk), str(other)])


def test_a_cell_is_forecast_after_its_clock_was_set_back(here: World) -> None:
    waiting_job(here)
    make_history(here)
    now = clock.now()
    predict_starts(cell_id=here.cell.pk, now=now)
    assert find_cell_to_predict(now=now - timedelta(days=1)) == here.cell.pk
    predict_starts(cell_id=here.cell.pk, now=now - timedelta(days=1))
    assert CellForecast.unscoped.get().begun_at == now - timedelta(days=1)


def test_a_start_closes_all_predictions_of_the_wait_and_a_new_wait_begins_anew(here: World) -> None:
    make_history(here)
    job, now = waiting_job(here), clock.now()
    for number in range(2):
        predict_starts(cell_id=here.cell.pk, now=now + number * EVERY)
    started = now + EVERY + timedelta(seconds=40)
    Attempt.unscoped.create(job=job, number=1, epoch=1, admitted_at=started, ended_at=started)
    # Evicted at once, it waits again.
    later = now + 2 * EVERY

    predict_starts(cell_id=here.cell.pk, now=later)

    rows = list(StartPrediction.unscoped.order_by("made_at"))
    assert [(row.first, row.started_at) for row in rows] == [(True, started), (False, started), (True, None)]
    assert rows[0].held is False, "it was predicted to wait for the end of the runs"
    assert rows[2].held is None


def test_an_open_prediction_of_an_earlier_wait_is_nowhere_that_of_the_present_one(here: World) -> None:
    make_history(here)
    job, now = waiting_job(here), clock.now()
    predict_starts(cell_id=here.cell.pk, now=now)
    job = Job.unscoped.get(pk=job.pk)
    assert set(find_open_predictions([job.pk])) == {job.pk}
    ended = now + timedelta(seconds=90)
    Attempt.unscoped.create(job=job, number=1, epoch=1, admitted_at=now - EVERY, ended_at=ended)

    assert not find_open_predictions([job.pk])
    assert job_expected_start(viewer=here.editor, job=job, now=ended).prediction is None
    assert list_pending_times([job])[0].starts == ()
    predict_starts(cell_id=here.cell.pk, now=now + EVERY)
    latest = StartPrediction.unscoped.latest("made_at")
    assert (latest.first, find_open_predictions([job.pk])[job.pk]) == (True, latest)


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.SUSPENDED])
def test_a_job_that_stops_waiting_is_neither_a_hit_nor_a_miss(here: World, state: JobState) -> None:
    make_history(here)
    job, now = waiting_job(here), clock.now()
    predict_starts(cell_id=here.cell.pk, now=now)
    Job.unscoped.filter(pk=job.pk).update(state=state)

    assert outcomes.close_predictions(cell_id=here.cell.pk, now=now + EVERY) == 1

    row = StartPrediction.unscoped.get()
    assert (row.started_at, row.closed_at, row.held) == (None, now + EVERY, None)
    assert outcomes.read_scores([here.queue.pk], now=now)[here.queue.pk] == []


def test_misses_widen_the_next_range(here: World) -> None:
    make_history(here)
    job, now = waiting_job(here), clock.now()
    predict_starts(cell_id=here.cell.pk, now=now)
    plain = StartPrediction.unscoped.get()
    for number in range(FEWEST_SCORES):
        _closed(plain, now - timedelta(hours=30, minutes=number), waited=timedelta(hours=20))

    predict_starts(cell_id=here.cell.pk, now=now + EVERY)

    predicted = StartPrediction.unscoped.filter(job=job).latest("made_at")
    assert predicted.outcomes == FEWEST_SCORES
    assert predicted.high_s is not None and plain.high_s is not None and predicted.high_s > 4 * plain.high_s


def _closed(like: StartPrediction, made_at: datetime, *, waited: timedelta) -> StartPrediction:
    like.pk, like._state.adding = None, True
    fields = {field.attname: getattr(like, field.attname) for field in like._meta.concrete_fields}
    fields |= {"made_at": made_at, "started_at": made_at + waited, "closed_at": made_at + waited}
    del fields["id"], fields["created_at"]
    return StartPrediction.unscoped.create(**fields)


def test_old_predictions_are_deleted_and_those_that_count_later(here: World) -> None:
    make_history(here)
    now = clock.now()
    waiting_job(here)
    predict_starts(cell_id=here.cell.pk, now=now)
    open_one = StartPrediction.unscoped.get()
    for number, (age, first) in enumerate(((8, False), (8, True), (91, True), (6, False))):
        made_at = now - timedelta(days=age, minutes=10 + number)
        row = _closed(StartPrediction.unscoped.get(pk=open_one.pk), made_at, waited=timedelta(minutes=1))
        StartPrediction.unscoped.filter(pk=row.pk).update(first=first)

    assert outcomes.prune_predictions(now=now) == 2

    kept = StartPrediction.unscoped.filter(closed_at__isnull=False).order_by("made_at")
    assert [((now - row.made_at).days, row.first) for row in kept] == [(8, True), (6, False)]


def cut_short(monkeypatch: pytest.MonkeyPatch, horizon_s: float, high_s: float | None) -> None:
    """Let the next forecasts look ahead no further; their ranges begin after 5 minutes."""

    def forecast(*args: Any, **kwargs: Any) -> Forecast:
        made = forecast_starts(*args, **kwargs)
        cut = StartRange((300.0, None, None, None, high_s), horizon_s)
        return replace(made, horizon_s=horizon_s, ranges=dict.fromkeys(made.ranges, cut))

    monkeypatch.setattr(predict, "forecast_starts", forecast)


@pytest.mark.parametrize(
    ("later", "horizon_s", "high_s", "kept"),
    [
        (EVERY, 840.0, None, True),
        (EVERY, 840.0, 800.0, False),  # it is complete
        (EVERY, 6 * 3_600.0, None, False),  # it covers a later time
        (timedelta(hours=5), 840.0, None, False),  # what was predicted before has passed
    ],
)
def test_a_prediction_that_is_cut_short_replaces_none_that_says_more(
    here: World,
    monkeypatch: pytest.MonkeyPatch,
    later: timedelta,
    horizon_s: float,
    high_s: float | None,
    kept: bool,
) -> None:
    make_history(here)
    job, now = waiting_job(here), clock.now()
    predict_starts(cell_id=here.cell.pk, now=now)
    before = StartPrediction.unscoped.get()
    cut_short(monkeypatch, horizon_s, high_s)

    assert predict_starts(cell_id=here.cell.pk, now=now + later) == (0 if kept else 1)

    shown = job_expected_start(viewer=here.editor, job=job, now=now + later).prediction
    assert shown is not None
    assert (shown.pk == before.pk) is kept
    assert shown.made_at == (now if kept else now + later)
    # Each wait still counts once, with what was said of it first.
    assert StartPrediction.unscoped.get(first=True).pk == before.pk


def test_the_first_prediction_of_a_wait_is_stored_although_it_is_cut_short(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_history(here)
    waiting_job(here)
    cut_short(monkeypatch, 840.0, None)

    assert predict_starts(cell_id=here.cell.pk, now=clock.now()) == 1

    row = StartPrediction.unscoped.get()
    assert (row.first, row.horizon_s, row.high_s) == (True, 840, None)


def test_time_in_which_others_use_the_processor_hardly_counts(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_history(here)
    waiting_job(here)
    counted = []

    def wait(*args: Any, stopwatch: Callable[[], float], **kwargs: Any) -> Forecast:
        begun = stopwatch()
        time.sleep(0.5)
        counted.append(stopwatch() - begun)
        return forecast_starts(*args, **kwargs)

    monkeypatch.setattr(predict, "forecast_starts", wait)
    predict_starts(cell_id=here.cell.pk, now=clock.now())

    assert counted[0] < 0.25
    assert predict.EVERY.total_seconds() > predict.TASK_LIMIT_S
    assert BUDGET_S is not None and BUDGET_S * predict.MOST_WALL_PER_WORK < predict.TASK_LIMIT_S - 10


def test_a_forecast_that_fails_says_so(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    make_history(here)
    waiting_job(here)

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(predict, "forecast_starts", fail)
    with pytest.raises(RuntimeError):
        predict_starts(cell_id=here.cell.pk, now=clock.now())

    assert CellForecast.unscoped.get().result == ForecastResult.FAILED


def test_a_forecast_reads_a_bounded_number_of_times(
    here: World, django_assert_max_num_queries: object
) -> None:
    make_history(here)
    for _ in range(12):
        waiting_job(here)
    with django_assert_max_num_queries(60):  # type: ignore[operator]
        predict_starts(cell_id=here.cell.pk, now=clock.now())
    assert StartPrediction.unscoped.count() == 12
