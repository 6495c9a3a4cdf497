"""A cluster has one identity and one owner, on a real API server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import BackendUnavailable
from clusters.backends.kubernetes.backend import KubernetesBackend
from clusters.models import Cluster, ClusterHealth, Node
from clusters.services.ownership import cluster_take_over
from foundation.core.errors import PermissionDenied
from foundation.models import AuditRecord, Installation
from foundation.models.installation import installation_id
from scheduling.models import JobState
from tenants.models import Role
from tests.builders import jobs, tenancy
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state
from tests.fixtures.kubelet import Json

pytestmark = [pytest.mark.server, pytest.mark.django_db]
OWNER = "/api/v1/namespaces/allotment/configmaps/allotment-owner"


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with kube_stage(kube, monkeypatch) as made:
        tenancy.platform_admin()
        yield made


def another_installation() -> str:
    """From now on this is another one; returns the id of the one that was."""
    before = str(installation_id())
    Installation.unscoped.update(uuid=uuid.uuid4())
    installation_id.cache_clear()
    return before


def owner(stage: KubeStage) -> dict[str, str]:
    data: dict[str, str] = stage.api.call("GET", OWNER)["data"]
    return data


def refused(*words: str) -> str:
    with pytest.raises(CommandError) as caught:
        call_command("cluster", *words)
    return str(caught.value)


def seen(stage: KubeStage) -> Cluster:
    """The cluster as it is after a look at it."""
    stage.run(21, every_s=21)
    return Cluster.unscoped.get(name="east")


def test_a_cluster_says_who_runs_it_with_a_new_token_each_time(stage: KubeStage) -> None:
    first = owner(stage)
    assert first["installation"] == str(installation_id())
    assert seen(stage).health == ClusterHealth.HEALTHY
    second = owner(stage)
    assert second["token"] != first["token"]
    assert second["token"] == Cluster.unscoped.get().owner_token


def test_the_same_cluster_under_a_second_name_is_refused_by_the_first(
    stage: KubeStage, kube: ControlPlane
) -> None:
    path = str(kube.write_kubeconfig(kube.platform_token))
    assert "The cluster is already added as east" in refused("add", "east2", "--path", path)
    assert "already added as east" in refused(
        "add", "e3", "--path", path, "--take-over", str(installation_id())
    )
    assert Cluster.unscoped.count() == 1
    assert Cluster.unscoped.get().owner_token == owner(stage)["token"]


def test_a_second_platform_is_refused_and_may_take_over_by_naming_the_first(
    stage: KubeStage, kube: ControlPlane
) -> None:
    path, before = str(kube.write_kubeconfig(kube.platform_token)), another_installation()
    Cluster.unscoped.filter(name="east").update(name="elsewhere", uid=None, owner_token="", owner_next="")
    told = refused("add", "east", "--path", path)
    assert before in told
    assert "another platform" in told
    assert "managed by another platform" in refused("add", "east", "--path", path, "--take-over", "east")
    assert owner(stage)["installation"] == before
    call_command("cluster", "add", "east", "--path", path, "--take-over", before)
    assert owner(stage)["installation"] == str(installation_id())


def test_a_cluster_that_was_forgotten_may_be_added_again(stage: KubeStage, kube: ControlPlane) -> None:
    Cluster.unscoped.update(uid=None)
    path = str(kube.write_kubeconfig(kube.platform_token))
    fresh = Cluster.unscoped.get()
    fresh.pk, fresh.name, fresh._state.adding = uuid.uuid4(), "spare", True
    fresh.save()
    call_command("cluster", "remove", "spare", "--yes")
    assert stage.api.answer("GET", OWNER)[0] == 404
    call_command("cluster", "add", "again", "--path", path)
    assert owner(stage)["token"] == Cluster.unscoped.get(name="again").owner_token


def by_another_platform(stage: KubeStage) -> None:
    stage.api.call("PATCH", OWNER, {"data": {"installation": "11111111-2222", "token": "theirs"}})


def by_a_copy(stage: KubeStage) -> None:
    """The database is set back to an older state, while the cluster knows what was written since."""
    row = Cluster.unscoped.get()
    seen(stage)
    Cluster.unscoped.update(
        owner_token=row.owner_token, owner_next=row.owner_next, owner_at=row.owner_at, cursor=row.cursor
    )


def by_another_cluster(stage: KubeStage) -> None:
    Cluster.unscoped.update(uid="another", owner_at=None)


@pytest.mark.parametrize(
    ("lose", "told"),
    [
        (by_another_platform, "is managed by another platform: installation 11111111-2222"),
        (by_a_copy, "with a newer database"),
        (by_another_cluster, "A different cluster responds at the address of east"),
    ],
)
def test_nothing_is_placed_removed_or_believed_in_a_cluster_that_is_not_ours(
    stage: KubeStage, lose: Callable[[KubeStage], None], told: str
) -> None:
    running = stage.start("running", jobs.RoleOf(cards=8), run_s=9000)
    stage.run(12)
    lose(stage)
    cluster = seen(stage)
    assert cluster.health == ClusterHealth.DISOWNED
    assert told in cluster.health_message
    assert set(Node.unscoped.values_list("closed", flat=True)) == {True}
    before = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
    ended = stage.start("ended", jobs.RoleOf(cards=8), run_s=9000)
    for name in before:
        stage.api.call("DELETE", f"/api/v1/namespaces/team-a/pods/{name}", {"gracePeriodSeconds": 0})
    stage.run(24)
    assert (state(ended), state(running)) == (JobState.QUEUED, JobState.RUNNING)
    assert stage.pods() == {}


def test_what_was_lost_is_used_again_after_a_person_took_it_over(
    stage: KubeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_another_platform(stage)
    assert seen(stage).health == ClusterHealth.DISOWNED
    job = stage.start("job", jobs.RoleOf(cards=8), run_s=9000)
    assert "no changes were made" in refused("take-over", "east", "--owner", str(installation_id()))
    monkeypatch.setattr("builtins.input", lambda question: "yes")
    assert "no changes were made" in refused("take-over", "east")
    monkeypatch.setattr("builtins.input", lambda question: "11111111-2222")
    call_command("cluster", "take-over", "east", "--restarting", "start")
    stage.run(30)
    assert state(job) == JobState.QUEUED, "the other one may run on and not have noticed"
    stage.run(24)
    assert state(job) == JobState.RUNNING
    assert Cluster.unscoped.get().health == ClusterHealth.HEALTHY
    record = AuditRecord.unscoped.get(action="cluster.take_over")
    assert (record.before["owner"], record.after["owner"]) == ("11111111-2222", str(installation_id()))


def test_a_confirmation_whose_answer_was_lost_is_ones_own(
    stage: KubeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = KubernetesBackend.write_owner

    def lost(backend: KubernetesBackend, wanted: Json) -> None:
        own(backend, wanted)  # type: ignore[arg-type]
        raise BackendUnavailable("the answer was lost")

    monkeypatch.setattr(KubernetesBackend, "write_owner", lost)
    assert seen(stage).health == ClusterHealth.UNREACHABLE
    assert seen(stage).owner_token != owner(stage)["token"]
    monkeypatch.setattr(KubernetesBackend, "write_owner", own)
    assert seen(stage).health == ClusterHealth.HEALTHY


def test_a_removed_owner_object_is_written_again(stage: KubeStage) -> None:
    stage.api.call("DELETE", OWNER, {})
    assert seen(stage).health == ClusterHealth.HEALTHY
    assert owner(stage)["token"] == Cluster.unscoped.get().owner_token


def test_only_who_may_change_clusters_takes_one_over(stage: KubeStage) -> None:
    nobody = tenancy.user("nobody", tenancy.workspace("team-b"), Role.EDITOR)
    with pytest.raises(PermissionDenied):
        cluster_take_over(acting_user=nobody, cluster=Cluster.unscoped.get(), owner="x")
