"""Pods of others in a real cluster are counted, and left alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.gpu import hami
from clusters.models import Device, ForeignPod, Node
from foundation.core import clock
from scheduling.commit.reasons import FOREIGN_WORK
from scheduling.models import GpuRequestMode, JobState
from tests.builders import jobs
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state
from tests.fixtures.kubelet import Json

pytestmark = [pytest.mark.server, pytest.mark.django_db]
THEIRS = "/api/v1/namespaces/theirs/pods"


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with kube_stage(kube, monkeypatch) as made:
        made.api.namespace("theirs")
        yield made


def foreign(stage: KubeStage, name: str, node: str, amounts: dict[str, str], **metadata: Json) -> None:
    """Create a pod of another owner on a node."""
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 30}
    stage.api.call("POST", THEIRS, {"metadata": {"name": name, **metadata}, "spec": spec})


def test_a_job_is_put_where_others_leave_room_and_theirs_go_on(stage: KubeStage) -> None:
    foreign(stage, "gpu", "whole-1", {"nvidia.com/gpu": "3", "cpu": "4"})
    foreign(stage, "cpu", "whole-2", {"cpu": "90", "memory": "1Gi"})
    stage.run(6)
    job = stage.start("wide", jobs.RoleOf(cards=8, cpu=16_000), run_s=900)
    small = stage.start("small", jobs.RoleOf(cards=5, cpu=16_000), run_s=900)
    stage.run(12)
    # No node has eight free cards together with the CPU; one has five beside the three of the others.
    assert (state(job), state(small)) == (JobState.QUEUED, JobState.RUNNING)
    assert [pod["spec"]["nodeName"] for pod in stage.pods().values()] == ["whole-1"]
    stage.assert_bound_as_decided()
    told = {"code": FOREIGN_WORK, "numbers": {"cards": 3, "flavor": stage.flavor.name}}
    assert told in job.reason_help
    assert {pod["metadata"]["name"] for pod in stage.api.items(THEIRS)} == {"gpu", "cpu"}


def test_the_cards_of_a_terminating_pod_are_held_until_it_is_gone(stage: KubeStage) -> None:
    foreign(stage, "old", "whole-1", {"nvidia.com/gpu": "8"})
    foreign(stage, "other", "whole-2", {"nvidia.com/gpu": "8"})
    stage.run(6)
    job = stage.start("train", jobs.RoleOf(cards=8), run_s=900)
    stage.api.call("DELETE", f"{THEIRS}/old", {"gracePeriodSeconds": 30})
    for _ in range(2):
        stage.observe()
    assert ForeignPod.unscoped.get(name="old").leaving
    assert Device.unscoped.filter(node__name="whole-1", foreign_holders=1).count() == 8
    assert state(job) == JobState.QUEUED
    stage.run(30)
    assert not ForeignPod.unscoped.filter(name="old").exists()
    assert state(job) == JobState.RUNNING
    assert [pod["spec"]["nodeName"] for pod in stage.pods().values()] == ["whole-1"]


def test_what_has_ended_holds_nothing_though_its_object_is_there(stage: KubeStage) -> None:
    foreign(stage, "batch", "whole-1", {"nvidia.com/gpu": "8"})
    stage.observe()
    assert Device.unscoped.filter(foreign_holders=1).count() == 8
    stage.api.call("PATCH", f"{THEIRS}/batch/status", {"status": {"phase": "Succeeded"}})
    stage.observe()
    assert not Device.unscoped.filter(foreign_holders__gt=0).exists()
    assert not ForeignPod.unscoped.exists()


def test_parts_of_cards_and_daemons_are_counted(stage: KubeStage) -> None:
    held = "GPU-0,NVIDIA,30000,80:;"
    lock = hami.NodeLock(clock.now(), "theirs", "cut").to_annotation()  # so that the device plugin serves it
    stage.api.call("PATCH", "/api/v1/nodes/cut-1", {"metadata": {"annotations": {hami.LOCK: lock}}})
    amounts = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "30000", "nvidia.com/gpucores": "80"}
    foreign(stage, "cut", "cut-1", amounts, annotations={hami.ALLOCATED: held, hami.TO_ALLOCATE: held})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "dcgm", "uid": "d", "controller": True}
    foreign(stage, "dcgm-x", "cut-1", {"cpu": "2"}, ownerReferences=[owner])
    stage.observe()
    assert list(Node.unscoped.filter(name="cut-1").values_list("cpu_foreign", "cpu_standing")) == [
        (2000, 2000)
    ]
    part = jobs.RoleOf(replicas=1, mode=GpuRequestMode.SLICE, cores=60, gpu_memory=10_000)
    both = [stage.start(f"part-{number}", part, run_s=900) for number in range(2)]
    stage.run(12)
    assert sorted(state(job) for job in both) == [JobState.QUEUED, JobState.RUNNING]
    assert Device.unscoped.get(cores_granted__gt=0).uuid == "GPU-1"


def test_a_node_full_of_pods_of_others_takes_none_of_ours(stage: KubeStage) -> None:
    for node, limit in (("whole-1", "3"), ("whole-2", "2"), ("cut-1", "0")):
        stage.api.call("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"allocatable": {"pods": limit}}})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "d", "controller": True}
    for node in ("whole-1", "whole-2"):
        foreign(stage, f"logs-{node}", node, {}, ownerReferences=[owner])
    foreign(stage, "web", "whole-2", {})
    stage.run(6)
    small = [stage.start(f"small-{number}", jobs.RoleOf(cards=1), run_s=900) for number in range(3)]
    stage.run(12)
    assert sorted(state(job) for job in small) == [JobState.QUEUED, JobState.RUNNING, JobState.RUNNING]
    assert {pod["spec"]["nodeName"] for pod in stage.pods().values()} == {"whole-1"}
    stage.api.call("DELETE", f"{THEIRS}/web", {"gracePeriodSeconds": 0})
    stage.run(12)
    assert [state(job) for job in small] == [JobState.RUNNING] * 3
    stage.assert_bound_as_decided()
