"""Tasks as pods, and pods as observations."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from clusters.backends.base import DeviceGrant, PodPhase, TaskRef, TaskSpec
from clusters.backends.kubernetes.pods import pods
from clusters.backends.kubernetes.pods.containers import SpecInvalid

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
SPEC = TaskSpec(
    ref=TaskRef("team", "a"),
    node="n1",
    cpu_millicores=4000,
    memory_mib=8192,
    devices=(DeviceGrant("card/0", 100, 40_960), DeviceGrant("card/1", 100, 40_960)),
    image="pytorch:2.8",
    command=("python", "train.py"),
    environment={"RANK": "0"},
    labels={"attempt": "1"},
    workspace="w",
)
SLICE = replace(SPEC, devices=(DeviceGrant("GPU-a", 30, 20_480),))


def test_whole_cards_are_a_count() -> None:
    pod = pods.build_manifest(SPEC, "here")
    (container,) = pod["spec"]["containers"]
    amounts = {"cpu": "4000m", "memory": "8192Mi", "nvidia.com/gpu": "2"}
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    assert pod["spec"]["schedulerName"] == "allotment"
    assert "nodeName" not in pod["spec"]  # a binding sets the node
    assert pods.labels_of(pod) == SPEC.labels
    assert pods.is_ours(pod)


def test_a_part_of_a_card_is_written_for_the_node_and_enforced() -> None:
    pod = pods.build_manifest(SLICE, "here")
    (container,) = pod["spec"]["containers"]
    limits = container["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["nvidia.com/gpumem"], limits["nvidia.com/gpucores"]) == (
        "1",
        "20480",
        "30",
    )
    assert {"name": "GPU_CORE_UTILIZATION_POLICY", "value": "force"} in container["env"]
    assert pod["metadata"]["labels"]["hami.io/vgpu-node"] == "n1"
    assert pods.labels_of(pod) == SLICE.labels


def test_a_task_without_cards_asks_for_none() -> None:
    (container,) = pods.build_manifest(replace(SPEC, devices=()), "here")["spec"]["containers"]
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}


@pytest.mark.parametrize(
    ("devices", "void"),
    [
        ((), True),
        (SPEC.devices, False),
        (SLICE.devices, False),
        ((DeviceGrant("mig/1g.10gb/0", 15, 9728),), False),
    ],
    ids=["none", "whole", "part", "instance"],
)
def test_a_container_without_cards_is_shown_none_whatever_its_image_says(devices: Any, void: bool) -> None:
    (container,) = pods.build_manifest(replace(SPEC, devices=devices), "here")["spec"]["containers"]
    said = [one for one in container["env"] if one["name"] == "NVIDIA_VISIBLE_DEVICES"]
    # With cards the device plugin sets the variable, and a value in the pod would override it.
    assert said == ([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}] if void else [])


def test_shared_memory_is_a_volume_in_memory_of_that_size() -> None:
    pod = pods.build_manifest(replace(SPEC, options={"shared_memory": "16384Mi"}), "here")["spec"]
    assert pod["volumes"] == [
        {"name": "shared-memory", "emptyDir": {"sizeLimit": "16384Mi", "medium": "Memory"}}
    ]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    assert "volumeMounts" not in pods.build_manifest(SPEC, "here")["spec"]["containers"][0]


def test_paths_of_mounts_reach_the_cluster_in_their_plain_form() -> None:
    spec = replace(SPEC, options={"volumes": [{"claim": "c", "mount": "//data/./x/../y/"}]})
    (container,) = pods.build_manifest(spec, "here")["spec"]["containers"]
    assert container["volumeMounts"][0]["mountPath"] == "/data/y"


def test_an_image_without_a_command_runs_its_own() -> None:
    (container,) = pods.build_manifest(replace(SPEC, command=()), "here")["spec"]["containers"]
    assert "command" not in container


def test_unequal_parts_of_cards_are_refused() -> None:
    unequal = (DeviceGrant("GPU-a", 30, 1024), DeviceGrant("GPU-b", 40, 1024))
    with pytest.raises(SpecInvalid, match="same part"):
        pods.build_manifest(replace(SPEC, devices=unequal), "here")


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA_VISIBLE_DEVICES",
        "CUDA_DEVICE_MEMORY_LIMIT_0",
        "CUDA_DISABLE_CONTROL",
        "CUDA_TASK_PRIORITY",
        "GPU_CORE_UTILIZATION_POLICY",
        "LD_PRELOAD",
    ],
)
def test_an_environment_that_would_get_more_than_was_granted_is_refused(name: str) -> None:
    with pytest.raises(SpecInvalid, match=name):
        pods.build_manifest(replace(SPEC, environment={name: "all"}), "here")


@pytest.mark.parametrize(
    ("amounts", "limits", "requests", "most"),
    [
        ((4000, 8192), {}, {"cpu": "4000m", "memory": "8192Mi"}, {"cpu": "4000m", "memory": "8192Mi"}),
        ((4000, 8192), {"cpu": "8000m"}, {"cpu": "4000m", "memory": "8192Mi"},
         {"cpu": "8000m", "memory": "8192Mi"}),
        ((0, 512), {}, {"memory": "512Mi"}, {"memory": "512Mi"}),
        ((0, 512), {"cpu": "1000m"}, {"cpu": "0", "memory": "512Mi"}, {"cpu": "1000m", "memory": "512Mi"}),
        ((0, 0), {}, {}, {}),
    ],
)  # fmt: skip
def test_requests_are_limits_unless_the_job_says_otherwise(
    amounts: tuple[int, int], limits: dict[str, str], requests: dict[str, str], most: dict[str, str]
) -> None:
    cpu, memory = amounts
    spec = replace(SPEC, cpu_millicores=cpu, memory_mib=memory, devices=(), options={"limits": limits})
    (container,) = pods.build_manifest(spec, "here")["spec"]["containers"]
    assert container["resources"] == {"requests": requests, "limits": most}


@pytest.mark.parametrize(
    "options",
    [
        {"environment_from": [{"secret": "s", "prefix": "NVIDIA_"}]},
        {"environment_from": [{"secret": "s", "prefix": "NV"}]},
        {"environment_from": [{"secret": "s", "prefix": ""}]},
        {"volumes": [{"claim": "c", "mount": "/var/run/nvidia-container-devices/all"}]},
        {"volumes": [{"empty": "1Gi", "mount": "//etc/ld.so.preload"}]},
        {"volumes": [{"empty": "1Gi", "mount": "/etc/allotment"}]},
    ],
)
def test_what_would_get_more_than_was_granted_is_refused_wherever_it_hides(options: dict[str, Any]) -> None:
    with pytest.raises(SpecInvalid):
        pods.build_manifest(replace(SPEC, options=options), "here")


METADATA = pods.build_manifest(SPEC, "here")["metadata"]


def pod(state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    containers = [{"name": "main", "state": state}] if state is not None else []
    made = {"creationTimestamp": "2026-11-22T11:00:00Z", "uid": "u", **METADATA}
    return {"metadata": made, "spec": {}, "status": {"containerStatuses": containers, **status}}


RUNNING = {"running": {"startedAt": "2026-11-22T11:00:09Z"}}
KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-22T11:30:00Z"}}
WAITING = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}


@pytest.mark.parametrize(
    ("seen", "phase", "at", "code", "reason"),
    [
        (pod(phase="Pending"), PodPhase.PENDING, "11:00:00", None, ""),
        (
            pod(WAITING, phase="Pending", startTime="2026-11-22T11:00:05Z"),
            PodPhase.STARTING, "11:00:05", None, "ImagePullBackOff",
        ),
        (pod(RUNNING, phase="Running"), PodPhase.RUNNING, "11:00:09", None, ""),
        (pod(KILLED, phase="Failed"), PodPhase.FAILED, "11:30:00", 137, "OOMKilled"),
        (
            pod(phase="Failed", reason="OutOfcpu", startTime="2026-11-22T11:00:05Z"),
            PodPhase.FAILED, "11:00:05", None, "OutOfcpu",
        ),
        (pod(phase="Failed", reason="Evicted"), PodPhase.FAILED, "12:00:00", None, "Evicted"),
        (pod(RUNNING, phase="Unknown"), PodPhase.RUNNING, "11:00:09", None, ""),
    ],
)  # fmt: skip
def test_phases(seen: dict[str, Any], phase: PodPhase, at: str, code: int | None, reason: str) -> None:
    told = pods.read_observation(seen, NOW)
    assert (told.phase, f"{told.at:%H:%M:%S}", told.exit_code, told.reason) == (phase, at, code, reason)


def test_gone_keeps_what_was_known_and_takes_the_time_of_seeing() -> None:
    told = pods.read_observation(pod(KILLED, phase="Failed"), NOW, removed=True)
    assert (told.phase, told.at, told.exit_code, told.ref) == (
        PodPhase.REMOVED,
        NOW,
        137,
        TaskRef("team", "a", "u"),
    )


def test_a_clock_ahead_of_ours_does_not_make_the_future() -> None:
    ahead = {"running": {"startedAt": "2026-11-22T12:05:00Z"}}
    assert pods.read_observation(pod(ahead, phase="Running"), NOW).at == NOW
