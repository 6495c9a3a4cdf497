"""The objects around a workspace in a real cluster, created and kept by the platform's own account."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import TenantLimits
from foundation.models import AuditRecord
from quotas.models import Quota
from scheduling.models import Job, JobState
from scheduling.services.govern import ensure_namespaces, limits_of
from tests.builders import jobs, quotas, tenancy
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state
from tests.fixtures.kubelet import Json

pytestmark = [pytest.mark.server, pytest.mark.django_db]
TEAM = "/api/v1/namespaces/team-a"
QUOTA = f"{TEAM}/resourcequotas/allotment"
ACCOUNT = f"{TEAM}/serviceaccounts/allotment-task"
POLICY = "/apis/networking.k8s.io/v1/namespaces/team-a/networkpolicies/allotment"
ENFORCE = "pod-security.kubernetes.io/enforce"
# Changes by hand, and the name under which each is reported when it is reverted.
CHANGES: tuple[tuple[str, str, Json | None, str, str], ...] = (
    (QUOTA, "PATCH", {"spec": {"hard": {"requests.nvidia.com/gpu": "999"}}}, "repaired", "resourcequotas"),
    (QUOTA, "PATCH", {"spec": {"hard": {"pods": "1"}}}, "repaired", "resourcequotas"),
    (QUOTA, "PATCH", {"spec": {"hard": None}}, "repaired", "resourcequotas"),
    (QUOTA, "DELETE", None, "created", "resourcequotas"),
    (QUOTA, "PATCH", {"metadata": {"labels": None}}, "repaired", "resourcequotas"),
    (ACCOUNT, "PATCH", {"automountServiceAccountToken": True}, "repaired", "serviceaccounts"),
    (POLICY, "PATCH", {"spec": {"ingress": [{}]}}, "repaired", "networkpolicies"),
    (POLICY, "PATCH", {"spec": {"egress": None}}, "repaired", "networkpolicies"),
    (POLICY, "DELETE", None, "created", "networkpolicies"),
    (TEAM, "PATCH", {"metadata": {"labels": {ENFORCE: "privileged"}}}, "repaired", "namespaces"),
    (TEAM, "PATCH", {"metadata": {"labels": {ENFORCE: None}}}, "repaired", "namespaces"),
)


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    """A team whose namespace is there, because a job of it has run."""
    with kube_stage(kube, monkeypatch) as made:
        made.start("first", run_s=3)
        made.run(3)
        yield made


def surroundings(stage: KubeStage) -> list[Json]:
    """Return the declared fields of each object, without those that the cluster adds."""
    found = [stage.api.call("GET", path) for path in (QUOTA, ACCOUNT, POLICY, TEAM)]
    return [
        {
            "labels": item["metadata"]["labels"],
            "spec": item.get("spec"),
            "token": item.get("automountServiceAccountToken"),
        }
        for item in found
    ]


def test_a_foreign_change_is_reverted_and_reported(stage: KubeStage) -> None:
    ensure_namespaces(stage.cluster)
    asked = stage.api.call("GET", QUOTA)["spec"]["hard"]
    # 16 whole cards and 16 parts of cards, each twice.
    assert asked == {"requests.nvidia.com/gpu": "64"}
    assert not ensure_namespaces(stage.cluster)
    as_it_should_be = surroundings(stage)
    for path, method, body, verb, kind in CHANGES:
        stage.api.call(method, path, body)
        assert ensure_namespaces(stage.cluster), (path, body)
        told = AuditRecord.unscoped.filter(action="cluster.repair").latest("pk").after
        assert [name.partition("/")[0] for name in told[verb]] == [kind], (path, body)
        assert surroundings(stage) == as_it_should_be, (path, body)
        assert not ensure_namespaces(stage.cluster), (path, body)


@contextmanager
def enforced(stage: KubeStage, path: str) -> Iterator[None]:
    """The API server refuses what is beyond a quota, as after a look of the cluster's controller."""
    hard = stage.api.call("GET", path)["spec"]["hard"]
    used = dict.fromkeys(hard, "0")
    stage.api.call("PATCH", f"{path}/status", {"status": {"hard": hard, "used": used}})
    try:
        yield
    finally:
        stage.api.call("PATCH", f"{path}/status", {"status": {"hard": None, "used": None}})


