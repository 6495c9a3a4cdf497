"""The past of a queue: waits until the first admission, and demand beside the nominal quota."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.test import Client

from foundation.core.errors import NotFound
from quotas.models import QuotaChange, QuotaRevision
from scheduling.models import Allocation, Attempt, Job, JobState
from telemetry.usage.queue_history import queue_demand, queue_rates, queue_waits
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
START = NOW - timedelta(hours=24)


@pytest.fixture
def w() -> World:
    with time_machine.travel(NOW - timedelta(days=2), tick=False):
        return world()


def attempt(
    job: Job, since: datetime, until: datetime | None = None, *, number: int = 1, why: str = ""
) -> None:
    Attempt.unscoped.create(
        job=job, number=number, epoch=1, admitted_at=since, ended_at=until, end_reason=why
    )


def test_waits_are_from_submission_to_the_first_admission(w: World) -> None:
    at = NOW - timedelta(hours=3)
    for minutes in (10, 30):
        done = jobs.job(
            w.queue, w.editor, state=JobState.SUCCEEDED, submitted_at=at - timedelta(minutes=minutes)
        )
        attempt(done, at, NOW - timedelta(hours=2), why="FAIR_SHARE")
        attempt(done, NOW - timedelta(hours=1), number=2)
    with time_machine.travel(NOW, tick=False):
        parts = queue_waits(w.viewer, w.queue, START, NOW)
        with pytest.raises(NotFound):
            queue_waits(w.outsider, w.queue, START, NOW)
    assert [(part.at, *part[1:]) for part in parts if part.jobs] == [(at, 2, 1200.0, 1800.0)]
    assert {part.mean_s for part in parts if not part.jobs} == {None}


def test_rates_are_admissions_and_evictions_per_hour(w: World) -> None:
    hour = timedelta(hours=1)
    evicted = jobs.job(w.queue, w.editor, submitted_at=NOW - 6 * hour)
    attempt(evicted, NOW - 5 * hour, NOW - 3 * hour + timedelta(minutes=1), why="FAIR_SHARE")
    attempt(evicted, NOW - 3 * hour + timedelta(minutes=2), NOW - 2 * hour, number=2, why="TASK_FAILED")
    late = jobs.job(w.queue, w.editor, submitted_at=NOW - 6 * hour)
    attempt(late, NOW - 3 * hour + timedelta(minutes=3), NOW - 2 * hour, why="USER")
    with time_machine.travel(NOW + timedelta(minutes=10), tick=False):
        parts = queue_rates(w.viewer, w.queue, START + timedelta(minutes=10), NOW + timedelta(minutes=10))
        week = queue_rates(w.viewer, w.queue, NOW - timedelta(days=7), NOW)
        with pytest.raises(NotFound):
            queue_rates(w.outsider, w.queue, START, NOW)
    found = {(NOW - part.at) / hour: (part.admitted, part.evicted) for part in parts}
    assert found[5] == (1.0, 0.0)
    assert found[3] == (2.0, 1.0), "the end of a job by its user or its own failure is no eviction"
    assert found[1] == (0.0, 0.0)
    assert found[0] == (None, None), "the hour isn't over"
    assert max(part.admitted or 0 for part in week) == 3 / 12


def test_demand_is_what_was_allocated_and_what_pending_jobs_asked_for(w: World) -> None:
    hour = timedelta(hours=1)
    with time_machine.travel(NOW - 4 * hour, tick=False):
        held = jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(cards=2)], submitted_at=NOW - 6 * hour)
        jobs.allocate(held, w.nodes[0])
    Allocation.unscoped.update(charge={"gpu.cores": 200, "gpu.cards": 2})
    jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(replicas=3)], submitted_at=NOW - 2 * hour)
    gone = jobs.job(w.queue, w.editor, state=JobState.CANCELLED, submitted_at=NOW - 10 * hour)
    Job.unscoped.filter(pk=gone.pk).update(finished_at=NOW - 8 * hour)
    other = jobs.job(w.queue, w.editor, roles=[jobs.RoleOf(models=("H100",))], submitted_at=NOW - 2 * hour)
    assert other.state == JobState.QUEUED, "it may not start in this pool"

    with time_machine.travel(NOW, tick=False):
        parts = queue_demand(w.viewer, w.queue, w.flavor, START, NOW)

    found = {(NOW - part.at) / hour: (part.allocated, part.pending, part.nominal) for part in parts}
    assert found[9] == (0.0, 1.0, 8.0)
    assert found[7] == (0.0, 0.0, 8.0)
    assert found[5] == (0.0, 2.0, 8.0)
    assert found[3] == (2.0, 0.0, 8.0)
    assert found[1] == (2.0, 3.0, 8.0)


def test_the_nominal_quota_is_that_of_the_time(w: World) -> None:
    revision = QuotaRevision.unscoped.create(cell=w.cell, actor_name="adam")
    change = QuotaChange.unscoped.create(
        revision=revision, node=w.queue.node, flavor=w.flavor, resource="gpu.cores",
        nominal_before=400, nominal_after=800,
    )  # fmt: skip
    QuotaChange.unscoped.filter(pk=change.pk).update(created_at=NOW - timedelta(hours=6))
    with time_machine.travel(NOW, tick=False):
        parts = queue_demand(w.viewer, w.queue, w.flavor, START, NOW)
    nominal = {(NOW - part.at) / timedelta(hours=1): part.nominal for part in parts}
    assert (nominal[7], nominal[5]) == (4.0, 8.0)


def test_a_job_that_was_suspended_asks_for_nothing_until_it_is_resumed(w: World) -> None:
    hour = timedelta(hours=1)
    made = jobs.job(w.queue, w.editor, state=JobState.SUCCEEDED, submitted_at=NOW - 12 * hour)
    attempt(made, NOW - 12 * hour, NOW - 10 * hour, why="USER")
    attempt(made, NOW - 8 * hour, NOW - 6 * hour, number=2, why="FAIR_SHARE")
    attempt(made, NOW - 4 * hour, NOW - 2 * hour, number=3)
    with time_machine.travel(NOW, tick=False):
        parts = queue_demand(w.viewer, w.queue, w.flavor, START, NOW)
    pending = {(NOW - part.at) / hour: part.pending for part in parts}
    assert (pending[9], pending[5], pending[3]) == (0.0, 1.0, 0.0)


def test_charts_have_a_text_alternative_and_the_chosen_range(client: Client, w: World) -> None:
    client.force_login(w.viewer)
    place = "/ops/queues/team-a/default"
    with time_machine.travel(NOW, tick=False):
        page = client.get(f"{place}?range=7d").content.decode()
        for key in ("waits", "rates", f"demand-{w.flavor.pk}"):
            assert f"{place}/charts/{key}?range=7d" in page
            answer = client.get(f"{place}/charts/{key}?range=7d").json()
            assert answer["summary"]
            assert answer["figure"]["layout"]["xaxis"]["range"] == [
                "2026-04-27T12:00:00Z",
                "2026-05-04T12:00:00Z",
            ]
        assert client.get(f"{place}/charts/other").status_code == 404


def test_the_period_before_is_drawn_in_this_one(client: Client, w: World) -> None:
    at = NOW - timedelta(hours=27)
    done = jobs.job(w.queue, w.editor, state=JobState.SUCCEEDED, submitted_at=at - timedelta(minutes=10))
    attempt(done, at, NOW - timedelta(hours=26))
    client.force_login(w.viewer)
    with time_machine.travel(NOW, tick=False):
        answer = client.get("/ops/queues/team-a/default/charts/waits?range=24h&compare=1").json()
    [earlier] = [line for line in answer["figure"]["data"] if line["name"] == "Average, previous period"]
    known = [(x, y) for x, y in zip(earlier["x"], earlier["y"], strict=True) if y is not None]
    assert known == [("2026-05-04T09:00:00Z", 10.0)]
