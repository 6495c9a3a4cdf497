"""A task that is restarted on its node, and events while it is between two pods."""

from __future__ import annotations

from typing import Any

import pytest
import time_machine

from clusters.models import Cluster, SimulatedPod
from scheduling.execution import observe
from scheduling.models import Allocation, Job, JobState
from scheduling.services.jobs.job import job_cancel
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db
_RESTART: list[dict[str, Any]] = [{"on": "task_failed", "do": "restart_task", "max": 3}]


class Between(Stage):
    """A stage whose only job's pod has failed and is gone, and whose next pod has not been made yet."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        super().__init__()
        self.job: Job = self.submit("stubborn", simulate={"exit_code": 137}, lifecycle=_RESTART)
        self.before = ""
        self.run(0)
        for _ in range(40):
            traveller.shift(3)
            self.before = Cluster.unscoped.get(pk=self.cluster.pk).cursor
            observe.observe_cluster(cluster_id=self.cluster.pk)
            if Allocation.unscoped.get().restarts:
                return
            self.run(0)
        raise AssertionError("the task was never restarted")


def test_the_end_of_the_first_pod_reported_twice_does_not_end_the_task() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Between(traveller)
        # As after a crash before the cursor was stored: the same changes come again.
        Cluster.unscoped.update(cursor=stage.before)
        observe.observe_cluster(cluster_id=stage.cluster.pk)

        stage.run(10)
        assert state(stage.job) in (JobState.STARTING, JobState.RUNNING)
        assert stage.job.attempt_number == 1
        assert Allocation.unscoped.get().restarts == 1


def test_a_job_cancelled_between_two_pods_ends() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Between(traveller)
        job_cancel(acting_user=stage.user, job=Job.unscoped.get())

        stage.run(60)
        assert state(stage.job) == JobState.CANCELLED
        assert SimulatedPod.unscoped.filter(phase="gone").count() == 1
        stage.assert_nothing_is_held()


def test_a_job_cancelled_before_its_second_pod_was_noted_ends() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Between(traveller)
        first = Allocation.unscoped.get()
        stage.run(0)
        # As after a crash between the call and the note of its answer.
        Allocation.unscoped.update(ensured_at=None, pod_uid=first.pod_uid)
        job_cancel(acting_user=stage.user, job=Job.unscoped.get())

        stage.run(90)
        assert state(stage.job) == JobState.CANCELLED
        assert not SimulatedPod.unscoped.filter(holds=True).exists()
        stage.assert_nothing_is_held()
