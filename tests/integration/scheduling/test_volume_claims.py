"""The volume claims that the form of a new job offers, from a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from bs4 import BeautifulSoup
from django.test import Client

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.namespaces.namespaces import namespace_labels
from clusters.backends.volumes import Provisioning, VolumeClaim
from clusters.models import BackendKind, Cluster, ClusterHealth
from foundation.core.errors import PermissionDenied
from foundation.models.installation import installation_id
from frontend.pages.submission.list_inputs import read_entries
from scheduling.selectors.pods.volume_claims import ClusterClaims, volume_claims
from tenants.models import Role
from tests.builders import tenancy
from tests.builders.kube_stage import KubeStage, kube_stage

pytestmark = [pytest.mark.server, pytest.mark.django_db]
TEAM = "/api/v1/namespaces/team-a"
CLAIMS = f"{TEAM}/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with kube_stage(kube, monkeypatch) as made:
        yield made
        for item in made.api.items(CLAIMS):
            path = f"{CLAIMS}/{item['metadata']['name']}"
            made.api.call("PATCH", path, {"metadata": {"finalizers": None}})
            made.api.answer("DELETE", path)
        status, text = made.api.answer("DELETE", TEAM, {})
        if status == 200:
            made.api.call("PUT", f"{TEAM}/finalize", {**json.loads(text), "spec": {"finalizers": []}})


def claim(stage: KubeStage, name: str, **spec: object) -> None:
    body = {"metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": "10Gi"}}, **spec}}
    stage.api.call("POST", CLAIMS, body)


def own_namespace(stage: KubeStage) -> None:
    stage.api.namespace("team-a", namespace_labels(str(installation_id()), str(stage.queue.workspace_id)))


def shown_page(stage: KubeStage) -> BeautifulSoup:
    client = Client()
    client.force_login(stage.user)
    answer = client.get(f"/w/team-a/jobs/new/claims?queue={stage.queue.name}")
    assert answer.status_code == 200
    return BeautifulSoup(answer.content.decode(), "html.parser")


def test_claims_have_their_size_access_class_and_phase(stage: KubeStage) -> None:
    own_namespace(stage)
    claim(stage, "scratch", accessModes=["ReadWriteOnce"])
    claim(stage, "data", accessModes=["ReadOnlyMany"], storageClassName="fast")
    bound = {"phase": "Bound", "capacity": {"storage": "12Gi"}, "accessModes": ["ReadOnlyMany"]}
    stage.api.call("PATCH", f"{CLAIMS}/data/status", {"status": bound})

    data = VolumeClaim("data", "12Gi", ("ReadOnlyMany",), "fast", "Bound")
    scratch = VolumeClaim("scratch", "10Gi", ("ReadWriteOnce",), "", "Pending")
    assert volume_claims(viewer=stage.user, queue=stage.queue) == [ClusterClaims("east", [data, scratch])]

    page = shown_page(stage)
    rows = [[cell.get_text(" ", strip=True) for cell in row.select("td")] for row in page.select("tbody tr")]
    assert rows == [
        ["data", "12Gi", "ReadOnlyMany", "fast", "Bound", "Mount"],
        ["scratch", "10Gi", "ReadWriteOnce", "–", "Not bound yet", ""],
    ]
    lines = [button["data-add-line"] for button in page.select("[data-add-line]")]
    assert read_entries("volumes", "\n".join(map(str, lines))) == [
        {"claim": "data", "mount": "/mnt/data", "read_only": True}
    ]
    assert "Pods can mount a claim once it is bound." in page.get_text()
    assert f"Clusters of queue {stage.queue.name}" in page.get_text()


@pytest.mark.parametrize("backend", [BackendKind.KUBERNETES, BackendKind.KUEUE])
@pytest.mark.parametrize("phase", ["Pending", "Lost", "Bound"])
@pytest.mark.parametrize("deleted", [False, True])
def test_a_claim_with_which_no_pod_starts_has_no_button(
    stage: KubeStage, backend: BackendKind, phase: str, deleted: bool
) -> None:
    Cluster.unscoped.filter(pk=stage.cluster.pk).update(backend=backend)
    own_namespace(stage)
    claim(stage, "data", accessModes=["ReadWriteOnce"])
    stage.api.call("PATCH", f"{CLAIMS}/data", {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}})
    stage.api.call("PATCH", f"{CLAIMS}/data/status", {"status": {"phase": phase}})
    if deleted:
        stage.api.call("DELETE", f"{CLAIMS}/data")
    page = shown_page(stage)
    assert len(page.select("[data-add-line]")) == (phase == "Bound" and not deleted)
    assert ("Terminating" in page.get_text()) == deleted
    assert ("once it is bound" in page.get_text()) == (phase == "Pending" and not deleted)


@pytest.mark.parametrize(
    ("provisioner", "mode", "status", "note"),
    [
        ("disk.example", "WaitForFirstConsumer", "Created at job start", "for the node of the job's first"),
        ("disk.example", "Immediate", "Not bound yet", "once it is bound"),
        ("kubernetes.io/no-provisioner", "WaitForFirstConsumer", "Not bound yet", "without provisioner"),
    ],
)
def test_a_volume_that_is_created_at_job_start_can_be_mounted(
    stage: KubeStage, provisioner: str, mode: str, status: str, note: str
) -> None:
    made = {"metadata": {"name": "picked"}, "provisioner": provisioner, "volumeBindingMode": mode}
    stage.api.call("POST", CLASSES, made)
    try:
        own_namespace(stage)
        claim(stage, "data", accessModes=["ReadWriteOnce"], storageClassName="picked")
        page = shown_page(stage)
        reserved = {"accessModes": ["ReadWriteOnce"], "storageClassName": "picked", "volumeName": "disk"}
        claim(stage, "reserved", **reserved)
        (read, bound_soon) = volume_claims(viewer=stage.user, queue=stage.queue)[0].claims or ()
    finally:
        stage.api.call("DELETE", f"{CLASSES}/picked")
    (row,) = page.select("tbody tr")
    assert status in row.get_text() and note in page.get_text()
    assert len(page.select("[data-add-line]")) == (status == "Created at job start")
    assert (read.provisioning is Provisioning.ON_DEMAND) == (status == "Created at job start")
    assert bound_soon.provisioning is Provisioning.IMMEDIATE  # it waits for its volume and for no pod


def test_claims_of_a_namespace_that_is_not_the_workspaces_are_not_listed(stage: KubeStage) -> None:
    no_namespace = f"Workspace {stage.queue.workspace.name} has no namespace in cluster east."
    assert volume_claims(viewer=stage.user, queue=stage.queue) == [ClusterClaims("east", None)]
    assert no_namespace in shown_page(stage).get_text()
    stage.api.namespace("team-a", {"app.kubernetes.io/managed-by": "Helm"})
    claim(stage, "secrets", accessModes=["ReadWriteOnce"])
    assert volume_claims(viewer=stage.user, queue=stage.queue) == [ClusterClaims("east", None)]
    text = shown_page(stage).get_text()
    assert no_namespace in text and "has no persistent volume claims" not in text


def test_an_own_namespace_without_claims_and_a_cluster_without_namespaces_differ(stage: KubeStage) -> None:
    own_namespace(stage)
    assert volume_claims(viewer=stage.user, queue=stage.queue) == [ClusterClaims("east", [])]
    assert "Namespace team-a has no persistent volume claims in cluster east." in shown_page(stage).get_text()
    Cluster.unscoped.filter(pk=stage.cluster.pk).update(backend=BackendKind.SIMULATED)
    assert volume_claims(viewer=stage.user, queue=stage.queue) == [ClusterClaims("east", None)]
    text = shown_page(stage).get_text()
    assert "has no namespace in cluster east" in text and "has no persistent volume claims" not in text


def test_a_cluster_that_does_not_answer_is_named(stage: KubeStage) -> None:
    Cluster.unscoped.filter(pk=stage.cluster.pk).update(health=ClusterHealth.UNREACHABLE)
    assert volume_claims(viewer=stage.user, queue=stage.queue) == [ClusterClaims("east", None, listed=False)]
    text = shown_page(stage).get_text()
    assert "Persistent volume claims can't be listed" in text and "has no" not in text
    gone = {"kind": "token", "server": "https://127.0.0.1:1", "token_file": __file__}
    Cluster.unscoped.filter(pk=stage.cluster.pk).update(health=ClusterHealth.HEALTHY, connection=gone)
    assert volume_claims(viewer=stage.user, queue=stage.queue) == [ClusterClaims("east", None, listed=False)]


def test_claims_are_listed_for_users_who_may_submit_jobs_there(stage: KubeStage) -> None:
    reader = tenancy.user("reader", stage.queue.workspace, Role.VIEWER)
    with pytest.raises(PermissionDenied):
        volume_claims(viewer=reader, queue=stage.queue)
