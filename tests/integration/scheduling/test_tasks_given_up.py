"""A running job with enough tasks drops one that does not start, once, and reports it while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
import time_machine
from time_machine import Traveller

from foundation.core import clock
from scheduling.models import Allocation, Job, JobState, Task, TaskState
from scheduling.services.obstacles import obstacles_note
from tests.builders import jobs
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db
START = datetime.fromisoformat("2026-11-02T08:00:00+00:00")
LIMIT_S = 600


@pytest.fixture
def traveller() -> Iterator[Traveller]:
    with time_machine.travel(START, tick=False) as travelling:
        yield travelling


@pytest.fixture
def stage(traveller: Traveller) -> Stage:
    return Stage()


@pytest.fixture
def job(stage: Stage, traveller: Traveller) -> Job:
    """One that runs with one of its three tasks; the others have been starting for as long as they may."""
    made = stage.submit("train", jobs.RoleOf(replicas=3, min_replicas=1), run_s=1_000_000)
    for _ in range(6):
        stage.run(0)
        traveller.shift(5)
    assert (state(made), live(made)) == (JobState.RUNNING, 3)
    Allocation.unscoped.filter(attempt__job=made, task__index__gt=0).update(ensured_at=clock.now())
    surplus = Task.unscoped.filter(job=made, index__gt=0)
    surplus.update(state=TaskState.STARTING, message="ErrImagePull: no such image")
    traveller.shift(LIMIT_S + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.builders.pipeline.observe_cluster", lambda **_: None)
        stage.run(3)
    assert live(made) == 1
    return made


def live(job: Job) -> int:
    return Allocation.unscoped.filter(attempt__job=job, removal_asked_at=None).count()


def test_the_tasks_are_not_started_and_given_up_again(stage: Stage, traveller: Traveller, job: Job) -> None:
    for _ in range(4):
        traveller.shift(LIMIT_S)
        stage.run(0)
    assert (state(job), live(job)) == (JobState.RUNNING, 1)
    assert job.events.filter(code="shrunk").count() == 2


def test_the_job_says_how_many_and_why_until_it_ends(stage: Stage, traveller: Traveller, job: Job) -> None:
    for _ in range(4):
        traveller.shift(60)
        stage.run(0)
        job.refresh_from_db()
        assert job.reason == "TASKS_GIVEN_UP"
    told = job.reason_numbers
    assert (told["tasks"], told["limit_s"]) == (2, LIMIT_S)
    assert told["message"] == "ErrImagePull: no such image"
    assert job.events.filter(code="held_up", numbers__reason="TASKS_GIVEN_UP").count() == 2, "once a task"
    # Another reason comes before it for as long as it holds.
    first = Allocation.unscoped.filter(attempt__job=job, task__index=0)
    Task.unscoped.filter(job=job, index=0).update(state=TaskState.STARTING, message="FailedMount: data")
    assert obstacles_note(now=clock.now(), running=True) == 1
    job.refresh_from_db()
    assert (job.reason, job.reason_numbers["pod"]) == ("VOLUME_NOT_MOUNTED", first.get().pod_name)
    Task.unscoped.filter(job=job, index=0).update(state=TaskState.RUNNING, message="")
    assert obstacles_note(now=clock.now(), running=True) == 1
    job.refresh_from_db()
    assert job.reason == "TASKS_GIVEN_UP"


def test_an_earlier_attempt_is_no_reason_of_the_present_one(job: Job, traveller: Traveller) -> None:
    traveller.shift(60)
    Job.unscoped.filter(pk=job.pk).update(admitted_at=clock.now())
    obstacles_note(now=clock.now(), running=True)
    job.refresh_from_db()
    assert job.reason == ""
