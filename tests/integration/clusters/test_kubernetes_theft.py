"""Every known way to a card that bypasses the quota, tried by a tenant's own account on a real API server."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import OutcomeKind
from clusters.backends.kubernetes.pods.pods import MANAGED
from clusters.gpu import live_memory, reserved
from tests.fixtures import agents
from tests.fixtures.kubelet import Cluster, Json
from tests.fixtures.wait import wait_until
from tests.integration.clusters import admission
from tests.integration.clusters.admission import (
    GOOD,
    PODS,
    TENANT,
    mounted,
    of_kind,
    pod,
    refused,
    variable,
)
from tests.integration.clusters.conftest import Harness, kubernetes

pytestmark = pytest.mark.server
HIDDEN = {"configMapKeyRef": {"name": "c", "key": "k"}}
THEFTS: dict[str, Json] = {
    "a node of one's choice": pod({"nodeName": "n1"}),
    "all cards by variable": pod(container=variable("NVIDIA_VISIBLE_DEVICES")),
    "all cards by a variable from elsewhere": pod(
        container=variable("NVIDIA_VISIBLE_DEVICES", valueFrom=HIDDEN)
    ),
    "limits lifted": pod(container=variable("CUDA_DISABLE_CONTROL")),
    "limits raised": pod(container=variable("CUDA_DEVICE_MEMORY_LIMIT_0")),
    "compute not limited": pod(container=variable("GPU_CORE_UTILIZATION_POLICY")),
    "a higher place on the card": pod(container=variable("CUDA_TASK_PRIORITY")),
    "a library before the limiter": pod(container=variable("LD_PRELOAD")),
    "a library that hears of the limiter": pod(container=variable("LD_AUDIT")),
    "more memory than the card has": pod(container=variable("CUDA_OVERSUBSCRIBE")),
    "an image said to be old, which gets all cards": pod(container=variable("CUDA_VERSION")),
    "whatever the image asks for": pod(container={"env": []}),
    "void, and then all": pod(
        container={"env": [admission.VOID, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    ),
    "void from elsewhere": pod(container={"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": HIDDEN}]}),
    "channels between cards": pod(container=variable("NVIDIA_IMEX_CHANNELS")),
    "variables hidden in a config map": pod(container={"envFrom": [{"configMapRef": {"name": "c"}}]}),
    "an allocation of one's own": pod(metadata={"annotations": {"hami.io/vgpu-devices-allocated": "x"}}),
    "a card of one's choice": pod(metadata={"annotations": {"nvidia.com/use-gpuuuid": "GPU-a"}}),
    "devices by the container runtime": pod(metadata={"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}}),
    "devices by CRI-O": pod(metadata={"annotations": {"io.kubernetes.cri-o.Devices": "/dev/nvidia0"}}),
    "devices by a plugin of containerd": pod(
        metadata={"annotations": {"devices.nri.io/container.main": "- path: /dev/nvidia0"}}
    ),
    "the platform's annotation": pod(metadata={"annotations": {"allotment.io/job": "x"}}),
    "more memory by a wish": pod(metadata={"annotations": {live_memory.WANTED: "x"}}),
    "more memory by an answer": pod(metadata={"annotations": {live_memory.ANSWER: "x"}}),
    "another scheduler": pod({"schedulerName": "hami-scheduler"}),
    "the platform's scheduler": pod({"schedulerName": "allotment"}),
    "priority of the system": pod({"priorityClassName": "system-node-critical"}),
    "toleration of everything": pod({"tolerations": [{"operator": "Exists"}]}),
    "toleration of GPU nodes": pod({"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}),
    "the platform's label": pod(metadata={"labels": {"allotment.io/job": "x"}}),
    "a pod of the platform": pod(metadata={"labels": dict(MANAGED)}),
    "HAMi's webhook told to look away": pod(metadata={"labels": {"hami.io/webhook": "ignore"}}),
    "cards without a job": pod(container={"resources": {"limits": {"nvidia.com/gpu": "1"}}}),
    "HAMi's resources": pod(container={"resources": {"limits": {"nvidia.com/gpucores": "50"}}}),
    "cards of another maker": pod(container={"resources": {"limits": {"amd.com/gpu": "1"}}}),
    "cards by a class of devices": pod(
        container={"resources": {"limits": {"deviceclass.resource.kubernetes.io/gpu": "1"}}}
    ),
    "Volcano's resources": pod(container={"resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}),
    "cards by claim": pod({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}),
    **{
        f"a mount at {path}": mounted(path)
        for path in (
            *("/var/run/nvidia-container-devices/all", "/run/nvidia-container-devices/0"),
            *("/usr/local/vgpu", "/usr/local/vgpu/", "/usr/local//vgpu", "/usr/local/./vgpu"),
            *("/usr/lib/../local/vgpu", "//usr/local/vgpu", "/usr/local/vgpu/.", "usr/local/vgpu"),
            *("/etc/ld.so.preload", "//etc/ld.so.preload", "/etc/./ld.so.preload", "/etc/x/../ld.so.preload"),
            *("/overrideEnv", "/data/..", "/data//x"),
        )
    },
    "NVIDIA's runtime": pod({"runtimeClassName": "nvidia"}),
    "privileges": pod(container={"securityContext": {"privileged": True}}),
    "a folder of the node": pod({"volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]}),
    "the node's processes": pod({"hostPID": True}),
    "whatever the image of an init container asks for": of_kind("initContainers", {"env": []}),
    "the node's network": pod({"hostNetwork": True}),
    "a variable in an init container": of_kind("initContainers", variable("NVIDIA_VISIBLE_DEVICES")),
    "hidden variables in an init container": of_kind(
        "initContainers", {"envFrom": [{"configMapRef": {"name": "c"}}]}
    ),
    "cards in an init container": of_kind(
        "initContainers", {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    ),
}


@pytest.fixture(scope="module")
def guarded(kube: ControlPlane) -> Iterator[Cluster]:
    """A namespace of a workspace under the policies."""
    with admission.guarded(kube) as cluster:
        yield cluster


@pytest.mark.parametrize("name", sorted(THEFTS))
def test_a_tenant_gets_no_card_around_the_platform(guarded: Cluster, name: str) -> None:
    status, answer = refused(guarded, THEFTS[name])
    assert status in (403, 422), answer
    assert "allotment-pods" in answer or "PodSecurity" in answer


def test_a_harmless_pod_of_a_tenant_passes(guarded: Cluster) -> None:
    assert refused(guarded, pod())[0] == 201
    assert refused(guarded, of_kind("initContainers", {}))[0] == 201


def test_names_are_closed_and_free_in_the_cluster_as_in_job_files(guarded: Cluster) -> None:
    for name in (*reserved.VARIABLES, "CUDA_", "LD_OF_A_LATER_VERSION"):
        full = f"{name}X" if name.endswith("_") else name
        assert refused(guarded, pod(container=variable(full)))[0] == 422, full
    free = [{"name": name, "value": "x"} for name in sorted(reserved.ALLOWED)]
    status, answer = refused(guarded, pod(container={"env": [admission.VOID, *free]}))
    assert status == 201, answer
    for label in ("allotment.io/x", "hami.io/x", "nvidia.com/x"):
        assert refused(guarded, pod(metadata={"labels": {label: "x"}}))[0] == 422, label
    for path in reserved.MOUNTS:
        assert refused(guarded, mounted(f"{path}/x"))[0] == 422, path


def test_a_debugging_container_gets_none_either(guarded: Cluster) -> None:
    guarded.call("POST", PODS, pod(metadata={"name": "debugged"}))
    container = copy.deepcopy(GOOD["spec"]["containers"][0]) | {"name": "debugger"}
    del container["resources"]
    path = f"{PODS}/debugged/ephemeralcontainers?dryRun=All"

    def added(changes: Mapping[str, Any]) -> tuple[int, str]:
        body = {"spec": {"ephemeralContainers": [container | changes]}}
        return guarded.answer("PATCH", path, body, TENANT)

    assert added({})[0] == 200
    for theft in (
        variable("NVIDIA_IMEX_CHANNELS"),
        {"env": []},
        {"envFrom": [{"configMapRef": {"name": "c"}}]},
    ):
        status, answer = added(theft)
        assert status == 422, answer


def test_labels_cannot_be_added_later(guarded: Cluster) -> None:
    guarded.call("POST", PODS, pod(metadata={"name": "changed"}))
    for key in ("hami.io/bind-phase", live_memory.WANTED, live_memory.ANSWER):
        body = {"metadata": {"annotations": {key: "x"}}}
        status, answer = guarded.answer("PATCH", f"{PODS}/changed?dryRun=All", body, TENANT)
        assert status == 422, answer


@pytest.mark.parametrize("label", ["app.kubernetes.io/managed-by", "pod-security.kubernetes.io/enforce"])
def test_the_namespace_stays_under_the_rules(guarded: Cluster, label: str) -> None:
    path = "/api/v1/namespaces/victim?dryRun=All"
    for value in (None, "privileged"):
        body = {"metadata": {"labels": {label: value}}}
        status, answer = guarded.answer("PATCH", path, body, TENANT)
        assert status == 422, answer
    harmless = {"metadata": {"labels": {"cost-centre": "7"}}}
    assert guarded.answer("PATCH", path, harmless, TENANT)[0] == 200


@pytest.mark.django_db
def test_the_platform_itself_still_places_pods(guarded: Cluster, kube: ControlPlane, traveller: Any) -> None:
    with kubernetes(traveller, kube) as harness:
        assert isinstance(harness, Harness)
        outcomes = harness.place(harness.spec("a"), harness.sliced("b", cores=30))
        assert [outcome.kind for outcome in outcomes] == [OutcomeKind.DONE] * 2


HIS_NODE: Final = {"authentication.kubernetes.io/node-name": "n1"}
AGENT: Final = ("system:serviceaccount:allotment:allotment-agent", ["system:serviceaccounts"])
MEDDLING: dict[str, Json] = {
    "the wish itself": {"metadata": {"annotations": {live_memory.WANTED: "y"}}},
    "HAMi's books": {"metadata": {"annotations": {"hami.io/vgpu-devices-allocated": "x"}}},
    "a note taken away": {"metadata": {"annotations": {"note": None}}},
    "a label": {"metadata": {"labels": {"app": "other"}}},
    "a label taken away": {"metadata": {"labels": {"app": None}}},
    "a finalizer": {"metadata": {"finalizers": ["allotment.io/x"]}},
    "another image": {"spec": {"containers": [{**GOOD["spec"]["containers"][0], "image": "evil"}]}},
    "a shorter life": {"spec": {"activeDeadlineSeconds": 1}},
}


@pytest.fixture(scope="module")
def asked(guarded: Cluster) -> str:
    """The path of a pod on node n1 of which another memory is wanted."""
    agents.put(guarded, "/api/v1/namespaces", {"metadata": {"name": "allotment"}})
    parts = {part["kind"]: part for part in yaml.safe_load_all(agents.FILE.read_text(encoding="utf-8"))}
    for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"):
        agents.put(guarded, agents.PATHS[kind], parts[kind])
    made = pod({"nodeName": "n1"}, metadata={"name": "asked"})
    made["metadata"]["annotations"] = {"note": "x", live_memory.WANTED: "x"}
    agents.put(guarded, PODS, made)
    agents.put(guarded, PODS, pod({"nodeName": "n1"}, metadata={"name": "not-asked"}))
    path = f"{PODS}/asked?dryRun=All"
    meddling = MEDDLING["a label"]
    wait_until(
        lambda: guarded.answer("PATCH", path, meddling, AGENT, HIS_NODE)[0] == 422,
        "the rule holds",
        within_s=30,
    )
    return path


ANSWERING: Final[Json] = {"metadata": {"annotations": {live_memory.ANSWER: "x"}}}


def test_the_agent_writes_its_answer(guarded: Cluster, asked: str) -> None:
    status, answer = guarded.answer("PATCH", asked, ANSWERING, AGENT, HIS_NODE)
    assert status == 200, answer


@pytest.mark.parametrize("name", sorted(MEDDLING))
def test_the_agent_writes_nothing_else(guarded: Cluster, asked: str, name: str) -> None:
    status, answer = guarded.answer("PATCH", asked, MEDDLING[name], AGENT, HIS_NODE)
    assert status == 422, answer
    assert "allotment-agent" in answer


def test_the_agent_of_another_node_answers_nothing(guarded: Cluster, asked: str) -> None:
    for node in ({}, {"authentication.kubernetes.io/node-name": "n2"}):
        status, answer = guarded.answer("PATCH", asked, ANSWERING, AGENT, node)
        assert status == 422, answer


def test_the_agent_answers_no_pod_of_which_nothing_is_wanted(guarded: Cluster, asked: str) -> None:
    path = asked.replace("/asked", "/not-asked")
    assert guarded.answer("PATCH", path, ANSWERING, AGENT, HIS_NODE)[0] == 422


def test_the_agent_makes_and_removes_nothing(guarded: Cluster, asked: str) -> None:
    assert guarded.answer("POST", f"{PODS}?dryRun=All", pod(), AGENT, HIS_NODE)[0] == 403
    assert guarded.answer("DELETE", asked, {}, AGENT, HIS_NODE)[0] == 403
    status = asked.replace("/asked", "/asked/status")
    assert guarded.answer("PATCH", status, {"status": {"phase": "Failed"}}, AGENT, HIS_NODE)[0] == 403
    assert guarded.answer("GET", "/api/v1/nodes", None, AGENT, HIS_NODE)[0] == 403
    assert guarded.answer("GET", "/api/v1/secrets", None, AGENT, HIS_NODE)[0] == 403
