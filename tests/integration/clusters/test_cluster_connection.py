"""The connection of a cluster is changed only once the same cluster has answered at the new address."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from benchmarks.support.control_plane import ControlPlane
from clusters.models import Cluster, ClusterHealth, Node
from foundation.models import AuditRecord
from tenants.models import Role
from tests.builders import clusters, tenancy
from tests.fixtures.kubelet import Cluster as KubeCluster

pytestmark = [pytest.mark.server, pytest.mark.django_db]
SIZE = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}


@pytest.fixture
def east(kube: ControlPlane) -> Iterator[Path]:
    """Yield a cluster of one node, added by a kubeconfig."""
    there = KubeCluster(kube)
    there.node("gpu-1", SIZE, {}, {})
    clusters.cell()
    tenancy.platform_admin()
    path = kube.write_kubeconfig(kube.platform_token)
    try:
        run("add", "east", "--path", str(path))
        yield path
    finally:
        Cluster.unscoped.update(connection={"kind": "kubeconfig", "path": str(path)})
        run("remove", "east", "--yes")  # so that the next test finds a cluster without an owner
        there.clear()


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("cluster", *words, stdout=out)
    return out.getvalue()


def refusal(*words: str) -> tuple[int, str]:
    before = Cluster.unscoped.values().get()
    with pytest.raises(CommandError) as caught:
        run(*words)
    after = Cluster.unscoped.values().get()
    assert after["connection"] == before["connection"], "a refused connection is not kept"
    assert after["version"] == before["version"]
    return caught.value.returncode, str(caught.value)


def by_token(kube: ControlPlane, folder: Path) -> tuple[str, ...]:
    token = folder / "token"
    token.write_text(kube.platform_token)
    place = ("--server", kube.url, "--certificate-file", str(kube.certificate))
    return ("--kind", "token", *place, "--token-file", str(token))


def test_another_kubeconfig_and_another_kind_lead_to_the_same_cluster(
    kube: ControlPlane, east: Path, tmp_path: Path
) -> None:
    renewed = kube.write_kubeconfig(kube.platform_token)
    assert "is the same cluster" in run("set", "east", "--path", str(renewed))
    row = Cluster.unscoped.get()
    assert row.connection == {"kind": "kubeconfig", "path": str(renewed)}
    run("set", "east", *by_token(kube, tmp_path))
    row.refresh_from_db()
    assert sorted(row.connection) == ["certificate_file", "kind", "server", "token_file"]
    assert "east has 1 nodes" in run("sync", "east")
    record = AuditRecord.unscoped.filter(action="cluster.set").order_by("created_at", "id").first()
    assert record is not None
    assert record.before == {"connection": {"kind": "kubeconfig", "path": str(east)}}


def test_one_part_changes_and_the_others_stay(kube: ControlPlane, east: Path, tmp_path: Path) -> None:
    run("set", "east", *by_token(kube, tmp_path))
    moved = tmp_path / "moved"
    moved.write_text(kube.platform_token)
    run("set", "east", "--token-file", str(moved))
    connection = Cluster.unscoped.get().connection
    assert (connection["token_file"], connection["server"]) == (str(moved), kube.url)
    run("set", "east", "--kind", "kubeconfig", "--path", str(east), "--context", "c")
    run("set", "east", "--context", "")
    assert Cluster.unscoped.get().connection == {"kind": "kubeconfig", "path": str(east)}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "name what to change"),
        (("--path", "/does/not/exist"), 1, "CLUSTER_UNREACHABLE"),
        (("--server", "https://127.0.0.1:1"), 2, "connection: a connection of kind kubeconfig has no server"),
        (("--kind", "token"), 2, "connection: a connection of kind token needs server, token_file"),
        (("--kind", "in-cluster"), 1, "CLUSTER_UNREACHABLE"),
        (("--path", ""), 2, "connection: a connection of kind kubeconfig needs path"),
    ],
)
def test_what_does_not_answer_is_refused_and_the_old_connection_kept(
    east: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    found = refusal("set", "east", *words)
    assert found[0] == code
    assert message in found[1]
    assert "east has 1 nodes" in run("sync", "east")


def test_another_cluster_is_refused_by_its_uid(kube: ControlPlane, east: Path) -> None:
    Cluster.unscoped.update(uid="of-another-cluster")
    found = refusal("set", "east", "--path", str(kube.write_kubeconfig(kube.platform_token)))
    assert "CLUSTER_DISOWNED" in found[1]


def test_without_a_known_uid_a_node_must_be_there_that_was_there(kube: ControlPlane, east: Path) -> None:
    path = str(kube.write_kubeconfig(kube.platform_token))
    Cluster.unscoped.update(uid=None)
    Node.unscoped.update(name="other-1")
    assert "this is a different cluster" in refusal("set", "east", "--path", path)[1]
    assert Cluster.unscoped.get().uid is None
    Node.unscoped.update(name="gpu-1")
    run("set", "east", "--path", path)
    assert Cluster.unscoped.get().uid


def test_one_that_was_closed_for_a_wrong_address_is_mended(east: Path) -> None:
    wrong = {"kind": "kubeconfig", "path": "/wrong"}
    Cluster.unscoped.update(health=ClusterHealth.DISOWNED, connection=wrong)
    run("set", "east", "--path", str(east))
    assert Cluster.unscoped.get().connection["path"] == str(east)
    Cluster.unscoped.update(health=ClusterHealth.HEALTHY)


def test_a_simulated_cluster_has_no_connection_and_only_admins_change_one(east: Path) -> None:
    clusters.cluster(Cluster.unscoped.get().cell, "sim")
    with pytest.raises(CommandError, match="have no connection settings"):
        run("set", "sim", "--path", str(east))
    Cluster.unscoped.filter(name="sim").delete()
    tenancy.user("reader", None, Role.PLATFORM_VIEWER)
    assert "PERMISSION_DENIED" in refusal("set", "east", "--path", str(east), "--user", "reader")[1]
