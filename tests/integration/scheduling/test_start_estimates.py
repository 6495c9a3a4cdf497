"""A user's estimate of a draft is what the forecast says of the job once it is submitted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.db.models import F

from clusters.models import ADMITS_ITSELF, Cluster, Sharing
from foundation.core import clock
from foundation.core.errors import AllotmentError, Conflict, PermissionDenied
from foundation.core.quantities import Resource
from quotas.models import Quota, Strategy
from quotas.services.quota import NodeAmounts, QuotaAmount
from scheduling.job_file import parse_job
from scheduling.models import (
    Attempt,
    EstimateSubject,
    Job,
    PolicyReplay,
    SimulationState,
    StartEstimate,
    StartPrediction,
)
from scheduling.prediction.comparison import SHORTEST_S
from scheduling.prediction.forecast import ForecastOptions
from scheduling.services.jobs.job import job_submit
from scheduling.services.simulations import background_run
from scheduling.services.simulations.background_run import (
    LOST_AFTER,
    MOST_RUNS,
    SimulationRun,
    StoppedError,
    TooLongError,
    find_simulation_to_run,
    run_simulation,
)
from scheduling.services.start_estimate import change, change_request, draft, request, run
from scheduling.services.start_prediction import predict
from tests.builders import jobs, quotas, replays
from tests.builders.run_histories import finished_runs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
BODY: dict[str, Any] = {"name": "asked", "roles": [{"resources": {"cpu": 1, "gpu": {"cards": 8}}}]}
BOUNDS = ("low_s", "likely_low_s", "median_s", "likely_high_s", "high_s", "horizon_s", "futures", "runs")


@pytest.fixture(autouse=True)
def _few_futures(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ForecastOptions(futures=8, horizon_s=6 * 3_600.0)
    monkeypatch.setattr(predict, "OPTIONS", options)
    monkeypatch.setattr(draft, "OPTIONS", options)
    monkeypatch.setattr(change, "OPTIONS", replace(options, paired=True))


@pytest.fixture
def here() -> World:
    """A world whose nodes are taken by jobs since ten and forty minutes, with a history of runs."""
    made = world()
    Quota.unscoped.filter(node=made.queue.node).update(own_nominal=F("own_nominal") * 100)
    quotas.reserve(made.queue, made.flavor, Resource.GPU_CARDS, 8 * len(made.nodes))
    for node, minutes in zip(made.nodes, (10, 40), strict=False):
        since = clock.now() - timedelta(minutes=minutes)
        full = jobs.job(made.queue, made.editor, roles=[jobs.RoleOf(cards=8)], preemptible=False)
        attempt = jobs.allocate(full, node)
        Attempt.unscoped.filter(pk=attempt.pk).update(admitted_at=since, started_at=since)
        Job.unscoped.filter(pk=full.pk).update(admitted_at=since, started_at=since)
    finished_runs(made.queue, made.editor, [600 + 300 * number for number in range(40)], cards=8)
    return made


def ask(here: World, body: dict[str, Any] = BODY, **fields: Any) -> StartEstimate:
    who = {"acting_user": here.editor, "workspace": here.workspace} | fields
    return request.request_draft_estimate(body=body, **who)


def find(here: World, pk: Any, **fields: Any) -> StartEstimate | None:
    viewer = {"viewer": here.editor, "workspace": here.workspace} | fields
    return request.find_estimate(subject=EstimateSubject.DRAFT, now=clock.now(), pk=pk, **viewer)


def test_the_estimate_of_a_draft_is_the_prediction_of_the_submitted_job(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minutes in (3, 2):  # it waits behind others
        jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=8)],
                 submitted_at=clock.now() - timedelta(minutes=minutes))  # fmt: skip
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)

    made = ask(here)
    assert find_simulation_to_run(now=now) == made
    assert run.run_estimate(made.pk)

    made.refresh_from_db()
    assert (made.state, made.progress, made.asked) == (SimulationState.DONE, 1_000, {})
    job = job_submit(acting_user=here.editor, workspace=here.workspace, spec=parse_job(BODY))
    predict.predict_starts(cell_id=here.cell.pk, now=now)
    stored = StartPrediction.unscoped.get(job=job)
    assert {name: made.result[name] for name in BOUNDS} == {name: getattr(stored, name) for name in BOUNDS}
    assert stored.low_s is not None and stored.low_s > 60, "it waits"
    assert made.result["run_group"] == stored.run_group


def test_an_estimate_writes_nothing_but_itself(here: World) -> None:
    before = Job.unscoped.count(), StartPrediction.unscoped.count()
    assert run.run_estimate(ask(here).pk)
    assert (Job.unscoped.count(), StartPrediction.unscoped.count()) == before


def test_only_its_user_finds_an_estimate_and_only_in_its_workspace(here: World) -> None:
    made = ask(here)

    assert find(here, made.pk) == made
    assert find(here, made.pk, viewer=here.admin) is None
    assert find(here, made.pk, viewer=here.platform_admin) is None
    assert find(here, made.pk, workspace=here.other_workspace) is None
    assert request.find_estimate(
        viewer=here.editor, subject=EstimateSubject.DRAFT, workspace=here.workspace, now=clock.now(),
        key=request.key_of_draft({**BODY, "name": "renamed"}),
    ) == made  # fmt: skip
    request.cancel_estimate(acting_user=here.admin, subject=EstimateSubject.DRAFT)
    made.refresh_from_db()
    assert made.state == SimulationState.PENDING


def test_a_result_is_shown_for_ten_minutes_and_a_new_request_replaces_it(here: World) -> None:
    made = ask(here)
    run.run_estimate(made.pk)
    assert find(here, made.pk) is not None
    StartEstimate.unscoped.update(finished_at=clock.now() - request.SHOWN_FOR - timedelta(seconds=1))
    assert find(here, made.pk) is None

    other = ask(here, {**BODY, "max_run_s": 60})
    assert list(StartEstimate.unscoped.all()) == [other]
    request.prune_estimates(now=clock.now() + request.STORED_FOR + timedelta(minutes=1))
    assert not StartEstimate.unscoped.exists()


@pytest.mark.parametrize("change", ["cancel", "replace"])
def test_a_canceled_estimate_stops_on_the_way_and_has_no_result(
    here: World, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_run, "_REPORT_EVERY_S", 0.0)
    made = ask(here)
    parts = []

    def compute(running: SimulationRun) -> None:
        running.report_progress(0.25)
        parts.append(StartEstimate.unscoped.get(pk=made.pk).part_done)
        if change == "cancel":
            request.cancel_estimate(acting_user=here.editor, subject=EstimateSubject.DRAFT)
        else:
            ask(here, {**BODY, "max_run_s": 60})
        with pytest.raises(StoppedError):
            running.report_progress(0.5)
        running.write_fields(result={"made_at": ""})

    assert not run_simulation(StartEstimate, made.pk, compute)
    assert parts == [0.25]
    row = StartEstimate.unscoped.get()
    expected = SimulationState.CANCELED if change == "cancel" else SimulationState.PENDING
    assert (row.state, row.result) == (expected, {})


def test_the_progress_of_the_simulation_is_reported(here: World) -> None:
    parts: list[float] = []
    draft.estimate_draft(
        acting_user=here.editor, workspace=here.workspace, body=BODY, now=clock.now(), report=parts.append
    )
    assert parts == sorted(parts) and parts[0] == 0.0 and parts[-1] >= 7 / 8


def test_estimates_and_replays_wait_for_each_other_for_a_limited_time(here: World) -> None:
    """A steady flow of estimates and replays: an estimate waits for one replay, a replay for the estimates
    that are pending."""
    started = []

    def start_next() -> None:
        found = find_simulation_to_run(now=clock.now())
        assert found is not None
        assert run_simulation(type(found), found.pk, lambda running: running.write_fields(result={}))
        started.append(names[found.pk])

    names: dict[Any, str] = {}
    names[ask(here).pk] = "estimate 1"
    for number in (1, 2, 3):
        names[replays.replay(here.cell, state=SimulationState.PENDING).pk] = f"replay {number}"
    names[ask(here, acting_user=here.admin).pk] = "estimate 2"
    for number in (3, 4, 5, 6, 7, 8):
        start_next()
        pending = StartEstimate.unscoped.filter(state=SimulationState.PENDING).values_list(
            "user_id", flat=True
        )
        for user in {here.editor, here.admin} - {
            one for one in (here.editor, here.admin) if one.pk in pending
        }:
            names[ask(here, acting_user=user).pk] = f"estimate {number}"
    assert started == ["estimate 1", "replay 1", "estimate 2", "estimate 3", "replay 2", "estimate 5"]


def test_a_task_that_waited_in_the_broker_does_not_begin_beside_another(here: World) -> None:
    replay, estimate = replays.replay(here.cell, state=SimulationState.PENDING), ask(here)
    rows = {PolicyReplay: replay, StartEstimate: estimate}

    for first, second in (rows, list(rows)[::-1]):
        started = []

        def compute(running: SimulationRun, other: Any = second, started: list[bool] = started) -> None:
            started.append(run_simulation(other, rows[other].pk, lambda running: None))

        assert run_simulation(first, rows[first].pk, compute)
        assert started == [False]
        rows[second].refresh_from_db()
        assert rows[second].state == SimulationState.PENDING
        assert rows[first].__class__.unscoped.update(state=SimulationState.PENDING)


def test_one_simulation_at_a_time_runs_and_a_lost_one_fails_in_the_end(here: World) -> None:
    replays.replay(here.cell, state=SimulationState.PENDING)
    estimate = ask(here)

    PolicyReplay.unscoped.update(state=SimulationState.RUNNING, seen_at=clock.now())
    assert find_simulation_to_run(now=clock.now()) is None
    PolicyReplay.unscoped.update(state=SimulationState.DONE)
    StartEstimate.unscoped.update(state=SimulationState.RUNNING, seen_at=clock.now(), runs=MOST_RUNS)
    assert find_simulation_to_run(now=clock.now()) is None
    assert find_simulation_to_run(now=clock.now() + LOST_AFTER + timedelta(seconds=1)) is None
    estimate.refresh_from_db()
    assert (estimate.state, estimate.error, estimate.asked) == (SimulationState.FAILED, "INTERRUPTED", {})


@pytest.mark.parametrize("end", ["done", "refused", "too long", "failed", "canceled", "interrupted"])
def test_an_estimate_that_has_ended_keeps_nothing_of_the_draft(here: World, end: str) -> None:
    errors = {"refused": Conflict("", code="CLOSED"), "too long": TooLongError(), "failed": KeyError("bug")}
    made = ask(here)
    assert made.asked

    def compute(running: SimulationRun) -> None:
        if end in errors:
            raise errors[end]

    if end == "canceled":
        request.cancel_estimate(acting_user=here.editor, subject=EstimateSubject.DRAFT)
    elif end == "interrupted":
        StartEstimate.unscoped.update(state=SimulationState.RUNNING, runs=MOST_RUNS)
        assert find_simulation_to_run(now=clock.now()) is None
    else:
        with suppress(KeyError):
            run_simulation(StartEstimate, made.pk, compute)
    made.refresh_from_db()
    assert made.has_ended and made.finished_at
    assert made.asked == {}


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan"])
def test_numbers_that_json_has_not_are_estimated_as_the_job_stores_them(here: World, value: str) -> None:
    text = f"environment: {{A: {value}}}\nroles: [{{command: [{value}], resources: {{cpu: 1}}}}]"
    made = ask(here, {"name": "asked", **yaml.safe_load(text)})
    stored = StartEstimate.unscoped.get(pk=made.pk).asked
    assert stored["environment"] == {"A": stored["roles"][0]["command"][0]}
    assert run.run_estimate(made.pk)


def test_an_impossible_estimate_says_why(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AllotmentError):
        ask(here, {**BODY, "queue": "nowhere"})
    monkeypatch.setattr(draft, "OPTIONS", replace(draft.OPTIONS, budget_s=0.0))
    assert error_of(here) == "OUT_OF_TIME"
    Attempt.unscoped.update(started_at=None)
    assert error_of(here) == "NO_HISTORY"
    made = ask(here)
    here.queue.closed_at = clock.now()
    here.queue.save()
    assert run.run_estimate(made.pk)
    assert StartEstimate.unscoped.get().error == "QUEUE_UNKNOWN"


def error_of(here: World) -> str:
    assert run.run_estimate(ask(here).pk)
    row = StartEstimate.unscoped.get()
    assert (row.state, row.result, row.asked) == (SimulationState.FAILED, {}, {})
    return row.error


def test_too_many_pending_estimates_are_refused(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "MOST_OPEN", 1)
    ask(here)
    ask(here)  # it replaces the user's own
    with pytest.raises(Conflict, match="Too many"):
        ask(here, acting_user=here.admin)


def test_more_quota_lets_jobs_start_earlier_and_others_later(here: World) -> None:
    """Two teams wait for the same nodes: the first one has no quota, and with quota it is next."""
    own = Quota.unscoped.filter(node=here.queue.node)
    own.update(own_nominal=0, borrowing_limit=0)
    Quota.unscoped.filter(node=here.other_queue.node).update(own_nominal=10**8)
    now = clock.now()
    mine, *theirs = (
        jobs.job(queue, user, roles=[jobs.RoleOf(cards=8)], preemptible=False,
                 submitted_at=now - timedelta(minutes=ago))
        for queue, user, ago in (
            (here.queue, here.editor, 9), (here.other_queue, here.outsider, 8),
            (here.other_queue, here.outsider, 7), (here.other_queue, here.outsider, 6),
        )
    )  # fmt: skip
    rows = [[str(here.queue.node.pk), str(row.flavor_id), row.resource, 10**8, 0, None] for row in own]

    found = change.compare_starts(here.cell.pk, {"quotas": rows}, now=now)
    again = change.compare_starts(here.cell.pk, {"quotas": rows}, now=now)
    none = change.compare_starts(here.cell.pk, {}, now=now)

    assert found == again, "the same seed gives the same estimate"
    assert (none["earlier"], none["later"], none["preempted"]) == ([], [], [])
    assert none["evaluated"] == 4
    (earlier,) = found["earlier"]
    assert (earlier["job"], earlier["before"]) == (str(mine.pk), None)
    assert earlier["after"] > 0
    assert found["later"]
    for later in found["later"]:
        assert later["job"] in {str(job.pk) for job in theirs}
        assert later["after"] is None or later["after"] > later["before"] + SHORTEST_S
    assert found["preempted"] == []


def test_jobs_over_the_new_quota_are_preempted_at_once_and_others_start(here: World) -> None:
    """Half of the nodes' jobs exceed a quota of eight GPUs; the other team waits for a node."""
    held = {str(job.pk) for job in Job.unscoped.filter(state="running")} | {
        str(job.pk) for job in Job.unscoped.filter(queue=here.queue, finished_at__isnull=True)
    }
    waits = jobs.job(here.other_queue, here.outsider, roles=[jobs.RoleOf(cards=8)], preemptible=False)
    node, flavor = str(here.queue.node.pk), str(here.flavor.pk)
    asked = {
        "quotas": [[node, flavor, Resource.GPU_CARDS, 8, 0, None]],
        "drained": [[node, flavor, Resource.GPU_CARDS, 16, 8]],
    }

    found = change.compare_starts(here.cell.pk, asked, now=clock.now())

    (drained,) = found["preempted"]
    assert drained["job"] in held and drained["after"] == 0
    (earlier,) = found["earlier"]
    assert (earlier["job"], earlier["after"]) == (str(waits.pk), 0)
    assert earlier["before"] is None or earlier["before"] > 60


