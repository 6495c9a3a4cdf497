"""A namespace belongs to a workspace by its id, and nothing is created in others, on a real API server."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.namespaces.namespaces import namespace_labels
from clusters.backends.kubernetes.pods.pods import MANAGED
from foundation.core.errors import Invalid
from foundation.models import AuditRecord
from foundation.models.installation import installation_id
from scheduling.models import Allocation, Job, JobState
from scheduling.services.govern import ensure_namespaces
from tenants.models.names import clean_slug
from tests.builders import jobs, tenancy
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state
from tests.fixtures.kubelet import Json

pytestmark = [pytest.mark.server, pytest.mark.django_db]
TEAM = "/api/v1/namespaces/team-a"
KINDS = (
    *(f"{TEAM}/{kind}" for kind in ("pods", "configmaps", "services", "serviceaccounts", "resourcequotas")),
    "/apis/networking.k8s.io/v1/namespaces/team-a/networkpolicies",
)
ANOTHER = "0190a3b4-5c6d-7e8f-9a0b-1c2d3e4f5a6b"


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    """Yield a team without a namespace yet; any namespace of its name is removed afterwards."""
    with kube_stage(kube, monkeypatch) as made:
        tenancy.platform_admin()
        yield made
        if made.api.answer("GET", TEAM)[0] == 200:
            made.api.call("PATCH", TEAM, {"metadata": {"labels": MANAGED}})


def things(stage: KubeStage) -> dict[str, list[str]]:
    """Return the contents of the team's namespace, by kind."""
    return {path: sorted(item["metadata"]["name"] for item in stage.api.items(path)) for path in KINDS}


def refusal(job: Job) -> Json:
    """Return the numbers of the event with which a job gave back what it held."""
    assert state(job) in (JobState.EVICTING, JobState.QUEUED)
    told: Json = job.events.filter(code="evicting").latest("at").numbers
    return told


def labels_of(whose: str, workspace: str) -> Json:
    """Return the labels of a namespace with another owner."""
    return {
        "nobody": {},
        "another tool": {"app.kubernetes.io/managed-by": "Helm"},
        "the platform by its name alone": dict(MANAGED),
        "another workspace": namespace_labels(str(installation_id()), ANOTHER),
        "another installation": namespace_labels(ANOTHER, workspace),
        "the workspace without the platform": {"allotment.io/workspace": workspace},
    }[whose]


@pytest.mark.parametrize(
    "whose",
    [
        *("nobody", "another tool", "the platform by its name alone", "another workspace"),
        *("another installation", "the workspace without the platform"),
    ],
)
def test_nothing_is_made_in_a_namespace_that_is_not_the_workspaces(stage: KubeStage, whose: str) -> None:
    labels = labels_of(whose, str(stage.queue.workspace_id))
    stage.api.namespace("team-a", labels)
    before, inside = stage.api.call("GET", TEAM)["metadata"]["labels"], things(stage)
    alone = stage.start("alone", jobs.RoleOf(cards=1), run_s=900)
    gang = stage.start("gang", jobs.RoleOf(cards=1, replicas=2), run_s=900)
    stage.run(0)
    ensure_namespaces(stage.cluster)
    for job in (alone, gang):
        told = refusal(job)
        assert told["rule"] == told["code"] == "NAMESPACE_NOT_OWNED"
        assert "allotment namespace adopt east team-a" in told["message"]
    assert things(stage) == inside
    assert stage.api.call("GET", TEAM)["metadata"]["labels"] == before
    stage.run(24, every_s=8)
    stage.assert_nothing_is_held()


def test_a_namespace_is_marked_as_the_workspaces_when_it_is_made(stage: KubeStage) -> None:
    job = stage.start("first", run_s=900)
    stage.run(6)
    assert state(job) == JobState.RUNNING
    found = stage.api.call("GET", TEAM)["metadata"]["labels"]
    expected = namespace_labels(str(installation_id()), str(stage.queue.workspace_id))
    assert expected.items() <= found.items()


