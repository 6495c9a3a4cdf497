"""Ways to a card or out of a workspace that bypass the pod itself, tried on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.pods.pods import MANAGED
from clusters.gpu import hami
from tests.fixtures.kubelet import Cluster, Json
from tests.integration.clusters import admission
from tests.integration.clusters.admission import PODS, TENANT, pod, there

pytestmark = pytest.mark.server
CORE: Final = "/api/v1/namespaces/victim"
POLICIES: Final = "/apis/networking.k8s.io/v1/namespaces/victim/networkpolicies"
DRY: Final = "?dryRun=All"
User = tuple[str, list[str]]
SCHEDULER: Final[User] = ("system:kube-scheduler", ["system:authenticated"])
ADMINISTRATOR: Final[User] = ("somebody", ["cluster-admins"])
HAMI: Final[User] = ("system:serviceaccount:kube-system:hami-device-plugin", ["system:serviceaccounts"])
CONTROLLER: Final[User] = (
    "system:serviceaccount:kube-system:replicaset-controller",
    ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
)
NETWORK: Final[User] = ("system:serviceaccount:calico-system:calico-cni-plugin", ["system:authenticated"])


@pytest.fixture(scope="module")
def guarded(kube: ControlPlane) -> Iterator[Cluster]:
    """A workspace's namespace with a pod of the platform and one of the tenant, and what surrounds it."""
    with admission.guarded(kube) as cluster:
        ours = pod(
            {"schedulerName": "allotment"},
            metadata={
                "name": "ours",
                "labels": {**MANAGED, "allotment.io/job": "j"},
                "annotations": {"note": "x", hami.ALLOCATED: "GPU-a,NVIDIA,1,1:;"},
            },
        )
        ours["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        cluster.call("POST", PODS, ours)
        cluster.call("POST", PODS, pod(metadata={"name": "theirs"}))
        for path, name in ((f"{CORE}/configmaps", "gang"), (f"{CORE}/serviceaccounts", "allotment-task")):
            there(cluster, path, {"metadata": {"name": name, "labels": MANAGED}})
        there(cluster, f"{CORE}/resourcequotas", {"metadata": {"name": "allotment", "labels": MANAGED}})
        surrounding = {"metadata": {"name": "allotment", "labels": MANAGED}, "spec": {"podSelector": {}}}
        there(cluster, POLICIES, surrounding)
        rights = [
            (HAMI[0], ["pods", "pods/status"]),
            (NETWORK[0], ["pods", "pods/status"]),
        ]
        for number, (user, resources) in enumerate(rights):
            rules = [{"apiGroups": [""], "resources": resources, "verbs": ["*"]}]
            _give(cluster, f"around-{number}", user, "User", rules)
        everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        _give(cluster, "around-admin", "cluster-admins", "Group", everything)
        yield cluster
        cluster.call("DELETE", f"{POLICIES}/allotment", {})


def _give(cluster: Cluster, name: str, subject: str, kind: str, rules: list[Json]) -> None:
    group = "rbac.authorization.k8s.io"
    there(cluster, f"{admission.RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": kind, "name": subject}],
    }
    there(cluster, f"{admission.RBAC}/clusterrolebindings", binding)


def attempt(guarded: Cluster, user: User, method: str, path: str, body: Json) -> int:
    """The status that a call is answered with, nothing being written."""
    status, answer = guarded.answer(method, path + DRY, body, user)
    assert status < 300 or (status == 422 and "allotment-" in answer), answer
    return status


BINDING: Final[Json] = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "theirs", "annotations": {hami.ALLOCATED: "GPU-a,NVIDIA,1,1:;"}},
    "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-0"},
}


