"""A pod created by a worker that was paused beyond its lease is unwanted, and still holds cards."""

from __future__ import annotations

import pytest
import time_machine

from clusters.backends.registry import backend_for
from clusters.models import SimulatedPod
from scheduling.execution.task_specs import task_specs
from scheduling.models import Allocation, Job, JobState
from scheduling.services.jobs.job import job_cancel
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db


def test_a_pod_made_after_its_hold_was_given_back_is_removed() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("long", run_s=100_000)
        stage.run(15)
        wanted = Allocation.unscoped.select_related("task__role", "attempt__job", "node")
        late = task_specs(list(wanted))
        job_cancel(acting_user=stage.user, job=Job.unscoped.get())
        traveller.shift(15)
        stage.run(60)
        assert state(job) == JobState.CANCELLED
        stage.assert_nothing_is_held()

        backend_for(stage.cluster).ensure_many(late)
        traveller.shift(61)
        stage.run(60)

        assert not SimulatedPod.unscoped.filter(holds=True).exists()
        assert state(job) == JobState.CANCELLED


def test_a_pod_of_an_unknown_job_is_left_alone() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        stage.submit("long", run_s=100_000)
        stage.run(15)
        wanted = Allocation.unscoped.select_related("task__role", "attempt__job", "node")
        (spec,) = task_specs(list(wanted))
        SimulatedPod.unscoped.update(name="somebody-elses", labels=spec.labels)

        traveller.shift(15)
        stage.run(60)
        assert SimulatedPod.unscoped.filter(name="somebody-elses", phase="running").exists()