def test_a_namespace_that_loses_its_mark_takes_nothing_more(stage: KubeStage) -> None:
    stage.start("first", run_s=900)
    stage.run(6)
    stage.api.call("PATCH", TEAM, {"metadata": {"labels": {"allotment.io/workspace": ANOTHER}}})
    inside = things(stage)
    second = stage.start("second", run_s=900)
    stage.run(0)
    assert refusal(second)["code"] == "NAMESPACE_NOT_OWNED"
    assert things(stage) == inside


def unmark(stage: KubeStage) -> None:
    """Make the namespace of the team as a version without marks would have left it."""
    gone = {"allotment.io/workspace": None, "allotment.io/installation": None}
    stage.api.call("PATCH", TEAM, {"metadata": {"labels": gone}})


def test_a_namespace_of_an_earlier_version_is_marked_where_the_ledger_knows_its_pods(
    stage: KubeStage,
) -> None:
    stage.start("first", run_s=3)
    stage.run(9)
    unmark(stage)
    assert ensure_namespaces(stage.cluster)
    told = AuditRecord.unscoped.filter(action="cluster.repair").latest("pk")
    assert told.after["namespaces/team-a.metadata.labels.allotment.io/workspace"] == str(
        stage.queue.workspace_id
    )
    second = stage.start("second", run_s=900)
    stage.run(6)
    assert state(second) == JobState.RUNNING


@pytest.mark.parametrize("missing", ["a pod in the ledger", "the account", "the policy"])
def test_a_namespace_of_an_earlier_version_is_not_marked_by_its_label_alone(
    stage: KubeStage, missing: str
) -> None:
    stage.start("first", run_s=3)
    stage.run(9)
    unmark(stage)
    if missing == "a pod in the ledger":
        Allocation.unscoped.update(pod_uid="")
    elif missing == "the account":
        stage.api.call("DELETE", f"{TEAM}/serviceaccounts/allotment-task", {})
    else:
        stage.api.call("DELETE", f"{KINDS[-1]}/allotment", {})
    inside = things(stage)
    ensure_namespaces(stage.cluster)
    assert "allotment.io/workspace" not in stage.api.call("GET", TEAM)["metadata"]["labels"]
    assert things(stage) == inside


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("namespace", *words, stdout=out)
    return out.getvalue()


def test_an_operator_hands_a_namespace_over(
    stage: KubeStage, kube: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.api.namespace("team-a")
    assert "foreign" in run("list", "east")
    job = stage.start("waits", run_s=900)
    stage.run(0)
    assert refusal(job)["code"] == "NAMESPACE_NOT_OWNED"
    monkeypatch.setattr("builtins.input", lambda _: "no")
    with pytest.raises(CommandError, match="no changes were made"):
        run("adopt", "east", "team-a")
    assert "foreign" in run("list", "east")
    monkeypatch.setattr("builtins.input", lambda _: "team-a")
    told = run("adopt", "east", "team-a", "--kubeconfig", str(kube.write_kubeconfig()))
    assert "every secret, config map and claim" in told
    record = AuditRecord.unscoped.filter(action="cluster.namespace_adopt").latest("pk")
    assert (record.before["state"], record.after["namespace"]) == ("foreign", "team-a")
    assert "own" in run("list", "east")
    with pytest.raises(CommandError, match="already"):
        run("adopt", "east", "team-a", "--yes")
    assert things(stage)[KINDS[-1]] == ["allotment"]
    stage.run(120, every_s=10)  # beyond its pause
    assert state(job) == JobState.RUNNING


def test_what_is_not_there_or_never_a_workspaces_is_not_handed_over(stage: KubeStage) -> None:
    with pytest.raises(CommandError, match="Namespace team-a not found"):
        run("adopt", "east", "team-a", "--yes")
    with (
        override_settings(ALLOTMENT_NAMESPACE="team-a"),
        pytest.raises(CommandError, match="belongs to Kubernetes or the platform"),
    ):
        run("adopt", "east", "team-a", "--yes")


@pytest.mark.parametrize("slug", ["default", "kube-system", "kube-x", "allotment", "gpu-platform"])
def test_no_workspace_is_named_like_a_namespace_of_the_platform_or_of_kubernetes(slug: str) -> None:
    with override_settings(ALLOTMENT_NAMESPACE="gpu-platform"), pytest.raises(Invalid):
        clean_slug(slug)
