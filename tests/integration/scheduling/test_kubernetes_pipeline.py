"""Jobs from the queue to their end in a Kubernetes cluster; the cluster's own state counts."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import GangSpec
from clusters.backends.kubernetes.lifecycle.gangs import gang_ensure
from clusters.backends.registry import backend_for
from clusters.gpu import hami
from scheduling.execution.gangs import note_left
from scheduling.execution.task_specs import task_specs
from scheduling.models import Allocation, GpuRequestMode, Job, JobState
from scheduling.models.pod_names import gang_name
from scheduling.services.jobs.job import job_cancel
from tests.builders import jobs
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state

pytestmark = [pytest.mark.server, pytest.mark.django_db]


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with kube_stage(kube, monkeypatch) as made:
        yield made


def test_a_gang_runs_where_the_engine_put_it_and_gives_everything_back(stage: KubeStage) -> None:
    job = stage.start("train", jobs.RoleOf(name="master"), jobs.RoleOf(name="worker", replicas=3, cards=4))
    stage.run(6)
    assert Counter(pod["status"]["phase"] for pod in stage.pods().values()) == {"Running": 4}
    assert state(job) == JobState.RUNNING
    stage.assert_bound_as_decided()
    (owner,) = stage.shared()
    assert {pod["metadata"]["ownerReferences"][0]["name"] for pod in stage.pods().values()} == {owner}
    stage.run(60)
    assert state(job) == JobState.SUCCEEDED
    stage.assert_nothing_is_held()
    assert not stage.pods()
    assert not stage.shared()


def test_what_a_late_worker_makes_again_of_an_ended_job_is_removed(stage: KubeStage) -> None:
    pair = jobs.RoleOf(replicas=2)
    ended, running = stage.start("ended", pair, run_s=3), stage.start("running", pair, run_s=9000)
    backend = backend_for(stage.cluster)
    stage.run(6)
    wanted = Allocation.unscoped.filter(attempt__job=ended).select_related(
        "task__role", "attempt__job", "node", "flavor"
    )
    late, _ = task_specs(list(wanted))
    stage.run(30)
    assert state(ended) == JobState.SUCCEEDED
    (kept,) = stage.shared()
    # Objects of a worker that lost its lease before it created the pod, and of unknown jobs.
    strange = {"allotment.io/job": str(uuid.uuid4()), "allotment.io/attempt": "1"}
    for gang in (
        late.gang,
        GangSpec("unknown-1", 2, strange),
        GangSpec("strange-1", 2, {"allotment.io/job": "x"}),
    ):
        assert gang is not None
        gang_ensure(backend._api, "team-a", str(ended.workspace_id), gang)  # type: ignore[attr-defined]
    assert note_left(stage.cluster, backend) == [gang_name(ended, 1)]
    assert not note_left(stage.cluster, backend), "it is noted already"
    stage.run(3)
    assert stage.shared() == {kept, "unknown-1", "strange-1"}
    assert state(running) == JobState.RUNNING
    assert not note_left(stage.cluster, backend)


def test_parts_of_cards_reach_the_device_plugin_as_decided(stage: KubeStage) -> None:
    part = jobs.RoleOf(replicas=3, mode=GpuRequestMode.SLICE, cores=30, gpu_memory=10_000)
    job = stage.start("small", part, run_s=300)
    stage.run(60)
    assert state(job) == JobState.RUNNING
    assert len(stage.pods()) == 3
    stage.assert_bound_as_decided()
    phases = {pod["metadata"]["annotations"][hami.PHASE] for pod in stage.pods().values()}
    assert phases == {hami.PHASE_SUCCESS}


def test_what_does_not_fit_waits_and_a_cancelled_job_makes_room_when_its_pods_are_gone(
    stage: KubeStage,
) -> None:
    first = [stage.start(f"first-{number}", jobs.RoleOf(cards=8), run_s=900) for number in range(2)]
    last = stage.start("last", jobs.RoleOf(cards=8))
    stage.run(9)
    assert [state(job) for job in (*first, last)] == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED]
    job_cancel(acting_user=stage.user, job=first[0])
    stage.run(0)
    assert state(last) == JobState.QUEUED
    stage.run(60)
    assert state(first[0]) == JobState.CANCELLED
    assert state(last) == JobState.SUCCEEDED
    stage.assert_bound_as_decided()


def test_a_pod_deleted_by_hand_sends_its_job_back_and_it_runs_again(stage: KubeStage) -> None:
    job = stage.start("train", run_s=30)
    stage.run(6)
    (name,) = stage.pods()
    stage.api.call("DELETE", f"/api/v1/namespaces/team-a/pods/{name}", {"gracePeriodSeconds": 0})
    stage.run(120)
    assert state(job) == JobState.SUCCEEDED
    assert job.attempts.count() == 2
    stage.assert_nothing_is_held()


def test_a_cordoned_node_gets_nothing_new(stage: KubeStage) -> None:
    stage.api.call("PATCH", "/api/v1/nodes/whole-1", {"spec": {"unschedulable": True}})
    stage.run(30)  # until it is observed
    both = [stage.start(f"job-{number}", jobs.RoleOf(cards=8), run_s=900) for number in range(2)]
    stage.run(30)
    assert sorted(state(job) for job in both) == [JobState.QUEUED, JobState.RUNNING]
    assert {pod["spec"]["nodeName"] for pod in stage.pods().values()} == {"whole-2"}


def test_a_role_is_started_again_by_its_rule_and_others_go_on(stage: KubeStage) -> None:
    rules = [{"on": "task_failed", "role": "worker", "do": "restart_role"}]
    job = stage.start("train", jobs.RoleOf(name="master"), jobs.RoleOf(name="worker", replicas=2), run_s=900)
    Job.unscoped.filter(pk=job.pk).update(lifecycle=rules)
    stage.run(6)
    before = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
    failed = next(name for name in before if name.endswith("worker-0"))
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    container = {
        "name": "main",
        "image": "",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": ended,
    }
    status = {"phase": "Failed", "containerStatuses": [container]}
    path = f"/api/v1/namespaces/team-a/pods/{failed}/status"
    stage.api.call("PATCH", path, {"status": status})
    stage.run(30)
    after = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
    assert after.keys() == before.keys()
    assert {name.rpartition("-")[0][-6:] for name in before if before[name] != after[name]} == {"worker"}
    assert len({name for name in before if before[name] != after[name]}) == 2
    assert state(job) == JobState.RUNNING
    stage.assert_bound_as_decided()