def refusal(stage: KubeStage, job: Job) -> str:
    """The cluster's words to a job that it did not take, which holds nothing any more."""
    stage.run(24, every_s=8)  # until a whole look at the cluster shows that there is no pod
    assert state(job) == JobState.QUEUED
    stage.assert_nothing_is_held()
    told = job.events.get(code="evicting").numbers
    assert (told["rule"], told["code"]) == ("NOT_READY", "Forbidden")
    return str(told["message"])


def test_a_quota_that_is_lowered_in_the_cluster_is_brought_back_and_delays_jobs_until_then(
    stage: KubeStage,
) -> None:
    ensure_namespaces(stage.cluster)
    stage.api.call("PATCH", QUOTA, {"spec": {"hard": {"requests.nvidia.com/gpu": "4"}}})
    job = stage.start("wide", jobs.RoleOf(cards=8), run_s=900)
    with enforced(stage, QUOTA):
        assert "exceeded quota: allotment" in refusal(stage, job)
        assert ensure_namespaces(stage.cluster)
    record = AuditRecord.unscoped.filter(action="cluster.repair").latest("pk")
    field = "resourcequotas/team-a/allotment.spec.hard.requests.nvidia.com/gpu"
    assert (record.before[field], record.after[field]) == ("4", "64")
    with enforced(stage, QUOTA):
        stage.run(60, every_s=10)
    assert state(job) == JobState.RUNNING
    stage.assert_bound_as_decided()


def test_a_foreign_quota_is_left_as_it_is_and_named(stage: KubeStage) -> None:
    quotas_of_team = f"{TEAM}/resourcequotas"
    spec = {"hard": {"requests.nvidia.com/gpu": "4"}}
    stage.api.call("POST", quotas_of_team, {"metadata": {"name": "frugal"}, "spec": spec})
    job = stage.start("wide", jobs.RoleOf(cards=8), run_s=900)
    try:
        with enforced(stage, f"{quotas_of_team}/frugal"):
            assert "exceeded quota: frugal" in refusal(stage, job)
            ensure_namespaces(stage.cluster)
            assert stage.api.call("GET", f"{quotas_of_team}/frugal")["spec"] == spec
    finally:
        stage.api.call("DELETE", f"{quotas_of_team}/frugal", {})


def test_a_quota_that_is_lowered_here_is_lowered_there(stage: KubeStage) -> None:
    ensure_namespaces(stage.cluster)
    Quota.unscoped.filter(node=stage.queue.node, resource="gpu.cards", flavor=stage.flavor).update(
        own_nominal=4
    )
    assert ensure_namespaces(stage.cluster)
    assert stage.api.call("GET", QUOTA)["spec"]["hard"] == {"requests.nvidia.com/gpu": "40"}


def test_a_foreign_namespace_is_left_as_it_is(stage: KubeStage) -> None:
    stage.api.namespace("theirs")
    before = stage.api.call("GET", "/api/v1/namespaces/theirs")["metadata"]
    quotas.queue(stage.cell, tenancy.workspace("theirs"), [stage.flavor], cards=4)
    ensure_namespaces(stage.cluster)
    after = stage.api.call("GET", "/api/v1/namespaces/theirs")["metadata"]
    assert after["resourceVersion"] == before["resourceVersion"]
    assert stage.api.items("/api/v1/namespaces/theirs/resourcequotas") == []


def test_what_is_unlimited_has_no_number(stage: KubeStage) -> None:
    Quota.unscoped.filter(node=stage.queue.node, resource="gpu.cards", flavor=stage.flavor).update(
        own_nominal=None
    )
    assert list(limits_of(stage.cluster)) == [TenantLimits("team-a", {}, str(stage.queue.workspace_id))]
