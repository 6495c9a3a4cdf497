"""A real API server's answer to a pod that is too large, to an unknown account, and without etcd."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.models import ClusterHealth
from scheduling.execution import cluster_health
from scheduling.models import JobRole, JobState
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state
from tests.fixtures.wait import wait_until

pytestmark = [pytest.mark.server, pytest.mark.django_db]
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with kube_stage(kube, monkeypatch) as made:
        yield made


def test_a_pod_that_is_too_large_is_refused_and_its_neighbours_start_as_ever(stage: KubeStage) -> None:
    fat = stage.start("fat", run_s=900)
    JobRole.unscoped.filter(job=fat).update(command=["x" * 4000] * 450)
    others = [stage.start(f"other-{number}", run_s=900) for number in range(7)]
    stage.run(6)
    assert {state(job) for job in others} == {JobState.RUNNING}
    told = fat.events.get(code="evicting").numbers
    assert (told["rule"], told["code"]) == ("NOT_READY", "RequestEntityTooLarge")
    assert "too large" in told["message"]
    stage.run(30)
    assert state(fat) == JobState.QUEUED
    assert not any(name.startswith("fat") for name in stage.pods())


def test_rights_that_are_missing_for_a_while_end_no_attempt(stage: KubeStage) -> None:
    binding = stage.api.call("GET", f"{BINDINGS}/allotment")
    for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        binding["metadata"].pop(name, None)
    job = stage.start("train", run_s=900)
    stage.api.call("DELETE", f"{BINDINGS}/allotment")
    try:
        wait_until(lambda: _denied(stage), "the API server denies the platform everything")
        stage.run(12)
        assert state(job) == JobState.ADMITTED
        stage.cluster.refresh_from_db()
        assert "forbidden" in stage.cluster.health_message
    finally:
        stage.api.call("POST", BINDINGS, binding)
    wait_until(lambda: not _denied(stage), "the API server knows the platform again")
    stage.run(60)
    assert state(job) == JobState.RUNNING
    assert job.attempts.count() == 1


def test_a_frozen_store_is_known_within_ten_seconds_though_watches_go_on(
    stage: KubeStage, kube: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_health, "CHECK_EVERY_S", 0.0)
    stage.run(6)
    stage.cluster.refresh_from_db()
    assert stage.cluster.health == ClusterHealth.HEALTHY
    kube.etcd.freeze_server()
    began = perf_counter()
    try:
        stage.observe()
        took_s = perf_counter() - began
        stage.cluster.refresh_from_db()
        assert stage.cluster.health == ClusterHealth.UNREACHABLE
        assert took_s < 10
    finally:
        kube.etcd.thaw_server()
    wait_until(lambda: _well(stage), "the cluster answers again")


def _well(stage: KubeStage) -> bool:
    stage.observe()
    stage.cluster.refresh_from_db()
    return stage.cluster.health == ClusterHealth.HEALTHY


def _denied(stage: KubeStage) -> bool:
    user = ("allotment", ["system:authenticated"])
    return stage.api.answer("GET", "/api/v1/nodes", user=user)[0] == 403
