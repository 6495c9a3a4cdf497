"""Workspace policies: defaults, refusals, and their combination along the tree."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from foundation.models import AuditRecord
from scheduling.models import Job, WorkspacePolicy
from tenants.models import Role, Tenant
from tests.api.conftest import As
from tests.builders import jobs, tenancy
from tests.builders.world import World

JOBS = "/api/v1/workspaces/team-a/jobs"


def gpu(cards: int = 1, **values: Any) -> dict[str, Any]:
    return {"roles": [{"resources": {"gpu": {"cards": cards}}} | values]}


def put(client: APIClient, tenant: Tenant, version: int | str = "*", **body: Any) -> Any:
    match = version if version == "*" else f'"{version}"'
    return client.put(f"/api/v1/tenants/{tenant.pk}/policy", body, headers={"If-Match": match})


@pytest.fixture
def above(w: World, as_user: As) -> APIClient:
    return as_user(tenancy.user("anna", tenancy.root(), Role.ADMIN))


def test_every_breach_is_reported_at_once_by_field(w: World, above: APIClient, as_user: As) -> None:
    rules = {"maximum": {"roles.resources.gpu.cards": 2, "max_run_s": 3600}, "images": ["pytorch/*"]}
    rules["minimum"] = {"roles.resources.cpu": "2"}
    assert put(above, tenancy.root(), **rules).status_code == 200
    body = {"max_run_s": 7200, **gpu(4, image="evil:1")}
    answer = as_user(w.editor).post(JOBS, body)
    assert (answer.status_code, answer.json()["code"]) == (422, "POLICY_DENIED")
    assert {(error["field"], error["code"]) for error in answer.json()["errors"]} == {
        ("roles.0.resources.cpu", "BELOW_MINIMUM"),
        ("roles.0.resources.gpu.cards", "ABOVE_MAXIMUM"),
        ("max_run_s", "ABOVE_MAXIMUM"),
        ("roles.0.image", "IMAGE_NOT_ALLOWED"),
    }
    assert "Root" in answer.json()["errors"][0]["message"]
    assert not Job.unscoped.exists()


def test_a_policy_lists_what_fields_may_say(w: World, above: APIClient, as_user: As) -> None:
    listed = {"kind": ["batch", "py*"], "placement": ["topology", "node_selector", "tolerations"]}
    assert put(above, tenancy.root(), allowed=listed).status_code == 200
    own = {
        "placement.node_selector": ["disktype=*"],
        "roles.resources.gpu.mode": ["whole"],
        "queue": ["default"],
    }
    own |= {"placement.tolerations": ["spot"], "placement.topology.level": ["rack"], "kind": ["batch", "mpi"]}
    shown = put(above, w.workspace, allowed=own).json()
    assert shown["allowed"] == own
    assert [rule["tenant"] for rule in shown["effective"]["allowed"]["kind"]] == ["Root", "Team A"]
    place = {"node_selector": {"disktype": "ssd", "zone": "a"}, "node_name": "node-1"}
    place |= {"tolerations": [{"key": "spot", "operator": "Exists"}, {"operator": "Exists"}]}
    place |= {"topology": {"level": "zone", "mode": "required"}}
    slice_of = {"cards": 1, "mode": "slice", "cores": 50, "memory": "1Gi"}
    body = {"kind": "mpi", "placement": place, "roles": [{"resources": {"gpu": slice_of}}]}
    answer = as_user(w.editor).post(JOBS, body)
    assert (answer.status_code, answer.json()["code"]) == (422, "POLICY_DENIED")
    assert {(error["field"], error["code"]) for error in answer.json()["errors"]} == {
        (field, "NOT_ALLOWED")
        for field in (
            "kind",
            "placement.node_name",
            "placement.node_selector.zone",
            "placement.tolerations.1.key",
            "placement.topology.level",
            "roles.0.resources.gpu.mode",
        )
    }
    assert as_user(w.editor).post(JOBS, gpu()).status_code == 202
    assert put(above, w.workspace).json()["allowed"] == {}


def test_defaults_are_filled_in_and_shown(w: World, above: APIClient, as_user: As) -> None:
    own = {"roles": {"image": "pytorch/pytorch:2.8", "resources": {"cpu": 4, "gpu": {"mode": "whole"}}}}
    assert put(above, w.workspace, defaults=own, maximum={"max_run_s": 3600}).status_code == 200
    client = as_user(w.editor)
    body = {"name": "open", **gpu(1)}
    filled = {"max_run_s": 3600, "roles.0.image": "pytorch/pytorch:2.8"}
    filled |= {"roles.0.resources.cpu": 4, "roles.0.resources.gpu.mode": "whole"}
    for query in ("?dry_run=true", ""):
        answer = client.post(JOBS + query, body)
        assert {item["field"]: item["value"] for item in answer.json()["defaults"]} == filled
    spec = client.get(f"{JOBS}/open").json()["spec"]
    assert (spec["max_run_s"], spec["roles"][0]["image"]) == (3600, "pytorch/pytorch:2.8")
    assert client.post(f"{JOBS}?dry_run=true", spec | {"name": "again"}).json()["defaults"] == []


def test_a_child_tightens_and_never_loosens(w: World, above: APIClient, as_user: As) -> None:
    root = tenancy.root()
    put(above, root, maximum={"roles.resources.gpu.cards": 2}, images=["pytorch/*", "local/*"])
    put(above, w.workspace, maximum={"roles.resources.gpu.cards": 8}, images=["pytorch/*", "evil/*"])
    counts = as_user(w.viewer).get("/api/v1/workspaces/team-a/policy").json()
    assert counts["maximum"] == {"roles.resources.gpu.cards": {"value": 2, "tenant": "Root"}}
    client = as_user(w.editor)
    assert client.post(f"{JOBS}?dry_run=true", gpu(3, image="pytorch/a")).status_code == 422
    assert client.post(f"{JOBS}?dry_run=true", gpu(2, image="evil/a")).status_code == 422
    assert client.post(f"{JOBS}?dry_run=true", gpu(2, image="local/a")).status_code == 422
    assert client.post(f"{JOBS}?dry_run=true", gpu(2, image="pytorch/a")).status_code == 200
    put(above, w.workspace, maximum={"roles.resources.gpu.cards": 1})
    assert client.post(f"{JOBS}?dry_run=true", gpu(2, image="pytorch/a")).status_code == 422
    put(above, root)
    assert client.post(f"{JOBS}?dry_run=true", gpu(1, image="evil/a")).status_code == 200


def test_a_default_from_above_is_brought_to_the_limits_below(w: World, above: APIClient, as_user: As) -> None:
    put(above, tenancy.root(), defaults={"roles": {"resources": {"gpu": {"cards": 8}}}})
    put(above, w.workspace, maximum={"roles.resources.gpu.cards": 2})
    body = {"roles": [{"resources": {"gpu": {"mode": "whole"}}}]}
    answer = as_user(w.editor).post(f"{JOBS}?dry_run=true", body)
    assert answer.json()["demand"]["gpu.cards"] == 2


def test_slices_take_only_the_defaults_of_their_mode(w: World, above: APIClient, as_user: As) -> None:
    cards = {"mode": "slice", "cores": 25, "memory": "8Gi"}
    put(above, w.workspace, defaults={"roles": {"resources": {"gpu": cards}}})
    client = as_user(w.editor)
    whole = client.post(f"{JOBS}?dry_run=true", {"roles": [{"resources": {"gpu": {"mode": "whole"}}}]})
    assert (whole.status_code, whole.json()["defaults"]) == (200, [])
    none = client.post(f"{JOBS}?dry_run=true", {"roles": [{"resources": {"cpu": 1}}]})
    assert (none.status_code, none.json()["defaults"]) == (200, [])


def test_protection_is_cut_and_not_refused(w: World, above: APIClient, as_user: As) -> None:
    put(above, w.workspace, maximum={"min_run_s": 60})
    answer = as_user(w.editor).post(f"{JOBS}?dry_run=true", {"min_run_s": 600, **gpu(1)})
    assert (answer.status_code, answer.json()["min_run_s"]) == (200, 60)


def test_gpu_memory_in_percent_cannot_dodge_a_limit(w: World, above: APIClient, as_user: As) -> None:
    put(above, w.workspace, maximum={"roles.resources.gpu.memory": "8Gi"})
    slice_of = {"cards": 1, "mode": "slice", "cores": 30, "memory": "50%"}
    answer = as_user(w.editor).post(JOBS, {"roles": [{"resources": {"gpu": slice_of}}]})
    assert [error["code"] for error in answer.json()["errors"]] == ["NOT_COMPARABLE"]


def test_versions_rights_and_records(w: World, above: APIClient, as_user: As) -> None:
    place = f"/api/v1/tenants/{w.workspace.pk}/policy"
    assert above.get(place).headers["ETag"] == '"0"'
    assert above.put(place, {}).status_code == 428
    assert put(above, w.workspace, 1).status_code == 412
    assert put(above, w.workspace, 0, maximum={"max_run_s": 60}).headers["ETag"] == '"1"'
    assert put(above, w.workspace, 0).status_code == 412
    assert put(as_user(w.editor), w.workspace).status_code == 403
    assert put(as_user(w.outsider), w.workspace).status_code == 404
    assert put(as_user(w.admin), tenancy.root()).status_code == 404
    changed = put(as_user(w.admin), w.workspace, 1, maximum={"max_run_s": 30})
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    listed = as_user(w.admin).get("/api/v1/admin/policies").json()["items"]
    assert [(item["tenant"], item["maximum"]) for item in listed] == [("team-a", {"max_run_s": 30})]
    assert above.delete(place, headers={"If-Match": '"2"'}).status_code == 204
    assert above.delete(place, headers={"If-Match": "*"}).status_code == 404
    actions = AuditRecord.unscoped.filter(entity="policy", result="done").order_by("created_at", "id")
    assert list(actions.values_list("action", flat=True)) == ["policy.set", "policy.set", "policy.delete"]
    assert actions[1].before["maximum"] == {"max_run_s": 60}


def test_a_dry_run_sets_nothing(w: World, above: APIClient) -> None:
    place = f"/api/v1/tenants/{w.workspace.pk}/policy?dry_run=true"
    answer = above.put(place, {"maximum": {"max_run_s": 60}}, headers={"If-Match": "*"})
    assert answer.json()["effective"]["maximum"]["max_run_s"]["value"] == 60
    assert not WorkspacePolicy.unscoped.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"maximum": {"roles.wheels": 4}}, "maximum.roles.wheels"),
        ({"maximum": {"max_run_s": -1}}, "maximum.max_run_s"),
        ({"maximum": {"max_run_s": 1e30}}, "maximum.max_run_s"),
        ({"maximum": {"max_run_s": True}}, "maximum.max_run_s"),
        ({"maximum": {"roles.resources.memory": "64"}}, "maximum.roles.resources.memory"),
        ({"minimum": {"roles.resources.cpu": "1e30"}}, "minimum.roles.resources.cpu"),
        ({"minimum": {"roles.resources.cpu": [1]}}, "minimum.roles.resources.cpu"),
        ({"minimum": {"roles.resources.gpu.cores": 0}}, "minimum.roles.resources.gpu.cores"),
        ({"minimum": {"max_run_s": 60}, "maximum": {"max_run_s": 30}}, "minimum.max_run_s"),
        ({"minimum": []}, "minimum"),
        ({"defaults": {"wheels": 4}}, "defaults.wheels"),
        ({"defaults": {"name": "mine"}}, "defaults.name"),
        ({"defaults": {"gang": {"min_available": 2}}}, "defaults.gang"),
        ({"defaults": {"roles": [{"image": "a"}]}}, "defaults.roles"),
        ({"defaults": {"roles": {"replicas": "two"}}}, "defaults.roles.replicas"),
        ({"defaults": {"roles": {"resources": {"gpu": {"cards": 1e30}}}}}, "defaults.roles.resources.gpu"),
        ({"defaults": {"environment": {"A": "\x00"}}}, "defaults"),
        ({"images": "pytorch"}, "images"),
        ({"images": [""]}, "images.0"),
        ({"images": ["*" * 6]}, "images.0"),
        ({"images": ["a"] * 101}, "images"),
        ({"idle_timeout_s": 1}, "idle_timeout_s"),
        ({"idle_timeout_s": 10**9}, "idle_timeout_s"),
        ({"wheels": 4}, "wheels"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_meant(w: World, above: APIClient, body: Any, field: str) -> None:
    answer = put(above, w.workspace, **body)
    assert answer.status_code == 400, answer.json()
    assert any(error["field"].startswith(field) for error in answer.json()["errors"]), answer.json()
    assert not WorkspacePolicy.unscoped.exists()


def test_a_child_cannot_contradict_the_policy_above(w: World, above: APIClient) -> None:
    put(above, tenancy.root(), minimum={"roles.replicas": 4})
    answer = put(above, w.workspace, maximum={"roles.replicas": 2})
    assert [error["field"] for error in answer.json()["errors"]] == ["maximum.roles.replicas"]


def test_what_waits_is_not_asked_again(w: World, above: APIClient, as_user: As) -> None:
    jobs.job(w.queue, w.editor, "before")
    put(above, w.workspace, maximum={"roles.resources.gpu.cards": 0})
    assert as_user(w.editor).get(f"{JOBS}/before").json()["state"] == "queued"