@pytest.mark.parametrize("path", [f"{PODS}/theirs/binding", f"{CORE}/bindings"])
def test_only_a_scheduler_binds(guarded: Cluster, path: str) -> None:
    assert attempt(guarded, TENANT, "POST", path, BINDING) == 422
    plain = {**BINDING, "metadata": {"name": "theirs"}}
    assert attempt(guarded, TENANT, "POST", path, plain) == 422
    assert attempt(guarded, ADMINISTRATOR, "POST", path, plain) == 422  # not by a mistake either
    assert attempt(guarded, SCHEDULER, "POST", f"{PODS}/theirs/binding", plain) == 201


STATUS: Final = {
    "an end that it has not come to": {"status": {"phase": "Succeeded"}},
    "a container that has ended": {
        "status": {
            "containerStatuses": [
                {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0,
                 "state": {"terminated": {"exitCode": 0}}}
            ]
        }
    },
    "books of HAMi": {"metadata": {"annotations": {hami.ALLOCATED: None}}},
    "a device": {"metadata": {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}}},
    "a label less": {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}},
}  # fmt: skip


@pytest.mark.parametrize("name", STATUS)
def test_the_status_of_a_pod_is_no_way_around(guarded: Cluster, name: str) -> None:
    for user in (TENANT, NETWORK):
        assert attempt(guarded, user, "PATCH", f"{PODS}/ours/status", STATUS[name]) == 422


def test_network_plugins_still_write_their_notes(guarded: Cluster) -> None:
    note = {"metadata": {"annotations": {"cni.projectcalico.org/podIP": "10.0.0.1/32"}}}
    assert attempt(guarded, NETWORK, "PATCH", f"{PODS}/ours/status", note) == 200


def test_a_pod_of_the_platform_is_not_changed_by_tenants(guarded: Cluster) -> None:
    labels = {"app.kubernetes.io/managed-by": None, "allotment.io/job": None}
    for change in (
        {"metadata": {"labels": labels}},
        {"metadata": {"labels": labels, "annotations": {hami.ALLOCATED: None}}},
        {"metadata": {"annotations": {"note": "y"}}},
        {"spec": {"activeDeadlineSeconds": 1}},
    ):
        assert attempt(guarded, TENANT, "PATCH", f"{PODS}/ours", change) == 422
    more = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "64"}}}]}}
    status, answer = guarded.answer("PATCH", f"{PODS}/ours/resize{DRY}", more, TENANT)
    assert status >= 400, answer


def test_parts_of_the_cluster_keep_pods_up_and_make_none_of_their_own(guarded: Cluster) -> None:
    ours = f"{PODS}/ours"
    answered = {hami.PHASE: hami.PHASE_SUCCESS, hami.TO_ALLOCATE: ";"}
    assert attempt(guarded, HAMI, "PATCH", ours, {"metadata": {"annotations": answered}}) == 200
    for change in (
        {"metadata": {"annotations": {"allotment.io/gpu-memory": "x"}}},
        {"metadata": {"annotations": {"note": None}}},
        {"metadata": {"labels": {"allotment.io/job": None}}},
        {"spec": {"activeDeadlineSeconds": 1}},
    ):
        assert attempt(guarded, HAMI, "PATCH", ours, change) == 422
    theft = pod(metadata={"annotations": {hami.ALLOCATED: "GPU-a,NVIDIA,1,1:;"}})
    assert attempt(guarded, CONTROLLER, "POST", PODS, theft) == 422
    assert attempt(guarded, CONTROLLER, "POST", PODS, pod()) == 201
    assert attempt(guarded, HAMI, "POST", PODS, theft) == 422


NAMESPACES: Final = "/api/v1/namespaces"
ENFORCE: Final = "pod-security.kubernetes.io/enforce"


