"""Volumes that are created when a pod is placed, on a real API server whose provisioner the tests play."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.namespaces.provisioning import SELECTED_NODE
from clusters.backends.registry import backend_for
from foundation.core import clock
from foundation.core.reasons import Reason
from scheduling.models import Allocation, ClaimPhase, Job, JobState, MountedClaim
from scheduling.services.jobs.job import job_cancel
from tests.builders.kube_stage import KubeStage
from tests.builders.volume_stage import (
    CLAIMS,
    CLASSES,
    ZONE,
    bind,
    claim,
    node_of,
    start,
    volume,
    volume_stage,
)

pytestmark = [pytest.mark.server, pytest.mark.django_db]
DISK: Final = "disk.example"


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with volume_stage(kube, monkeypatch) as made:
        yield made


def storage_class(stage: KubeStage, name: str, *zones: str, provisioner: str = DISK) -> None:
    topology = {"matchLabelExpressions": [{"key": ZONE, "values": [*zones]}]}
    stage.api.call(
        "POST",
        CLASSES,
        {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
            **({"allowedTopologies": [topology]} if zones else {}),
        },
    )


def selected(stage: KubeStage, name: str) -> str:
    metadata = stage.api.call("GET", f"{CLAIMS}/{name}")["metadata"]
    node: str = (metadata.get("annotations") or {}).get(SELECTED_NODE, "")
    return node


def select(stage: KubeStage, name: str, node: str | None) -> None:
    """Select a node as kube-scheduler does, or remove it as a provisioner that failed does."""
    stage.api.call("PATCH", f"{CLAIMS}/{name}", {"metadata": {"annotations": {SELECTED_NODE: node}}})


def state(job: Job) -> tuple[str, str]:
    job.refresh_from_db()
    return job.state, job.reason


def test_a_volume_is_created_for_the_node_of_the_pod(stage: KubeStage) -> None:
    storage_class(stage, "standard")
    claim(stage, "data", storageClassName="standard")
    job = start(stage, "train", "data", run_s=30)
    stage.run(12)
    node = node_of(job)
    assert selected(stage, "data") == node
    assert state(job)[0] == JobState.STARTING
    zone = stage.api.call("GET", f"/api/v1/nodes/{node}")["metadata"]["labels"][ZONE]
    volume(stage, "made", [zone])
    bind(stage, "data", "made")
    stage.run(12)
    assert state(job)[0] == JobState.RUNNING
    stage.assert_bound_as_decided()
    row = MountedClaim.unscoped.get(name="data")
    assert (row.phase, row.volume, row.terms[0][0]["values"]) == (ClaimPhase.BOUND, "made", [zone])


@pytest.mark.parametrize(("zone", "node"), [("a", "whole-1"), ("b", "whole-2")])
def test_only_the_topologies_of_the_class_are_taken(stage: KubeStage, zone: str, node: str) -> None:
    storage_class(stage, "zonal", zone)
    storage_class(stage, "standard")
    claim(stage, "data", storageClassName="zonal")
    claim(stage, "home", storageClassName="standard")
    job = start(stage, "train", "data", "home")
    stage.run(12)
    assert {node_of(job), selected(stage, "data"), selected(stage, "home")} == {node}


def test_a_node_that_the_provisioner_removed_is_selected_again(stage: KubeStage) -> None:
    storage_class(stage, "standard")
    claim(stage, "data", storageClassName="standard")
    job = start(stage, "train", "data")
    stage.run(12)
    node = node_of(job)
    for _ in range(2):
        select(stage, "data", None)
        stage.run(6)
        assert selected(stage, "data") == node
    stage.api.call("DELETE", f"{CLAIMS}/data")
    stage.run(6)  # and a claim that is gone stops nothing
    assert node_of(job) == node


def test_the_node_that_another_scheduler_selected_is_taken_and_stays(stage: KubeStage) -> None:
    storage_class(stage, "standard")
    for number, node in enumerate(("whole-1", "whole-2")):
        claim(stage, f"data-{number}", storageClassName="standard")
        select(stage, f"data-{number}", node)
        job = start(stage, f"train-{number}", f"data-{number}")
        stage.run(9)
        assert (node_of(job), selected(stage, f"data-{number}")) == (node, node)


def test_jobs_that_share_a_claim_follow_its_node_until_it_is_bound(stage: KubeStage) -> None:
    storage_class(stage, "standard")
    claim(stage, "data", storageClassName="standard")
    first = start(stage, "first", "data", cards=8)
    stage.run(9)
    second = start(stage, "second", "data")
    stage.run(9)
    assert state(second)[1] == Reason.VOLUME_NODE_CONFLICT
    volume(stage, "everywhere")
    bind(stage, "data", "everywhere")
    stage.run(9)
    assert {node_of(first), node_of(second)} == {"whole-1", "whole-2"}


def test_another_node_is_selected_once_no_pod_waits_on_the_first(stage: KubeStage) -> None:
    storage_class(stage, "standard")
    claim(stage, "data", storageClassName="standard")
    waiting = start(stage, "first", "data", cards=8)
    stage.run(9)
    node = node_of(waiting)
    later = start(stage, "later", "data")
    job_cancel(acting_user=stage.user, job=waiting)
    stage.api.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    stage.run(30)
    assert Allocation.unscoped.filter(attempt__job=waiting, released_at=None).count() == 0
    assert node_of(later) != node
    assert selected(stage, "data") == node_of(later)


def test_the_platform_replaces_its_node_whatever_was_read_in_between(stage: KubeStage) -> None:
    storage_class(stage, "standard")
    for name in ("data", "other"):
        claim(stage, name, storageClassName="standard")
    waiting = start(stage, "first", "data", cards=8)
    stage.run(9)
    node = node_of(waiting)
    job_cancel(acting_user=stage.user, job=waiting)
    start(stage, "keeps-claims-read", "other")
    stage.run(30)
    assert not MountedClaim.unscoped.filter(name="data").exists()
    stage.api.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    later = start(stage, "later", "data")
    stage.run(30)
    assert node_of(later) != node
    assert selected(stage, "data") == node_of(later)


def test_a_selected_node_that_can_be_used_stays_as_the_volume_may_be_created_there(stage: KubeStage) -> None:
    storage_class(stage, "standard")
    claim(stage, "data", storageClassName="standard")
    first = start(stage, "first", "data")
    stage.run(9)
    node = node_of(first)
    job_cancel(acting_user=stage.user, job=first)
    stage.run(15)
    start(stage, "fill", cards=8)
    later = start(stage, "later", "data")
    stage.run(15)
    assert {node_of(later), selected(stage, "data")} == {node}


@pytest.mark.parametrize(
    ("name", "provisioner"),
    [("static", "kubernetes.io/no-provisioner"), ("class_unread", DISK), ("not_permitted", DISK)],
)
def test_what_keeps_a_claim_unbound_is_named(stage: KubeStage, name: str, provisioner: str) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/allotment"
    before = stage.api.call("GET", role)["rules"]
    lost = {"class_unread": "storageclasses", "not_permitted": "persistentvolumeclaims"}.get(name)
    left = ["list"] if lost == "persistentvolumeclaims" else ["get"]
    rules = [{**rule, "verbs": left} if rule.get("resources") == [lost] else rule for rule in before]
    storage_class(stage, "standard", provisioner=provisioner)
    claim(stage, "data", storageClassName="standard")
    stage.api.call("PATCH", role, {"rules": rules})
    try:
        job = start(stage, "train", "data")
        stage.run(9)
    finally:
        stage.api.call("PATCH", role, {"rules": before})
    assert state(job)[1] == Reason.VOLUME_CLAIM_NOT_BOUND
    assert job.reason_numbers[f"{name}_claim"] == "data"
    assert selected(stage, "data") == ""
    stage.assert_nothing_is_held()
    if lost:  # and with the permission it starts
        stage.run(36)
        assert selected(stage, "data") == node_of(job)


def test_a_claim_that_changed_since_it_was_read_is_left_alone(stage: KubeStage) -> None:
    storage_class(stage, "standard")
    claim(stage, "data", storageClassName="standard")
    backend = backend_for(stage.cluster)
    (read,) = backend.list_volume_claims("team-a", str(stage.queue.workspace_id)) or ()
    select(stage, "data", "whole-2")
    backend.annotate_selected_node("team-a", read, "whole-1")
    assert selected(stage, "data") == "whole-2"
    stage.api.call("DELETE", f"{CLAIMS}/data")
    backend.annotate_selected_node("team-a", read, "whole-1")


def test_a_job_says_why_its_volume_is_not_created(stage: KubeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.execution.pod_events._EVERY_S", 0.0)
    storage_class(stage, "standard")
    claim(stage, "data", storageClassName="standard")
    provisioning_failed(stage, "data", "of an earlier pod")
    stage.traveller.shift(3)
    job = start(stage, "train", "data")
    stage.run(30)
    assert "earlier" not in str(reason_numbers_of(job))
    provisioning_failed(stage, "data", "zone a is full")
    stage.run(30)
    assert reason_numbers_of(job)["message"] == "zone a is full"
    assert (job.reason, reason_numbers_of(job)["cause"]) == (Reason.VOLUME_NOT_MOUNTED, "ProvisioningFailed")
    volume(stage, "disk")
    bind(stage, "data", "disk")
    stage.run(12)
    assert state(job) == (JobState.RUNNING, "")


def reason_numbers_of(job: Job) -> dict[str, object]:
    job.refresh_from_db()
    return job.reason_numbers


def provisioning_failed(stage: KubeStage, name: str, message: str) -> None:
    """Record the event of a provisioner about a claim whose volume it can't create."""
    claimed = {"kind": "PersistentVolumeClaim", "namespace": "team-a", "name": name}
    event = {
        "metadata": {"name": f"{name}.{clock.now():%H%M%S}"},
        "involvedObject": claimed,
        "reason": "ProvisioningFailed",
        "message": message,
        "type": "Warning",
        "lastTimestamp": f"{clock.now():%Y-%m-%dT%H:%M:%SZ}",
    }
    stage.api.call("POST", "/api/v1/namespaces/team-a/events", event)