def test_a_change_is_requested_by_those_who_may_make_it_and_computed(here: World) -> None:
    jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=8)])
    settings = {"strategy": Strategy.STRICT}
    with pytest.raises(PermissionDenied):
        change_request.request_queue_estimate(acting_user=here.viewer, queue=here.queue, values=settings)
    with pytest.raises(PermissionDenied):
        change_request.request_sharing_estimate(
            acting_user=here.admin, cell=here.cell, sharing=Sharing.CLASSICAL
        )
    made = change_request.request_queue_estimate(acting_user=here.admin, queue=here.queue, values=settings)
    other = change_request.request_sharing_estimate(
        acting_user=here.platform_admin, cell=here.cell, sharing=Sharing.CLASSICAL
    )
    for estimate in (made, other):
        assert run.run_estimate(estimate.pk)
        estimate.refresh_from_db()
        assert (estimate.state, estimate.error, estimate.asked) == (SimulationState.DONE, "", {})
        assert (estimate.result["evaluated"], estimate.result["futures"]) == (1, 8)


def test_a_change_for_another_scheduler_gets_no_estimate(here: World) -> None:
    """The platform's engine doesn't decide about a cluster with a scheduler of its own."""
    change = NodeAmounts(here.queue.node, [QuotaAmount(here.flavor, Resource.GPU_CARDS, 4)])
    asker = here.platform_admin

    def request_settings() -> StartEstimate:
        settings = {"strategy": Strategy.STRICT}
        return change_request.request_queue_estimate(acting_user=asker, queue=here.queue, values=settings)

    def request_quota() -> StartEstimate:
        cell = here.cell.pk
        return change_request.request_quota_estimate(acting_user=asker, cell_id=cell, changes=[change])

    for request_estimate in (request_settings, request_quota):
        request_estimate()
    Cluster.unscoped.update(backend=min(ADMITS_ITSELF))
    for request_estimate in (request_settings, request_quota):
        with pytest.raises(Conflict, match="own scheduler"):
            request_estimate()
