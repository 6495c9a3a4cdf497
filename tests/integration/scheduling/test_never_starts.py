"""Pods that do not start: the obstacle is reported, and a pod that can never start is not waited for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import time_machine

from clusters.backends.base import PodObservation, PodPhase, TaskRef
from foundation.core import clock
from scheduling.execution.progress import pods_apply
from scheduling.models import Allocation, Job, JobState, Task
from tests.builders import jobs
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db
ROOT = "container has runAsNonRoot and image will run as root (pod: train, container: main)"
UNKNOWN_USER = (
    "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root"
)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        yield Stage()


def report_first_pod(stage: Stage, reason: str, message: str) -> Job:
    """Apply this state of the cluster to the job's first pod, and return the job."""
    job = stage.submit("train", jobs.RoleOf(replicas=2), run_s=900)
    stage.run(0)
    first = Allocation.unscoped.filter(attempt__job=job).order_by("pod_name")[0]
    ref = TaskRef(first.namespace, first.pod_name, first.pod_uid)
    seen = PodObservation(ref, PodPhase.STARTING, clock.now(), reason=reason, message=message)
    for _ in range(2):  # it is reported at least once
        pods_apply(cluster=stage.cluster, observations=[seen], now=clock.now())
    return job


@pytest.mark.parametrize(
    ("reason", "message", "code"),
    [
        ("CreateContainerConfigError", ROOT, "IMAGE_RUNS_AS_ROOT"),
        ("CreateContainerConfigError", UNKNOWN_USER, "IMAGE_RUNS_AS_ROOT"),
        ("InvalidImageName", 'couldn\'t parse image reference "?"', "IMAGE_NAME_INVALID"),
        ("ErrImageNeverPull", "image is not present with pull policy of Never", "IMAGE_NOT_ON_NODE"),
    ],
)
def test_what_can_never_start_fails_with_its_reason_and_gives_everything_back(
    stage: Stage, reason: str, message: str, code: str
) -> None:
    job = report_first_pod(stage, reason, message)
    assert state(job) == JobState.EVICTING
    told = job.events.get(code="evicting").numbers
    assert (told["rule"], told["message"]) == (code, message)
    stage.run(60)
    assert (state(job), job.end_reason) == (JobState.FAILED, code)
    stage.assert_nothing_is_held()


@pytest.mark.parametrize(
    ("reason", "message"),
    [("ImagePullBackOff", "not found"), ("CreateContainerConfigError", 'secret "hub" not found')],
)
def test_what_may_yet_start_is_waited_for_and_reported(stage: Stage, reason: str, message: str) -> None:
    job = report_first_pod(stage, reason, message)
    assert state(job) == JobState.STARTING
    texts = set(Task.unscoped.filter(job=job).values_list("message", flat=True))
    assert texts == {f"{reason}: {message}", ""}
    stage.run(30)  # the simulated pod does start
    assert state(job) == JobState.RUNNING
    assert set(Task.unscoped.filter(job=job).values_list("message", flat=True)) == {""}


def test_what_goes_as_usual_is_no_obstacle(stage: Stage) -> None:
    job = report_first_pod(stage, "ContainerCreating", "")
    assert set(Task.unscoped.filter(job=job).values_list("message", flat=True)) == {""}
