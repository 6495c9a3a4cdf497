"""One claim, volume or namespace that can't be read leaves the others as they are; a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import AccessDenied, BackendUnavailable
from clusters.backends.kubernetes import KubernetesBackend
from clusters.backends.kubernetes.client.api import Json, KubernetesApi
from clusters.backends.registry import backend_for
from clusters.backends.volumes import VolumeClaim
from foundation.core import clock
from foundation.core.reasons import Reason
from foundation.models import Hint
from scheduling.execution.volumes.claims import read_mounted_claims
from scheduling.models import ClaimPhase, Job, JobState, MountedClaim
from scheduling.selectors.pods.volume_claims import volume_claims
from tests.builders import jobs
from tests.builders.kube_stage import KubeStage
from tests.builders.volume_stage import TEAM, VOLUMES, claim, node_of, start, volume, volume_stage
from tests.builders.world import world

pytestmark = [pytest.mark.server, pytest.mark.django_db]


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with volume_stage(kube, monkeypatch) as made:
        yield made


NAMES: Final = ("a/b", ".", "..", "disk?watch=1", "Disk", "a%2Fb")


@pytest.mark.parametrize("bound", [False, True])
def test_names_that_no_volume_can_have_are_not_asked_for(stage: KubeStage, bound: bool) -> None:
    volume(stage, "disk", ["a"])
    claim(stage, "data", "disk")
    for number, name in enumerate(NAMES):
        if bound:
            claim(stage, f"bad-{number}", name)
        else:
            claim(stage, f"bad-{number}", volumeName=name)
    bad = [start(stage, f"first-{number}", f"bad-{number}") for number in range(len(NAMES))]
    good = start(stage, "second", "data")
    stage.run(9)
    assert node_of(good) == "whole-1"
    assert MountedClaim.unscoped.get(name="data").terms_at is not None
    for number, job in enumerate(bad):
        job.refresh_from_db()
        assert (job.reason, job.state) == (Reason.VOLUME_CLAIM_NOT_BOUND, JobState.QUEUED)
        assert job.reason_numbers["lost_claim" if bound else "pending_claim"] == f"bad-{number}"


def test_a_volume_that_fails_holds_up_its_own_claims_alone(
    stage: KubeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("disk", "broken"):
        volume(stage, name, ["a"])
        claim(stage, f"on-{name}", name)
    real = KubernetesApi.get

    def get(self: KubernetesApi, path: str, **more: str) -> Json:
        if path == f"{VOLUMES}/broken":
            raise BackendUnavailable("500 etcdserver: request timed out")
        return real(self, path, **more)

    monkeypatch.setattr(KubernetesApi, "get", get)
    good, bad = start(stage, "good", "on-disk"), start(stage, "bad", "on-broken")
    stage.run(9)
    bad.refresh_from_db()
    assert (node_of(good), bad.reason) == ("whole-1", Reason.VOLUME_CLAIM_UNREAD)
    monkeypatch.undo()
    assert read_mounted_claims(stage.cluster, backend_for(stage.cluster))


def test_without_the_permission_to_list_only_bound_claims_stay_as_they_were(
    stage: KubeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume(stage, "disk", ["a"])
    claim(stage, "data", "disk")
    late, old = start(stage, "late", "missing"), start(stage, "old", "data", cards=8)
    stage.run(6)
    late.refresh_from_db()
    assert late.reason == Reason.VOLUME_CLAIM_NOT_BOUND

    def refuse(*_: object) -> None:
        raise AccessDenied("persistentvolumeclaims is forbidden")

    monkeypatch.setattr(KubernetesBackend, "list_volume_claims", refuse)
    new = start(stage, "new", "data")
    stage.run(60)
    new.refresh_from_db()
    assert (node_of(old), new.reason) == ("whole-1", Reason.VOLUME_NODE_CONFLICT)
    assert node_of(late), "nothing is known against it"


def test_claims_in_a_namespace_of_another_owner_are_not_said_to_be_missing(stage: KubeStage) -> None:
    volume(stage, "disk")
    claim(stage, "data", "disk")
    stage.api.call("PATCH", TEAM, {"metadata": {"labels": {"allotment.io/workspace": "another"}}})
    job = start(stage, "train", "data")
    stage.run(9)
    job.refresh_from_db()
    assert job.reason != Reason.VOLUME_CLAIM_NOT_BOUND
    assert MountedClaim.unscoped.get().phase == ClaimPhase.UNKNOWN
    assert job.events.filter(code="evicting", numbers__rule="NAMESPACE_NOT_OWNED").exists()
    (listed,) = volume_claims(viewer=job.submitted_by, queue=job.queue)
    assert (listed.claims, listed.listed) == (None, True)


def test_a_claim_that_was_not_read_for_long_wakes_the_jobs_that_mount_it_now(stage: KubeStage) -> None:
    volume(stage, "disk")
    claim(stage, "data", "disk")
    first = start(stage, "first", "data")
    stage.run(6)
    Job.unscoped.filter(pk=first.pk).update(state=JobState.CANCELLED, finished_at=clock.now())
    stage.traveller.shift(timedelta(minutes=10))
    start(stage, "second", "data")
    Hint.unscoped.all().delete()
    assert read_mounted_claims(stage.cluster, backend_for(stage.cluster))
    assert Hint.unscoped.filter(topic="cycle", key=str(stage.cell.pk)).exists()


def test_a_namespace_that_fails_leaves_others_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world()
    volumes = [{"claim": "data", "mount": "/mnt"}]
    for queue, user in ((here.queue, here.editor), (here.other_queue, here.outsider)):
        jobs.job(queue, user, volumes=volumes)
    (cluster,) = here.cell.clusters.all()
    backend = backend_for(cluster)

    def list_claims(_: object, namespace: str, workspace: str) -> list[VolumeClaim]:
        if namespace == here.workspace.slug:
            raise BackendUnavailable("504 gateway timeout")
        return [VolumeClaim("data", phase="Bound", volume="disk")]

    kind = type(backend)
    monkeypatch.setattr(kind, "list_volume_claims", list_claims)
    monkeypatch.setattr(kind, "read_volume_terms", lambda _, names: {name: [] for name in names})
    monkeypatch.setattr(kind, "capabilities", property(lambda _: KubernetesBackend.capabilities))
    assert read_mounted_claims(cluster, backend)
    assert [row.workspace_id for row in MountedClaim.unscoped.all()] == [here.other_queue.workspace_id]


def test_namespaces_that_fail_are_not_read_before_all_others_again(monkeypatch: pytest.MonkeyPatch) -> None:
    here, asked = world(), list[str]()
    volumes = [{"claim": "data", "mount": "/mnt"}]
    for queue, user in ((here.queue, here.editor), (here.other_queue, here.outsider)):
        jobs.job(queue, user, volumes=volumes)
    (cluster,) = here.cell.clusters.all()
    backend = backend_for(cluster)

    def list_claims(_: object, namespace: str, workspace: str) -> list[VolumeClaim]:
        asked.append(namespace)
        raise BackendUnavailable("504 gateway timeout")

    monkeypatch.setattr(type(backend), "list_volume_claims", list_claims)
    monkeypatch.setattr(type(backend), "capabilities", property(lambda _: KubernetesBackend.capabilities))
    monkeypatch.setattr("scheduling.execution.volumes.claims._FAILURES_AT_MOST", 1)
    for _ in range(4):
        read_mounted_claims(cluster, backend)
    assert asked[0] != asked[1]
    assert asked[:2] == asked[2:]
