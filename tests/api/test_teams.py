"""A team in one request: created once, previewed by a dry run, with mistakes reported by field."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from quotas.models import Quota
from tenants.models import Role, Tenant, User
from tests.api.conftest import As
from tests.builders import quotas, tenancy
from tests.builders.world import World

TEAMS = "/api/v1/admin/teams"


@pytest.fixture
def boss(w: World, as_user: As) -> APIClient:
    Quota.unscoped.filter(node__tenant=tenancy.root()).delete()
    quotas.gpu_quota(quotas.quota_node(w.cell, tenancy.root()), w.flavor, 16)
    return as_user(w.platform_admin)


def body(**fields: Any) -> dict[str, Any]:
    return {
        "parent": str(tenancy.root().pk),
        "name": "New team",
        "members": [{"username": "otto", "role": "admin"}, {"username": "nora"}],
        "pools": [{"flavor": "a100", "gpus": 4, "borrowing_limit": 2}],
        "invite": True,
        **fields,
    }


def test_a_dry_run_reports_everything_and_stores_nothing(boss: APIClient) -> None:
    answer = boss.post(f"{TEAMS}?dry_run=true", body(), "json")
    told = answer.json()
    assert answer.status_code == 200 and answer["Dry-Run"] == "true"
    assert told["workspace"] == "new-team" and told["invited"] == ["nora"] and told["can_start"]
    assert told["pools"][0]["nominal"]["gpu.cores"] == 400
    assert {line["node"] for line in told["quota"]["changes"]} == {"New team", "New team / default"}
    assert not Tenant.unscoped.filter(slug="new-team").exists() and not User.objects.filter(username="nora")


def test_a_team_that_is_sent_twice_is_created_once(boss: APIClient) -> None:
    key = {"Idempotency-Key": "team-1"}
    first = boss.post(TEAMS, body(), "json", headers=key)
    again = boss.post(TEAMS, body(), "json", headers=key)
    assert first.status_code == again.status_code == 201, first.json()
    made = first.json()
    assert made["members"] == {"otto": "admin", "nora": "editor"}
    assert made["invitations"][0]["username"] == "nora" and made["invitations"][0]["path"]
    assert again["Idempotency-Replayed"] == "true"
    assert again.json() == {**made, "invitations": None}, "a link is shown once"
    assert Tenant.unscoped.filter(name="New team").count() == 1
    assert first["Location"].endswith(made["id"])


@pytest.mark.parametrize(
    ("wrong", "status", "field"),
    [
        ({"name": ""}, 400, "name"),
        ({"pools": []}, 400, "pools"),
        ({"pools": [{"flavor": "h100", "gpus": 1}]}, 400, "pools.0.flavor"),
        ({"pools": [{"flavor": "a100", "gpus": 17}]}, 422, "pools.0.gpus"),
        ({"pools": [{"flavor": "a100", "gpus": -1}]}, 400, "pools.0.gpus"),
        ({"pools": [{"flavor": "a100", "gpus": 0, "borrowing_limit": 0}]}, 422, "pools.0.gpus"),
        ({"members": [{"username": "nora", "mail": ""}]}, 400, "members.0.mail"),
        ({"members": [{"username": "ghost"}], "invite": False}, 400, "members.0.username"),
        ({"preset": "fast"}, 400, "preset"),
        ({"parent": "01890000-0000-7000-8000-000000000000"}, 404, "parent"),
    ],
)
def test_a_mistake_is_named_by_its_field(boss: APIClient, wrong: Any, status: int, field: str) -> None:
    answer = boss.post(TEAMS, body(**wrong), "json")
    assert answer.status_code == status
    assert field in [error["field"] for error in answer.json()["errors"]]
    assert not Tenant.unscoped.filter(slug="new-team").exists()


def test_an_admin_of_a_folder_creates_below_it_and_invites_no_user(
    boss: APIClient, w: World, as_user: As
) -> None:
    labs = tenancy.folder("labs")
    quotas.gpu_quota(quotas.quota_node(w.cell, labs), w.flavor, 8)
    lea = as_user(tenancy.user("lea", labs, Role.ADMIN))
    own = body(parent=str(labs.pk), members=[{"username": "otto"}])
    assert lea.post(TEAMS, own, "json").status_code == 201
    refused = lea.post(TEAMS, own | {"name": "Two", "members": [{"username": "nora"}]}, "json")
    assert refused.json()["errors"][0]["field"] == "members.0.username"
    assert lea.post(TEAMS, body(), "json").status_code == 404