@pytest.mark.parametrize(
    "labels",
    [
        dict(MANAGED),
        {"allotment.io/workspace": "0190a3b4-0000-7000-8000-000000000000"},
        {"allotment.io/installation": "0190a3b4-0000-7000-8000-000000000000"},
    ],
    ids=["managed", "workspace", "installation"],
)
def test_no_namespace_passes_for_a_workspaces(guarded: Cluster, labels: Json) -> None:
    body = {"metadata": {"name": "forged", "labels": labels}}
    assert attempt(guarded, TENANT, "POST", NAMESPACES, body) == 422
    change = {"metadata": {"labels": labels}}
    assert attempt(guarded, TENANT, "PATCH", f"{NAMESPACES}/kube-public", change) == 422
    assert attempt(guarded, ADMINISTRATOR, "POST", NAMESPACES, body) == 201
    harmless = {"metadata": {"name": "x", "labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    assert attempt(guarded, TENANT, "POST", NAMESPACES, harmless) == 201


@pytest.mark.parametrize(
    "change",
    [
        {"app.kubernetes.io/managed-by": None},
        {"app.kubernetes.io/managed-by": "Helm"},
        {ENFORCE: None},
        {ENFORCE: "privileged"},
        {f"{ENFORCE}-version": "v1.20"},
        {"allotment.io/workspace": "x"},
    ],
    ids=str,
)
def test_the_labels_of_a_workspaces_namespace_stay(guarded: Cluster, change: Json) -> None:
    body = {"metadata": {"labels": change}}
    assert attempt(guarded, TENANT, "PATCH", f"{NAMESPACES}/victim", body) == 422
    assert attempt(guarded, ADMINISTRATOR, "PATCH", f"{NAMESPACES}/victim", body) == 200


def egress(*rules: Json) -> Json:
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": list(rules)}
    return {"metadata": {"name": "mine"}, "spec": spec}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (egress({}), 422),
        (egress({"to": []}), 422),
        (egress({"ports": [{"port": 80}]}), 422),
        (egress({"to": [{"ipBlock": {"cidr": "169.254.169.254/32"}}]}), 422),
        (egress({"to": [{"podSelector": {}}]}, {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}), 422),
        (egress({"to": [{"namespaceSelector": {}}]}), 201),
        (egress(), 201),
        ({"metadata": {"name": "mine"}, "spec": {"podSelector": {}, "ingress": [{}]}}, 201),
    ],
    ids=range(8),
)
def test_no_policy_opens_a_way_out_beside_the_platforms(guarded: Cluster, body: Json, status: int) -> None:
    assert attempt(guarded, TENANT, "POST", POLICIES, body) == status


SURROUNDING: Final = {
    f"{POLICIES}/allotment": {"spec": {"egress": [{}]}},
    f"{CORE}/serviceaccounts/allotment-task": {"automountServiceAccountToken": True},
    f"{CORE}/resourcequotas/allotment": {"spec": {"hard": {"pods": "9"}}},
    f"{CORE}/configmaps/gang": {"data": {"hostfile": "elsewhere"}},
}


@pytest.mark.parametrize("path", SURROUNDING)
def test_what_surrounds_a_workspace_stays(guarded: Cluster, path: str) -> None:
    assert attempt(guarded, TENANT, "PATCH", path, SURROUNDING[path]) == 422
    assert attempt(guarded, TENANT, "PATCH", path, {"metadata": {"labels": dict.fromkeys(MANAGED)}}) == 422
    assert attempt(guarded, TENANT, "DELETE", path, {}) == 422


def test_tenants_keep_objects_of_their_own(guarded: Cluster) -> None:
    for kind in ("configmaps", "serviceaccounts", "resourcequotas"):
        assert attempt(guarded, TENANT, "POST", f"{CORE}/{kind}", {"metadata": {"name": "mine"}}) == 201
        forged = {"metadata": {"name": "forged", "labels": MANAGED}}
        assert attempt(guarded, TENANT, "POST", f"{CORE}/{kind}", forged) == 422
    # The cluster's own controllers empty a namespace that is deleted.
    assert (
        attempt(guarded, CONTROLLER, "PATCH", f"{PODS}/theirs", {"metadata": {"finalizers": ["x/y"]}}) == 200
    )
