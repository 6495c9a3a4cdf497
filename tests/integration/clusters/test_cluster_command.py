"""A Kubernetes cluster from the shell to jobs that run in it, on a real API server."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from benchmarks.support.control_plane import ControlPlane
from clusters.models import Cluster, Device, Flavor, Node
from foundation.core.actor import SYSTEM
from foundation.models import AuditRecord
from quotas.services.queues.queue import queue_create
from tenants.models import Role
from tests.builders import clusters, tenancy
from tests.fixtures.kubelet import Cluster as KubeCluster

pytestmark = [pytest.mark.server, pytest.mark.django_db]
H200 = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}
SIZE = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}


@pytest.fixture
def east(kube: ControlPlane) -> Iterator[KubeCluster]:
    """Two nodes of eight cards and one without any."""
    cluster = KubeCluster(kube)
    for name in ("gpu-1", "gpu-2"):
        cluster.node(name, SIZE, H200, {})
    cluster.node("plain", {"cpu": "8", "memory": "32Gi", "pods": "110"}, {}, {})
    try:
        yield cluster
    finally:
        cluster.clear()


@pytest.fixture(autouse=True)
def operator() -> None:
    clusters.cell()
    tenancy.platform_admin()


def run(*words: str) -> Any:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def refusal(*words: str) -> tuple[int, str]:
    with pytest.raises(CommandError) as caught:
        call_command(*words, stdout=io.StringIO())
    return caught.value.returncode, str(caught.value)


def test_a_cluster_is_added_with_its_nodes_and_gets_its_flavors(
    kube: ControlPlane, east: KubeCluster, tmp_path: Any
) -> None:
    config, told = str(kube.write_kubeconfig(kube.platform_token)), tmp_path / "told.json"
    assert "east added with 3 nodes" in run("cluster", "add", "east", "--path", config, "--json", str(told))
    assert json.loads(told.read_text()) == {"name": "east", "cell": "default", "backend": "kubernetes"}
    assert Device.unscoped.count() == 16
    assert "h200" in run("flavor", "discover", "east")
    assert not Flavor.unscoped.exists()
    run("flavor", "discover", "east", "--apply")
    flavor = Flavor.unscoped.get()
    assert (flavor.name, flavor.card_memory_mib, flavor.gpu_mode) == ("h200", 143_771, "whole")
    assert set(Node.unscoped.filter(flavor=flavor).values_list("name", flat=True)) == {"gpu-1", "gpu-2"}
    assert "every node with GPUs" in run("flavor", "discover", "east")
    assert "16" in run("flavor", "list")
    assert "kubernetes" in run("cluster", "list")
    actions = list(AuditRecord.unscoped.order_by("created_at", "id").values_list("action", flat=True))
    assert actions[-2:] == ["cluster.add", "flavor.add"]


def test_reading_again_brings_what_came_and_marks_what_left(kube: ControlPlane, east: KubeCluster) -> None:
    run("cluster", "add", "east", "--path", str(kube.write_kubeconfig(kube.platform_token)))
    east.node("gpu-3", SIZE, H200, {})
    east.call("DELETE", "/api/v1/nodes/gpu-1", {})
    assert "east has 3 nodes" in run("cluster", "sync", "east")
    present = dict(Node.unscoped.values_list("name", "present"))
    assert present == {"gpu-1": False, "gpu-2": True, "gpu-3": True, "plain": True}


def test_removing_forgets_the_cluster_unless_something_needs_it(
    kube: ControlPlane, east: KubeCluster
) -> None:
    run("cluster", "add", "east", "--path", str(kube.write_kubeconfig(kube.platform_token)))
    run("flavor", "add", "east", "h200", "--selector", "nvidia.com/gpu.product=NVIDIA-H200")
    flavor = Flavor.unscoped.get()
    assert flavor.nodes.count() == 2
    workspace = tenancy.workspace()
    queue = queue_create(
        acting_user=SYSTEM, cell=flavor.cluster.cell, workspace=workspace, name="default", flavors=[flavor]
    )
    code, message = refusal("cluster", "remove", "east", "--yes")
    assert code == 1
    assert "CLUSTER_IN_USE" in message
    assert Node.unscoped.count() == 3
    queue.queue_flavors.all().delete()
    run("cluster", "remove", "east", "--yes")
    assert not Cluster.unscoped.exists()
    assert len(east.items("/api/v1/nodes")) == 3


@pytest.mark.parametrize(("answer", "code"), [("east", 0), ("west", 1), ("", 1), (None, 2)])
def test_a_removal_is_asked_for_by_name(
    kube: ControlPlane, east: KubeCluster, monkeypatch: pytest.MonkeyPatch, answer: str | None, code: int
) -> None:
    def type_answer(_: str) -> str:
        if answer is None:
            raise EOFError
        return answer

    monkeypatch.setattr("builtins.input", type_answer)
    run("cluster", "add", "east", "--path", str(kube.write_kubeconfig(kube.platform_token)))
    if code:
        assert refusal("cluster", "remove", "east")[0] == code
    else:
        run("cluster", "remove", "east")
    assert Cluster.unscoped.exists() is bool(code)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("cluster", "add", "east"), 2, "connection: a connection of kind kubeconfig needs path"),
        (("cluster", "add", "East!", "--path", "/x"), 2, "name: "),
        (("cluster", "add", "east", "--path", "/does/not/exist"), 1, "CLUSTER_UNREACHABLE"),
        (("cluster", "add", "east", "--kind", "in-cluster"), 1, "CLUSTER_UNREACHABLE"),
        (("cluster", "add", "east", "--path", "/x", "--cell", "no"), 2, "scheduling domain 'no' not found"),
        (("cluster", "sync", "no"), 1, "Cluster no not found (NOT_FOUND)"),
        (("flavor", "discover", "no"), 1, "Cluster no not found (NOT_FOUND)"),
        (("cluster", "list", "--user", "nobody"), 2, "user 'nobody' not found"),
    ],
)
def test_what_cannot_be_is_one_clear_line(words: tuple[str, ...], code: int, message: str) -> None:
    told = refusal(*words)
    assert told[0] == code
    assert message in told[1]
    assert not Cluster.unscoped.exists()


def test_a_name_is_given_once_and_a_selector_must_choose(kube: ControlPlane, east: KubeCluster) -> None:
    config = str(kube.write_kubeconfig(kube.platform_token))
    run("cluster", "add", "east", "--path", config)
    assert "name: Cluster name already exists" in refusal("cluster", "add", "east", "--path", config)[1]
    assert "use LABEL=VALUE" in refusal("flavor", "add", "east", "all", "--selector", "any")[1]
    run("flavor", "add", "east", "all", "--selector", "nvidia.com/gpu.product=NVIDIA-H200")
    again = refusal("flavor", "add", "east", "all", "--selector", "a=b")
    assert "name: Pool name already exists in the cluster" in again[1]


def test_only_who_may_change_clusters_does(kube: ControlPlane, east: KubeCluster) -> None:
    tenancy.member(tenancy.user("reader"), None, Role.PLATFORM_VIEWER)
    told = refusal(
        "cluster",
        "add",
        "east",
        "--path",
        str(kube.write_kubeconfig(kube.platform_token)),
        "--user",
        "reader",
    )
    assert "PERMISSION_DENIED" in told[1]
    assert not Cluster.unscoped.exists()
    assert "name" in run("cluster", "list", "--user", "reader")
