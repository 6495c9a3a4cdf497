"""The rights of the platform's own account in a cluster, with the shipped role and policies."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import DeviceGrant, TaskRef, TaskSpec
from clusters.backends.kubernetes.namespaces.namespaces import (
    build_network_policy,
    build_service_account,
    namespace_labels,
)
from clusters.backends.kubernetes.pods.pods import MANAGED, build_manifest
from clusters.gpu import hami
from tests.fixtures.kubelet import Cluster, Json
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.server
PLATFORM: Final = ("allotment", ["system:authenticated"])
INSTALLATION: Final = "0190a3b4-0000-7000-8000-000000000001"
WORKSPACE: Final = "0190a3b4-0000-7000-8000-000000000002"
NAMESPACES: Final = "/api/v1/namespaces"
TEAM: Final = f"{NAMESPACES}/own-team"
NETWORKS: Final = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
POD: Final = build_manifest(
    TaskSpec(
        ref=TaskRef("own-team", "p"),
        node="n1",
        cpu_millicores=100,
        memory_mib=64,
        devices=(DeviceGrant("GPU-a", 30, 1024),),
        image="x",
        command=("x",),
        environment={},
        labels={"allotment.io/job": "j"},
        workspace=WORKSPACE,
        options={
            "volumes": [
                {"claim": "c", "mount": "/c"},
                {"empty": "1Gi", "mount": "/e"},
                {"secret": "s", "mount": "/s"},
                {"config": "m", "mount": "/m"},
            ]
        },
    ),
    INSTALLATION,
)


@pytest.fixture(scope="module")
def cluster(kube: ControlPlane) -> Iterator[Cluster]:
    """Yield namespaces of a workspace, of an earlier version and of another owner, and a node."""
    cluster = Cluster(kube)
    cluster.namespace("own-team", namespace_labels(INSTALLATION, WORKSPACE))
    cluster.namespace("own-older", MANAGED)
    cluster.namespace("own-others", {"allotment.io/workspace": WORKSPACE})
    cluster.answer(
        "POST", "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "n"}
    )
    for name in ("own-team", "own-older", "own-others", "kube-system"):
        there = {"metadata": {"name": "allotment-task"}, "automountServiceAccountToken": False}
        cluster.answer("POST", f"{NAMESPACES}/{name}/serviceaccounts", there)
        cluster.call("POST", f"{NAMESPACES}/{name}/configmaps", {"metadata": {"name": "theirs"}})
        cluster.call(
            "POST", f"{NAMESPACES}/{name}/configmaps", {"metadata": {"name": "ours", "labels": MANAGED}}
        )
    cluster.call("POST", f"{TEAM}/pods", POD)
    theirs = copy.deepcopy(POD)
    theirs["metadata"] = {"name": "theirs"}
    cluster.call("POST", f"{TEAM}/pods", theirs)
    cluster.node("own-node", {"cpu": "1", "pods": "9"}, {"pool": "a"}, {hami.REGISTER: "[]"})
    stolen = {"metadata": {"name": "x"}}
    wait_until(
        lambda: (
            cluster.answer("POST", f"{NAMESPACES}/kube-system/configmaps?dryRun=All", stolen, PLATFORM)[0]
            == 422
        ),
        "the policies are enforced",
        within_s=30,
    )
    try:
        yield cluster
    finally:
        cluster.clear()
        for name in ("own-others", "kube-system"):
            for one in ("theirs", "ours"):
                cluster.call("DELETE", f"{NAMESPACES}/{name}/configmaps/{one}", {})


def answer(cluster: Cluster, method: str, path: str, body: Json) -> tuple[int, str]:
    """Return the API's answer to the platform's account for a dry run."""
    return cluster.answer(method, f"{path}?dryRun=All", body, PLATFORM)


def pod(container: Json | None = None, metadata: Json | None = None, **spec: object) -> Json:
    """Return the pod of a task with some changes, under a name of its own."""
    made = copy.deepcopy(POD)
    made["metadata"] |= {"name": "other", **(metadata or {})}
    made["spec"] |= spec
    made["spec"]["containers"][0] |= container or {}
    del made["metadata"]["namespace"]
    return made


UNSAFE: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
VOLUMES: Final = POD["spec"]["volumes"]
PODS: Final = {
    "privileges": pod({"securityContext": {"privileged": True}}),
    "a way to privileges": pod({"securityContext": {"capabilities": {"drop": ["ALL"]}}}),
    "a capability": pod(
        {"securityContext": UNSAFE | {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}}
    ),
    "no word on privileges": pod({"securityContext": None}),
    "a folder of the node": pod(volumes=[*VOLUMES, {"name": "v", "hostPath": {"path": "/"}}]),
    "a token": pod(
        volumes=[*VOLUMES, {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
    ),
    "a driver's volume": pod(volumes=[*VOLUMES, {"name": "v", "csi": {"driver": "d"}}]),
    "a volume of the network": pod(volumes=[*VOLUMES, {"name": "v", "nfs": {"server": "s", "path": "/"}}]),
    "the node's processes": pod(hostPID=True),
    "the node's network": pod(hostNetwork=True),
    "the node's memory": pod(hostIPC=True),
    "a port of the node": pod({"ports": [{"containerPort": 80, "hostPort": 80}]}),
    "another account": pod(serviceAccountName="default"),
    "no account": pod(serviceAccountName=None),
    "the account's token": pod(automountServiceAccountToken=True),
    "no word on the token": pod(automountServiceAccountToken=None),
    "a node of its choice": pod(nodeName="own-node"),
    "another scheduler": pod(schedulerName="default-scheduler"),
    "another runtime": pod(runtimeClassName="nvidia"),
    "a priority of the cluster": pod(priorityClassName="system-node-critical"),
    "root": pod(securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
    "no seccomp": pod(securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "Unconfined"}}),
    "an init container": pod(initContainers=[POD["spec"]["containers"][0] | {"name": "i"}]),
    "no label": pod(metadata={"labels": {}}),
    "a claim to devices": pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
}


@pytest.mark.parametrize("name", PODS)
def test_its_pods_are_those_of_tasks_and_no_others(cluster: Cluster, name: str) -> None:
    status, text = answer(cluster, "POST", f"{TEAM}/pods", PODS[name])
    assert status in (403, 422), text
    assert "allotment-platform" in text or "PodSecurity" in text, text


def test_the_pod_of_a_task_is_made_bound_annotated_and_removed(cluster: Cluster) -> None:
    assert answer(cluster, "POST", f"{TEAM}/pods", pod())[0] == 201
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
               "target": {"apiVersion": "v1", "kind": "Node", "name": "own-node"}}  # fmt: skip
    assert answer(cluster, "POST", f"{TEAM}/pods/p/binding", binding)[0] == 201
    wish = {"metadata": {"annotations": {"allotment.io/gpu-memory": "x"}}}
    assert answer(cluster, "PATCH", f"{TEAM}/pods/p", wish)[0] == 200
    assert answer(cluster, "DELETE", f"{TEAM}/pods/p", {})[0] == 200


@pytest.mark.parametrize("namespace", ["kube-system", "own-others", "own-older"])
def test_it_makes_nothing_in_namespaces_of_others(cluster: Cluster, namespace: str) -> None:
    place = f"{NAMESPACES}/{namespace}"
    labelled = {"metadata": {"name": "x", "labels": MANAGED}}
    named = {"metadata": {"name": "allotment", "labels": MANAGED}}
    attempts = {
        f"{place}/pods": pod(),
        f"{place}/configmaps": labelled,
        f"{place}/services": labelled | {"spec": {"clusterIP": "None"}},
        f"{place}/resourcequotas": named,
        f"{place}/serviceaccounts": {"metadata": {"name": "allotment-task", "labels": MANAGED},
                                     "automountServiceAccountToken": False},
        NETWORKS.format(namespace): build_network_policy(INSTALLATION)[2],
    }  # fmt: skip
    for path, body in attempts.items():
        status, text = answer(cluster, "POST", path, body)
        assert status == 422 and "in namespaces of workspaces alone" in text, (path, text)


@pytest.mark.parametrize("namespace", ["kube-system", "own-others", "own-team"])
def test_it_changes_and_removes_nothing_that_it_has_not_made(cluster: Cluster, namespace: str) -> None:
    path = f"{NAMESPACES}/{namespace}/configmaps/theirs"
    for method, body in (
        ("PATCH", {"data": {"x": "y"}}),
        ("PATCH", {"metadata": {"labels": MANAGED}}),
        ("DELETE", {}),
    ):
        status, text = answer(cluster, method, path, body)
        assert status == 422, (method, text)
    if namespace == "own-team":
        for method, body in (("PATCH", {"metadata": {"annotations": {"x": "y"}}}), ("DELETE", {})):
            assert answer(cluster, method, f"{TEAM}/pods/theirs", body)[0] == 422


def test_what_it_has_made_it_changes_and_removes(cluster: Cluster) -> None:
    # In a namespace of an earlier version, too, because jobs that run there have to end.
    for namespace in ("own-team", "own-older"):
        path = f"{NAMESPACES}/{namespace}/configmaps/ours"
        assert answer(cluster, "PATCH", path, {"data": {"x": "y"}})[0] == 200
        assert answer(cluster, "PATCH", path, {"metadata": {"labels": dict.fromkeys(MANAGED)}})[0] == 422
        assert answer(cluster, "DELETE", path, {})[0] == 200


def test_in_its_own_namespace_it_says_who_runs_the_cluster_and_nothing_else(cluster: Cluster) -> None:
    place = f"{NAMESPACES}/allotment/configmaps"
    for name, expected in (("allotment-owner", (201, 409)), ("web-settings", (422,))):
        body = {"metadata": {"name": name, "labels": MANAGED}, "data": {"x": "y"}}
        assert answer(cluster, "POST", place, body)[0] in expected, name
    assert answer(cluster, "POST", f"{NAMESPACES}/allotment/pods", pod())[0] in (403, 422)


def test_what_surrounds_a_workspace_is_made_and_brought_back(cluster: Cluster) -> None:
    for root, kind, body in (build_service_account(INSTALLATION), build_network_policy(INSTALLATION)):
        path = f"{root}/namespaces/own-team/{kind}"
        assert answer(cluster, "POST", path, body)[0] in (201, 409)
    back = {"metadata": {"labels": MANAGED}}
    assert answer(cluster, "PATCH", f"{TEAM}/serviceaccounts/allotment-task", back)[0] == 200
    token = back | {"automountServiceAccountToken": True}
    assert answer(cluster, "PATCH", f"{TEAM}/serviceaccounts/allotment-task", token)[0] == 422
    other = {"metadata": {"name": "other", "labels": MANAGED}, "automountServiceAccountToken": False}
    assert answer(cluster, "POST", f"{TEAM}/serviceaccounts", other)[0] == 422
    assert answer(cluster, "PATCH", f"{TEAM}/serviceaccounts/default", back)[0] == 403


@pytest.mark.parametrize(
    "spec",
    [
        {"ports": [{"port": 80}]},
        {"type": "NodePort", "ports": [{"port": 80}]},
        {"type": "LoadBalancer", "ports": [{"port": 80}]},
        {"type": "ExternalName", "externalName": "example.com"},
        {"clusterIP": "None", "externalIPs": ["10.0.0.1"], "ports": [{"port": 80}]},
    ],
    ids=range(5),
)
def test_its_services_have_no_address(cluster: Cluster, spec: Json) -> None:
    body = {"metadata": {"name": "x", "labels": MANAGED}, "spec": spec}
    assert answer(cluster, "POST", f"{TEAM}/services", body)[0] == 422
    fine = {"metadata": {"name": "x", "labels": MANAGED}, "spec": {"clusterIP": "None"}}
    assert answer(cluster, "POST", f"{TEAM}/services", fine)[0] == 201


def test_it_makes_namespaces_of_workspaces_and_marks_no_others(cluster: Cluster) -> None:
    labels = namespace_labels(INSTALLATION, WORKSPACE)
    assert answer(cluster, "POST", NAMESPACES, {"metadata": {"name": "x", "labels": labels}})[0] == 201
    for missing in labels:
        less = {key: value for key, value in labels.items() if key != missing}
        assert answer(cluster, "POST", NAMESPACES, {"metadata": {"name": "x", "labels": less}})[0] == 422
    body = {"metadata": {"labels": labels}}
    for name in ("kube-system", "own-others", "default"):
        status, text = answer(cluster, "PATCH", f"{NAMESPACES}/{name}", body)
        assert status == 422 and "allotment-platform-namespaces" in text, text
    assert answer(cluster, "PATCH", f"{NAMESPACES}/own-older", body)[0] == 200  # of an earlier version
    assert answer(cluster, "PATCH", f"{NAMESPACES}/own-team", body)[0] == 200
    for change in (
        {"allotment.io/workspace": "another"},
        {"allotment.io/workspace": None},
        {"allotment.io/installation": "another"},
        {"pod-security.kubernetes.io/enforce": "privileged"},
        {"app.kubernetes.io/managed-by": None},
    ):
        assert answer(cluster, "PATCH", TEAM, {"metadata": {"labels": change}})[0] == 422, change
    assert answer(cluster, "DELETE", TEAM, {})[0] == 403


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"pool": "b"}}},
        {"metadata": {"annotations": {hami.REGISTER: None}}},
        {"metadata": {"annotations": {"x": "y"}}},
        {"metadata": {"finalizers": ["x/y"]}},
        {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}},
        {"spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}},
        {"spec": {"unschedulable": True, "providerID": "other://1"}},
        {"spec": {"unschedulable": True, "podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}},
    ],
    ids=range(8),
)
def test_a_node_it_cordons_and_locks_and_nothing_else(cluster: Cluster, change: Json) -> None:
    node = "/api/v1/nodes/own-node"
    status, text = answer(cluster, "PATCH", node, change)
    assert status == 422 and "HAMi's lock" in text, text
    for cordoned in (True, True, None):
        status, text = answer(cluster, "PATCH", node, {"spec": {"unschedulable": cordoned}})
        assert status == 200, text
    for lock in ("2026-08-21T06:20:39Z,own-team,p", None):
        status, text = answer(cluster, "PATCH", node, {"metadata": {"annotations": {hami.LOCK: lock}}})
        assert status == 200, text
    assert answer(cluster, "DELETE", node, {})[0] == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{TEAM}/secrets"),
        ("GET", f"{TEAM}/serviceaccounts/default"),
        ("POST", f"{TEAM}/serviceaccounts/allotment-task/token"),
        ("POST", f"{TEAM}/pods/p/exec"),
        ("PATCH", f"{TEAM}/pods/p/ephemeralcontainers"),
        ("PATCH", f"{TEAM}/pods/p/status"),
        ("POST", f"{TEAM}/bindings"),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        ("POST", "/apis/apps/v1/namespaces/own-team/deployments"),
        ("PATCH", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/allotment-platform"),
    ],
)
def test_its_role_gives_it_nothing_else(cluster: Cluster, method: str, path: str) -> None:
    status, text = cluster.answer(method, path, {} if method != "GET" else None, PLATFORM)
    assert status == 403 and "forbidden" in text, text
