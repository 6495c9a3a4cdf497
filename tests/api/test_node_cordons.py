"""Cordon, uncordon and drain over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from clusters.models import Cluster, ClusterHealth, ForeignPod, Node, NodeCordon
from foundation.models import AuditRecord, Hint
from tests.api.conftest import As
from tests.builders import clusters, jobs
from tests.builders.world import World

NODE = "/api/v1/admin/nodes/node-1"
REASON = {"reason": "<b>a fan</b> fails"}


@pytest.fixture
def operator(w: World, as_user: As) -> APIClient:
    return as_user(w.platform_admin)


def post(client: APIClient, path: str, body: Any = None, **headers: str) -> Any:
    return client.post(path, body or {}, format="json", headers=headers)


def test_a_cordon_says_who_when_and_why(w: World, operator: APIClient) -> None:
    assert operator.get(NODE).json()["cordon"] is None
    answer = post(operator, f"{NODE}/cordon", REASON)
    assert answer.status_code == 202
    assert answer.json() == operator.get(NODE).json()
    cordon = answer.json()["cordon"]
    assert answer.json()["cordoned"] is True
    assert (cordon["requested_by"], cordon["reason"]) == (w.platform_admin.username, REASON["reason"])
    assert (cordon["schedulable"], cordon["drain"], cordon["applied_at"]) == (False, False, None)
    listed = operator.get("/api/v1/admin/nodes?cordoned=true").json()["items"]
    assert [node["cordon"]["requested_at"] for node in listed] == [cordon["requested_at"]]
    assert Hint.unscoped.filter(topic="execute").exists()
    assert post(operator, f"{NODE}/cordon").json()["cordon"] == cordon, "twice is once"
    opened = post(operator, f"{NODE}/uncordon").json()["cordon"]
    assert (opened["schedulable"], opened["applied_at"]) == (True, None)
    assert NodeCordon.unscoped.count() == 2


def test_a_drain_is_previewed_and_asked_for(w: World, operator: APIClient) -> None:
    job = jobs.job(w.queue, w.editor, "train", roles=[jobs.RoleOf(cards=2)], checkpoint_interval_s=600)
    jobs.allocate(job, w.nodes[0])
    ForeignPod.unscoped.create(
        cluster=w.cluster, node_name="node-1", uid="1", namespace="web", name="shop", owner="ReplicaSet/shop"
    )
    preview = operator.get(f"{NODE}/drain").json()
    assert preview == {
        "jobs": [
            {
                "id": str(job.pk),
                "name": "train",
                "workspace": "team-a",
                "user": "ed",
                "state": "running",
                "tasks": 1,
                "checkpoint_interval_s": 600,
                "lost_gpu_hours": None,
            }
        ],
        "lost_gpu_hours": 0.0,
        "remaining_pods": [{"namespace": "web", "name": "shop", "owner": "ReplicaSet/shop"}],
    }
    assert not NodeCordon.unscoped.exists()
    answer = post(operator, f"{NODE}/drain", REASON)
    assert answer.status_code == 202
    assert (answer.json()["cordon"]["drain"], answer.json()["cordon"]["drained_at"]) == (True, None)
    job.refresh_from_db()
    assert job.state == "running", "the cluster cordons the node first"
    assert AuditRecord.unscoped.get(action="node.drain").after["jobs"] == 1


@pytest.mark.parametrize("act", ["cordon", "uncordon", "drain"])
def test_a_dry_run_asks_for_nothing(operator: APIClient, act: str) -> None:
    Node.unscoped.filter(name="node-1").update(cordoned=act == "uncordon")
    answer = operator.post(f"{NODE}/{act}?dry_run=true", {}, format="json")
    assert answer.status_code < 300, answer.content
    assert not NodeCordon.unscoped.exists()
    assert not Hint.unscoped.exists()


def test_a_request_that_is_sent_again_is_one(operator: APIClient) -> None:
    key = {"Idempotency-Key": "once"}
    first, second = (post(operator, f"{NODE}/drain", REASON, **key) for _ in range(2))
    assert first.json() == second.json()
    assert NodeCordon.unscoped.count() == 1


@pytest.mark.parametrize("act", ["cordon", "uncordon", "drain"])
def test_a_silent_cluster_is_a_clear_refusal(operator: APIClient, act: str) -> None:
    Cluster.unscoped.update(health=ClusterHealth.UNREACHABLE)
    answer = post(operator, f"{NODE}/{act}")
    assert (answer.status_code, answer.json()["code"]) == (422, "CLUSTER_UNREACHABLE")
    assert "No changes were made" in answer.json()["detail"]
    assert not NodeCordon.unscoped.exists()


@pytest.mark.parametrize("act", ["cordon", "uncordon", "drain"])
def test_a_node_that_is_not_there(operator: APIClient, act: str) -> None:
    Node.unscoped.filter(name="node-2").update(present=False)
    for name in ("nowhere", "node-2"):
        assert post(operator, f"/api/v1/admin/nodes/{name}/{act}").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [({"reason": "x" * 501}, "reason"), ({"force": True}, "force"), ({"reason": ["x"]}, "reason")],
)
def test_bodies_that_say_something_else(operator: APIClient, body: Any, field: str) -> None:
    for act in ("cordon", "drain"):
        answer = post(operator, f"{NODE}/{act}", body)
        assert answer.status_code in (400, 422), answer.content
        assert field in answer.content.decode()
    assert not NodeCordon.unscoped.exists()


def test_of_two_nodes_of_one_name_the_cluster_decides(w: World, operator: APIClient) -> None:
    other = clusters.cluster(w.cell, "west")
    clusters.node(clusters.flavor(other), "node-1")
    assert post(operator, f"{NODE}/cordon").status_code in (400, 422)
    assert post(operator, f"{NODE}/cordon?cluster=west").status_code == 202
    assert list(Node.unscoped.filter(cordoned=True).values_list("cluster__name", flat=True)) == ["west"]


@pytest.mark.parametrize("act", ["cordon", "uncordon", "drain"])
def test_tenants_may_not(w: World, as_user: As, act: str) -> None:
    for who in (w.admin, w.editor, w.outsider):
        assert post(as_user(who), f"{NODE}/{act}").status_code == 403
    assert as_user(w.admin).get(f"{NODE}/drain").status_code == 403
    assert not NodeCordon.unscoped.exists()
