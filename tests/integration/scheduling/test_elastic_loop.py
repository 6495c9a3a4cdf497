"""Elastic jobs in the whole control loop: they grow into idle capacity, and shrink for waiting jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine

from foundation.core import clock
from foundation.core.months import to_ms
from scheduling.metering.usage_rows import usage_rows
from scheduling.models import Allocation, Attempt, Decision, Job, JobEvent, JobKind, JobState, Task
from tests.builders import jobs, pipeline
from tests.builders.stage import Stage, state
from tests.integration.scheduling.books import assert_books, assert_jobs

pytestmark = pytest.mark.django_db


class Loop(Stage):
    """Two nodes of eight GPUs; an elastic job of 4 to 16 GPUs and others around it."""

    def __init__(self, time: time_machine.Coordinates) -> None:
        super().__init__()
        self.time = time

    def start(self, name: str, most: int, least: int | None = None, **fields: object) -> Job:
        role = jobs.RoleOf(replicas=most, min_replicas=least or most)
        made = self.submit(name, role, run_s=fields.pop("run_s", 1_000_000), **fields)  # type: ignore[arg-type]
        self.rounds(4)
        return made

    def rounds(self, count: int, seconds: float = 4.0) -> None:
        for _ in range(count):
            self.time.shift(timedelta(seconds=seconds))
            pipeline.step(self.cell, self.cluster)
            assert_books()
            assert_jobs()

    def until_live(self, job: Job, count: int, seconds: float = 4.0) -> None:
        for _ in range(100):
            if live(job) == count:
                return
            self.rounds(1, seconds)
        raise AssertionError(f"{job} has {live(job)} tasks in place of {count}")


@pytest.fixture
def loop(db: None) -> Iterator[Loop]:
    with time_machine.travel("2026-03-02T08:00:00Z", tick=False) as time:
        yield Loop(time)


def live(job: Job) -> int:
    return Allocation.unscoped.filter(attempt__job=job, removal_asked_at=None, released_at=None).count()


def codes(job: Job) -> list[str]:
    return list(JobEvent.unscoped.filter(job=job).order_by("pk").values_list("code", flat=True))


def test_room_goes_to_the_elastic_job_is_given_back_and_comes_again(loop: Loop) -> None:
    fixed = loop.start("fixed", 8, run_s=60)
    elastic = loop.start("elastic", 16, 4)
    assert (state(elastic), live(elastic)) == (JobState.RUNNING, 8)

    loop.until_live(elastic, 16)
    loop.rounds(6)
    assert state(fixed) == JobState.SUCCEEDED
    grown = JobEvent.unscoped.filter(job=elastic, code="grown")
    assert sum(event.numbers["tasks"] for event in grown) == 8
    steps = Decision.unscoped.filter(job=elastic, kind="grow").count()
    assert steps == grown.count()
    assert Task.unscoped.filter(job=elastic, state="running").count() == 16

    # Another job waits: it gets exactly what it needs, and the rest keeps running.
    other = loop.start("other", 6)
    loop.until_live(other, 6)
    loop.rounds(4)
    assert state(other) == JobState.RUNNING
    assert (state(elastic), live(elastic)) == (JobState.RUNNING, 10)
    shrunk = JobEvent.unscoped.get(job=elastic, code="shrunk")
    assert shrunk.numbers["beneficiary"] == "other"

    # The others end: the job grows again, but not before its pause is over.
    Job.unscoped.filter(pk=other.pk).update(deadline_at=clock.now())
    loop.rounds(10)
    assert live(other) == 0
    assert live(elastic) == 10
    loop.until_live(elastic, 16, 20)
    assert codes(elastic).count("grown") == steps + 1
    assert clock.now() >= shrunk.at + timedelta(minutes=5)
    names = Allocation.unscoped.filter(attempt__job=elastic).values_list("pod_name", flat=True)
    assert len(names) == len(set(names)) == 22
    assert Attempt.unscoped.filter(job=elastic).count() == 1


def test_a_grown_task_is_charged_from_when_it_was_given(loop: Loop) -> None:
    fixed = loop.start("fixed", 8, run_s=60)
    elastic = loop.start("elastic", 16, 4)
    loop.until_live(elastic, 16)
    assert state(fixed) == JobState.SUCCEEDED
    begun = Attempt.unscoped.get(job=elastic).admitted_at
    times = Allocation.unscoped.filter(attempt__job=elastic).values_list("granted_at", flat=True)
    assert sum(at is not None for at in times) == 8
    now = clock.now()
    held = sum((now - (at or begun) for at in times), timedelta())
    rows = usage_rows(0, to_ms(now), now=now, job_id=[elastic.pk])
    used = sum(row.cores * (row.end_ms - row.begin_ms) for row in rows)
    assert used == 100 * held / timedelta(milliseconds=1)


@pytest.mark.parametrize("kind", [JobKind.MPI, JobKind.NOTEBOOK])
def test_jobs_whose_tasks_know_each_other_from_the_beginning_do_not_grow(loop: Loop, kind: JobKind) -> None:
    loop.start("fixed", 8, run_s=30)
    elastic = loop.start("elastic", 16, 4, kind=kind)
    loop.rounds(12)
    assert live(elastic) == 8


def test_jobs_that_come_and_go_make_no_job_grow_and_shrink_in_turn(loop: Loop) -> None:
    elastic = loop.start("elastic", 16, 4)
    for number in range(8):
        loop.start(f"short-{number}", 4, run_s=20)
        loop.rounds(6, 10)
    changes = [code for code in codes(elastic) if code in ("grown", "shrunk")]
    assert len(changes) <= 4
    assert state(elastic) == JobState.RUNNING
