"""The wait time of a job counts from its last entry into the queue, without the time that it ran."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from frontend.pages.jobs.job_facts import waiting_time
from quotas.models import StopPolicy
from scheduling.models import Attempt, JobState
from scheduling.selectors.jobs.row import queue_work
from scheduling.selectors.pending.waiting import waiting_now
from scheduling.services.jobs.job import job_restart, job_resume, job_suspend
from tests.builders import jobs, tenancy
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db
BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)


def test_a_resumed_job_has_waited_since_it_was_resumed() -> None:
    operator = tenancy.platform_admin()
    with time_machine.travel(BEGIN, tick=False):
        stage = Stage()
        job = stage.submit("a", jobs.RoleOf(cards=8), run_s=100_000)
        stage.run(30)
        assert state(job) == JobState.RUNNING
        assert waiting_time(job, BEGIN + timedelta(hours=1)) == timedelta(0)
    with time_machine.travel(BEGIN + timedelta(hours=3), tick=False):
        job_suspend(acting_user=operator, job=job)
        stage.run(30)
        assert state(job) == JobState.SUSPENDED
        assert waiting_time(job, BEGIN + timedelta(hours=4)) is None
    resumed = BEGIN + timedelta(hours=5)
    with time_machine.travel(resumed, tick=False):
        job_resume(acting_user=operator, job=job)
        assert state(job) == JobState.QUEUED
        assert waiting_time(job, resumed + timedelta(minutes=7)) == timedelta(minutes=7)
        assert waiting_now(viewer=operator).oldest_since == resumed
        work = queue_work(viewer=operator, workspace=job.workspace, failed_since=BEGIN)
        assert work[stage.queue.pk].oldest_waiting_at == resumed
    with time_machine.travel(resumed + timedelta(minutes=2), tick=False):
        stage.run(0)
        assert state(job) == JobState.ADMITTED
        assert waiting_time(job, resumed + timedelta(hours=9)) == timedelta(minutes=2)


def test_an_evicted_job_waits_from_the_end_of_its_run() -> None:
    with time_machine.travel(BEGIN, tick=False):
        stage = Stage()
        job = stage.submit("a", jobs.RoleOf(cards=8), run_s=100_000)
        stage.run(30)
    evicted = BEGIN + timedelta(hours=2)
    with time_machine.travel(evicted, tick=False):
        stage.queue.stop_policy = StopPolicy.HOLD_AND_DRAIN
        stage.queue.save()
        stage.run(60)
        assert state(job) == JobState.QUEUED
    waited = waiting_time(job, evicted + timedelta(minutes=10))
    assert waited is not None and timedelta(minutes=9) <= waited <= timedelta(minutes=10)


def test_a_restarted_job_runs_again_as_a_new_attempt() -> None:
    operator = tenancy.platform_admin()
    with time_machine.travel(BEGIN, tick=False):
        stage = Stage()
        job = stage.submit("a", jobs.RoleOf(cards=8), run_s=100_000)
        stage.run(30)
    restarted = BEGIN + timedelta(hours=2)
    with time_machine.travel(restarted, tick=False):
        job.refresh_from_db()
        job_restart(acting_user=operator, job=job)
        assert state(job) == JobState.EVICTING
        stage.run(60)
        assert state(job) == JobState.RUNNING
    ends = Attempt.unscoped.filter(job=job).order_by("number").values_list("number", "end_reason")
    assert list(ends) == [(1, "RESTART"), (2, "")]
    job.refresh_from_db()
    assert job.submitted_at == BEGIN
    waited = waiting_time(job, restarted + timedelta(hours=1))
    assert waited is not None and waited <= timedelta(minutes=1)
