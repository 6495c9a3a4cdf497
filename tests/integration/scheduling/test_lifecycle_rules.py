"""A job's lifecycle rules when tasks fail, are removed and end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import time_machine

from clusters.backends.base import PodObservation, PodPhase, TaskRef
from foundation.core import clock
from scheduling.execution.progress import pods_apply
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.models import Allocation, Job, JobState
from tests.builders import jobs
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db
Rules = list[dict[str, Any]]
ROLES = (jobs.RoleOf(name="master"), jobs.RoleOf(name="worker", replicas=2))


@pytest.fixture
def stage() -> Iterator[Stage]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        yield Stage()


def running(stage: Stage, rules: Rules) -> Job:
    job = stage.submit("train", *ROLES, run_s=9000, lifecycle=rules)
    stage.run(12)
    assert state(job) == JobState.RUNNING
    return job


def held(job: Job) -> dict[str, Allocation]:
    """Return the live allocations, by `<role>-<index>`."""
    rows = Allocation.unscoped.filter(attempt__job=job, released_at=None).select_related("task__role")
    return {f"{row.task.role.name}-{row.task.index}": row for row in rows}


def report_tasks(
    stage: Stage, job: Job, *tasks: str, phase: PodPhase = PodPhase.FAILED, code: int = 1
) -> None:
    """Apply this phase of the pods of those tasks, twice, because a cluster may report it twice."""
    rows, now = held(job), clock.now()
    seen = [
        PodObservation(TaskRef(row.namespace, row.pod_name, row.pod_uid), phase, now, exit_code=code)
        for row in (rows[task] for task in tasks)
    ]
    for _ in range(2):
        pods_apply(cluster=stage.cluster, observations=seen, now=now)


def on_failure(do: str, **more: Any) -> dict[str, Any]:
    return {"on": "task_failed", "do": do, **more}


def test_a_role_starts_again_as_one_and_the_others_go_on(stage: Stage) -> None:
    job = running(stage, [on_failure("restart_role", role="worker")])
    before = held(job)
    report_tasks(stage, job, "worker-0")
    assert {name for name, row in held(job).items() if row.restarting} == {"worker-0", "worker-1"}
    stage.run(60)
    after = held(job)
    assert state(job) == JobState.RUNNING
    assert {name: row.restarts for name, row in after.items()} == {
        "master-0": 0,
        "worker-0": 1,
        "worker-1": 1,
    }
    same = {name for name, row in after.items() if row.pod_uid == before[name].pod_uid}
    assert same == {"master-0"}
    assert [after[name].node_id for name in before] == [before[name].node_id for name in before]
    assert [event.code for event in job.events.all()].count("role_restarting") == 1
    report_tasks(stage, job, "worker-1")  # its limit is reached
    stage.run(60)
    assert state(job) == JobState.FAILED
    stage.assert_nothing_is_held()


def test_no_new_task_meets_an_old_one_of_its_role(stage: Stage) -> None:
    job = running(stage, [on_failure("restart_role")])
    report_tasks(stage, job, "worker-0", "worker-1")  # both at once
    report_tasks(stage, job, "worker-0", phase=PodPhase.REMOVED)
    assert {name for name, row in held(job).items() if row.restarting} == {"worker-0", "worker-1"}
    report_tasks(stage, job, "worker-1", phase=PodPhase.REMOVED)
    assert not [name for name, row in held(job).items() if row.restarting or row.removal_asked_at]


def test_a_role_that_is_cancelled_while_it_starts_again_leaves_nothing(stage: Stage) -> None:
    job = running(stage, [on_failure("restart_role")])
    report_tasks(stage, job, "worker-0")
    report_tasks(stage, job, "worker-0", phase=PodPhase.REMOVED)
    job.refresh_from_db()
    begin_eviction(job=job, rule="NODE_PRESSURE", then=JobState.SUSPENDED, now=clock.now())
    stage.run(90)
    assert state(job) == JobState.SUSPENDED
    stage.assert_nothing_is_held()


@pytest.mark.parametrize(
    ("rules", "code", "expected"),
    [
        ([on_failure("complete_job", exit_codes=[42])], 42, JobState.SUCCEEDED),
        ([on_failure("complete_job", exit_codes=[42])], 1, JobState.FAILED),
        ([on_failure("abort_job")], 1, JobState.SUSPENDED),
        ([on_failure("fail_job", exit_codes=[1]), on_failure("abort_job")], 1, JobState.FAILED),
        ([on_failure("fail_job", exit_codes=[2]), on_failure("abort_job")], 1, JobState.SUSPENDED),
        ([on_failure("abort_job", role="master")], 1, JobState.FAILED),
        ([on_failure("restart_job")], 1, JobState.QUEUED),
    ],
)
def test_a_failed_task_does_what_the_first_rule_about_it_says(
    stage: Stage, rules: Rules, code: int, expected: JobState
) -> None:
    job = running(stage, rules)
    report_tasks(stage, job, "worker-1", code=code)
    stage.run(40)
    assert state(job) == expected
    stage.assert_nothing_is_held()


def test_a_rule_at_its_limit_makes_way_for_the_next(stage: Stage) -> None:
    job = running(stage, [on_failure("restart_task", max=1), on_failure("abort_job")])
    report_tasks(stage, job, "worker-1")
    stage.run(60)
    assert (state(job), held(job)["worker-1"].restarts) == (JobState.RUNNING, 1)
    report_tasks(stage, job, "worker-1")
    stage.run(60)
    assert state(job) == JobState.SUSPENDED


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], [JobState.RUNNING]),
        ([{"on": "task_evicted", "do": "abort_job"}], [JobState.SUSPENDED]),
        ([{"on": "task_evicted", "do": "fail_job"}], [JobState.FAILED]),
        ([{"on": "task_evicted", "do": "restart_job", "max": 1}], [JobState.RUNNING, JobState.FAILED]),
        (
            [
                {"on": "task_evicted", "do": "restart_job", "max": 1},
                {"on": "task_evicted", "do": "abort_job"},
            ],
            [JobState.RUNNING, JobState.SUSPENDED],
        ),
    ],
)
def test_an_evicted_job_restarts_as_often_as_its_rules_allow(
    stage: Stage, rules: Rules, expected: list[JobState]
) -> None:
    job = running(stage, rules)
    found = []
    for _ in expected:
        job.refresh_from_db()
        begin_eviction(job=job, rule="NODE_PRESSURE", then=JobState.QUEUED, now=clock.now())
        stage.run(90)
        found.append(state(job))
    assert found == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([{"on": "task_completed", "role": "worker", "do": "complete_job"}], JobState.SUCCEEDED),
        ([{"on": "task_completed", "do": "complete_job"}], JobState.SUCCEEDED),
        ([{"on": "task_completed", "role": "master", "do": "complete_job"}], JobState.RUNNING),
        ([{"on": "role_completed", "role": "worker", "do": "complete_job"}], JobState.RUNNING),
    ],
)
def test_one_task_that_ends_well_ends_the_job_where_the_rules_say_so(
    stage: Stage, rules: Rules, expected: JobState
) -> None:
    job = running(stage, rules)
    report_tasks(stage, job, "worker-0", phase=PodPhase.SUCCEEDED, code=0)
    stage.run(20)
    assert state(job) == expected
