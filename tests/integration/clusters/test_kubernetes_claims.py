"""The rights of the platform's own account on volume claims, under the shipped role and policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.namespaces.namespaces import namespace_labels
from clusters.backends.kubernetes.namespaces.provisioning import SELECTED_NODE
from tests.fixtures.kubelet import Cluster, Json
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.server
PLATFORM: Final = ("allotment", ["system:authenticated"])
CLAIMS: Final = "/api/v1/namespaces/{}/persistentvolumeclaims"
OWN, OTHERS = "claims-team", "claims-others"
SELECT: Final[Json] = {"metadata": {"annotations": {SELECTED_NODE: "node-1"}}}


@pytest.fixture(scope="module")
def cluster(kube: ControlPlane) -> Iterator[Cluster]:
    """Yield claims `data` and `bound` in a namespace of a workspace and in a foreign namespace."""
    cluster = Cluster(kube)
    cluster.namespace(OWN, namespace_labels("0190a3b4-0000-7000-8000-000000000001", "w"))
    cluster.namespace(OTHERS, {"allotment.io/workspace": "w"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for namespace in (OWN, OTHERS):
        for name, more in (("data", {}), ("bound", {"volumeName": "disk"})):
            metadata = {"name": name, "labels": {"app": "x"}, "annotations": {"note": "x"}}
            body = {"metadata": metadata, "spec": {**spec, **more}}
            cluster.call("POST", CLAIMS.format(namespace), body)
    wait_until(
        lambda: patch(cluster, "data", {"metadata": {"labels": {"app": "y"}}})[0] == 422,
        "the policies are enforced",
        within_s=30,
    )
    yield cluster
    for namespace in (OWN, OTHERS):
        for name in ("data", "bound"):
            path = f"{CLAIMS.format(namespace)}/{name}"
            cluster.call("PATCH", path, {"metadata": {"finalizers": None}})
            cluster.answer("DELETE", path)
    cluster.clear()


def patch(cluster: Cluster, name: str, body: Json, namespace: str = OWN) -> tuple[int, str]:
    return cluster.answer("PATCH", f"{CLAIMS.format(namespace)}/{name}?dryRun=All", body, PLATFORM)


def test_the_node_of_an_unbound_claim_is_selected_replaced_and_removed(cluster: Cluster) -> None:
    path = f"{CLAIMS.format(OWN)}/data"
    for node in ("node-1", "node-2", None):
        body = {"metadata": {"annotations": {SELECTED_NODE: node}}}
        status, text = cluster.answer("PATCH", path, body, PLATFORM)
        assert status == 200, text


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"app": "y"}}},
        {"metadata": {"labels": {"b": "y"}}},
        {"metadata": {"annotations": {"note": None}}},
        {"metadata": {"annotations": {"note": "y", SELECTED_NODE: "node-1"}}},
        {"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "x"}}},
        {"metadata": {"finalizers": None}},
        {"metadata": {"finalizers": ["x/y"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
        {"spec": {"volumeName": "disk"}},
        {"spec": {"storageClassName": "fast"}},
    ],
    ids=range(10),
)
def test_nothing_else_of_a_claim_is_changed(cluster: Cluster, change: Json) -> None:
    # The claim has the finalizer only where a controller of Kubernetes set it.
    cluster.call("PATCH", f"{CLAIMS.format(OWN)}/data", {"metadata": {"finalizers": ["a/b"]}})
    status, text = patch(cluster, "data", change)
    assert status == 422 and "allotment-platform-claims" in text, text


def test_an_owner_of_a_claim_is_not_replaced(cluster: Cluster) -> None:
    path = f"{CLAIMS.format(OWN)}/data"
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "a",
        "uid": "11111111-1111-1111-1111-111111111111",
    }
    cluster.call("PATCH", path, {"metadata": {"ownerReferences": [owner]}})
    try:
        status, text = patch(cluster, "data", {"metadata": {"ownerReferences": [{**owner, "name": "b"}]}})
        assert status == 422 and "allotment-platform-claims" in text, text
    finally:
        cluster.call("PATCH", path, {"metadata": {"ownerReferences": None}})


def test_no_node_is_selected_for_claims_that_have_a_volume_or_belong_to_others(cluster: Cluster) -> None:
    for name, namespace in (("bound", OWN), ("data", OTHERS)):
        status, text = patch(cluster, name, SELECT, namespace)
        assert status == 422 and "allotment-platform-claims" in text, text


def test_claims_are_not_made_removed_or_bound(cluster: Cluster) -> None:
    path = CLAIMS.format(OWN)
    for method, where in (("POST", path), ("DELETE", f"{path}/data"), ("PATCH", f"{path}/data/status")):
        status, text = cluster.answer(method, f"{where}?dryRun=All", {}, PLATFORM)
        assert status == 403 and "forbidden" in text, text
