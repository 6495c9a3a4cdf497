"""Granting priority classes, and presets of queues, over the API."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from foundation.models import AuditRecord
from scheduling.models import PriorityClass, PriorityGrant
from tenants.models import Role
from tests.api.conftest import As
from tests.builders import jobs, tenancy
from tests.builders.world import World

GRANTS = "/api/v1/admin/priority-grants"


@pytest.fixture
def high(db: None) -> PriorityClass:
    return jobs.priority_class("high", 100)


@pytest.fixture
def above(w: World, as_user: As) -> APIClient:
    """The admin of the folder above the workspaces."""
    return as_user(tenancy.user("anna", tenancy.root(), Role.ADMIN))


def grant(client: APIClient, tenant: str = "team-a", name: str = "high") -> tuple[int, str]:
    answer = client.post(GRANTS, {"tenant": tenant, "priority_class": name})
    return answer.status_code, answer.json().get("code", "")


def submit(client: APIClient) -> int:
    body = {"name": "urgent", "priority_class": "high", "roles": [{"resources": {"gpu": {"cards": 1}}}]}
    return int(client.post("/api/v1/workspaces/team-a/jobs", body).status_code)


def test_a_class_is_used_once_it_is_granted_and_no_longer_when_it_is_taken_back(
    w: World, high: PriorityClass, as_user: As
) -> None:
    operator, editor = as_user(w.platform_admin), as_user(w.editor)
    assert submit(editor) == 422
    made = operator.post(GRANTS, {"tenant": "team-a", "priority_class": "high"})
    assert made.status_code == 201
    assert grant(operator) == (201, "")
    assert PriorityGrant.unscoped.count() == 1
    assert submit(editor) == 202
    assert operator.delete(made.headers["Location"]).status_code == 204
    assert operator.post("/api/v1/workspaces/team-a/jobs/urgent/cancel").status_code == 202
    assert submit(editor) == 422
    assert set(AuditRecord.unscoped.filter(entity="priority-grant").values_list("action", flat=True)) == {
        "priority-grant.create",
        "priority-grant.delete",
    }


def test_an_admin_grants_only_what_the_tenant_above_has(
    w: World, high: PriorityClass, above: APIClient, as_user: As
) -> None:
    assert grant(above)[0] == 403
    PriorityGrant.unscoped.create(tenant=tenancy.root(), priority_class=high)
    assert grant(above)[0] == 201
    assert grant(as_user(w.admin))[0] == 403
    assert grant(above, tenant="root")[0] == 403
    assert PriorityGrant.unscoped.count() == 2


def test_what_cannot_be_granted(w: World, high: PriorityClass, as_user: As) -> None:
    operator = as_user(w.platform_admin)
    assert grant(operator, name="normal") == (400, "GRANT_NEEDLESS")
    assert grant(operator, name="no-such")[0] == 404
    assert grant(operator, tenant="no-such")[0] == 404
    answer = operator.post(GRANTS, {"tenant": "team-a", "priority_class": "high", "more": 1})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "more")
    assert not PriorityGrant.unscoped.exists()


def test_no_user_sees_grants_of_others(w: World, high: PriorityClass, as_user: As) -> None:
    theirs = PriorityGrant.unscoped.create(tenant=w.other_workspace, priority_class=high)
    client = as_user(w.admin)
    assert client.get(GRANTS).json()["items"] == []
    assert client.delete(f"{GRANTS}/{theirs.pk}").status_code == 404
    assert client.get("/api/v1/admin/priority-classes").json()["items"][0]["value"] == 100


def test_a_queue_takes_a_preset(w: World, as_user: As) -> None:
    client, place = as_user(w.admin), "/api/v1/workspaces/team-a/queues/default/preset"
    answer = client.post(place, {"preset": "deterministic"})
    assert (answer.status_code, answer.json()["allocation_mode"], answer.json()["preemption"]) == (
        200, "static", False,
    )  # fmt: skip
    assert client.post(f"{place}?dry_run=true", {"preset": "balanced"}).json()["preemption"] is True
    w.queue.refresh_from_db()
    assert w.queue.preemption is False
    wrong = client.post(place, {"preset": "fast"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "preset")
    assert client.post(place.replace("default", "other"), {"preset": "balanced"}).status_code == 404
