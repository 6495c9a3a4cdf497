"""The tenant tree, members, roles, accounts and keys over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from tenants.models import AccessKey, Member, Role, Tenant, User
from tests.api.conftest import As
from tests.builders import tenancy
from tests.builders.world import World

API = "/api/v1"


@pytest.fixture
def boss(w: World, as_user: As) -> APIClient:
    return as_user(w.platform_admin)


def test_a_tenant_is_made_renamed_and_guarded_by_its_version(w: World, boss: APIClient) -> None:
    body = {"parent": str(tenancy.root().pk), "kind": "workspace", "name": "Robot arms"}
    made = boss.post(f"{API}/tenants", body)
    assert (made.status_code, made.json()["slug"]) == (201, "robot-arms")
    path, tag = made["Location"], made["ETag"]

    assert boss.patch(path, {"name": "Arms"}).status_code == 428
    renamed = boss.patch(path, {"name": "Arms"}, headers={"If-Match": tag})
    assert (renamed.status_code, renamed.json()["name"]) == (200, "Arms")
    stale = boss.patch(path, {"name": "Legs"}, headers={"If-Match": tag})
    assert (stale.status_code, stale.json()["code"]) == (412, "PRECONDITION_FAILED")
    assert boss.get(path)["ETag"] == renamed["ETag"]
    double = boss.post(f"{API}/tenants", {**body, "name": "arms", "slug": "arms-2"})
    assert (double.status_code, double.json()["errors"][0]["field"]) == (409, "name")


def test_a_move_is_previewed_then_made(w: World, boss: APIClient) -> None:
    folder = tenancy.folder("research")
    tenancy.user("lea", folder, Role.ADMIN)
    path = f"{API}/tenants/{w.workspace.pk}/move"
    body, match = {"parent": str(folder.pk)}, {"If-Match": '"0"'}

    preview = boss.post(f"{path}?dry_run=true", body, headers=match)
    assert preview.status_code == 200 and preview["Dry-Run"] == "true"
    assert [(c["username"], c["verdict"]) for c in preview.json()["access"]] == [("lea", "gains")]
    assert {e["code"] for e in preview.json()["effects"]} == {"QUOTA_MOVES"}
    assert Tenant.unscoped.get(pk=w.workspace.pk).parent == tenancy.root()

    moved = boss.post(path, body, headers=match)
    assert moved.json()["tenant"]["parent"] == str(folder.pk)
    assert boss.post(path, body, headers=match).status_code == 412
    circle = boss.post(
        f"{API}/tenants/{folder.pk}/move", {"parent": str(folder.pk)}, headers={"If-Match": "*"}
    )
    assert (circle.status_code, circle.json()["errors"][0]["code"]) == (400, "cycle")


def test_an_archived_workspace_leaves_the_lists_and_takes_no_jobs(
    w: World, boss: APIClient, as_user: As
) -> None:
    path = f"{API}/tenants/{w.workspace.pk}"
    assert boss.post(f"{path}/archive", headers={"If-Match": "*"}).json()["tenant"]["archived_at"]
    slugs = {item["slug"] for item in boss.get(f"{API}/tenants").json()["items"]}
    assert slugs == {"root", "team-b"}
    assert "team-a" in {item["slug"] for item in boss.get(f"{API}/tenants?archived=true").json()["items"]}
    job = as_user(w.editor).post(f"{API}/workspaces/team-a/jobs", {"name": "late", "roles": [{}]})
    assert (job.status_code, job.json()["code"]) == (409, "TENANT_ARCHIVED")
    assert boss.post(f"{path}/restore", headers={"If-Match": "*"}).json()["archived_at"] is None


def test_members_by_user_and_group_with_built_in_and_custom_roles(w: World, as_user: As) -> None:
    admin, base = as_user(w.admin), f"{API}/tenants/{w.workspace.pk}"
    tenancy.group("ml", w.outsider)
    role = {"name": "Stopper", "points": ["tenant.view", "job.stop-any"]}
    assert admin.post(f"{base}/roles", role).status_code == 201

    made = admin.post(f"{base}/members", {"group": "ml", "role": "stopper"})
    assert (made.status_code, made.json()["group"], made.json()["role"]) == (201, "ml", "Stopper")
    changed = admin.patch(made["Location"], {"role": "viewer"}, headers={"If-Match": made["ETag"]})
    assert changed.json()["role"] == "viewer"
    people = admin.get(f"{base}/permissions?username=otto").json()["items"]
    sources = {s["group"] for point in people[0]["permissions"] for s in point["sources"]}
    assert sources == {"ml"}
    gone = admin.delete(made["Location"], headers={"If-Match": changed["ETag"]})
    assert gone.status_code == 204 and not Member.unscoped.filter(group__name="ml").exists()
    keeper = {"name": "Keeper", "points": ["tenant.view", "member.edit"]}
    admin.post(f"{base}/roles", keeper)
    admin.post(f"{base}/members", {"user": "vera", "role": "keeper"})
    too_much = as_user(w.viewer).post(f"{base}/roles", {"name": "Spy", "points": ["job.stop-any"]})
    assert (too_much.status_code, too_much.json()["code"]) == (403, "CANNOT_GRANT")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"role": "viewer"}, "user"),
        ({"user": "ed", "group": "ml", "role": "viewer"}, "user"),
        ({"user": "nobody", "role": "viewer"}, "user"),
        ({"group": "nothing", "role": "viewer"}, "group"),
        ({"user": "ed", "role": "emperor"}, "role"),
        ({"user": "ed", "role": "platform-admin"}, "role"),
        ({"user": "ed", "role": "viewer", "colour": "red"}, "colour"),
        ({"user": 7, "role": ["viewer"]}, "role"),
    ],
)
def test_members_that_cannot_be(w: World, as_user: As, body: dict[str, Any], field: str) -> None:
    answer = as_user(w.admin).post(f"{API}/tenants/{w.workspace.pk}/members", body)
    assert answer.status_code == 400
    assert field in [error["field"] for error in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "parent"),
        ({"parent": "here"}, "parent"),
        ({"kind": "team"}, "kind"),
        ({"name": ""}, "name"),
        ({"name": "x" * 121}, "name"),
        ({"name": "a\u0000b"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"slug": "UPPER"}, "slug"),
        ({"slug": "kube-public"}, "slug"),
        ({"name": "研究", "slug": ""}, "slug"),
        ({"version": 9}, "version"),
    ],
)
def test_tenants_that_cannot_be(w: World, boss: APIClient, body: dict[str, Any], field: str) -> None:
    whole = (
        {"parent": str(tenancy.root().pk), "kind": "folder", "name": "Fine", "slug": "fine"} if body else {}
    )
    answer = boss.post(f"{API}/tenants", {**whole, **body})
    assert answer.status_code == 400
    assert field in [error["field"] for error in answer.json()["errors"]]


def test_a_service_account_of_a_team_gets_a_key_that_works_and_rotates(w: World, as_user: As) -> None:
    admin, keys = as_user(w.admin), f"{API}/workspaces/team-a/keys"
    base = f"{API}/tenants/{w.workspace.pk}"
    assert admin.post(f"{base}/service-accounts", {"name": "ci"}).json()["username"] == "ci@team-a"
    admin.post(f"{base}/members", {"user": "ci@team-a", "role": "editor"})
    made = admin.post(keys, {"name": "pipeline", "service_account": "ci"}).json()
    robot = APIClient(headers={"Authorization": f"Bearer {made['token']}"})

    assert robot.get(f"{API}/me").json()["username"] == "ci@team-a"
    assert robot.get(f"{API}/workspaces/team-a").status_code == 200
    assert robot.get(f"{API}/workspaces/team-b").status_code == 404
    rotated = admin.post(f"{keys}/{made['prefix']}/rotate", {"grace_s": 60})
    assert rotated.status_code == 201 and robot.get(f"{API}/me").status_code == 200
    assert {item["owner"] for item in admin.get(keys).json()["items"]} == {"ci@team-a"}
    assert as_user(w.editor).get(keys).json()["total"] == 0
    assert admin.delete(f"{base}/service-accounts/ci@team-a").status_code == 204
    assert robot.get(f"{API}/me").status_code == 401
    assert not AccessKey.unscoped.filter(revoked_at__isnull=True).exists()


def test_an_operator_runs_accounts_and_groups(w: World, boss: APIClient) -> None:
    weak = boss.post(f"{API}/admin/users", {"username": "new", "password": "short"})
    assert (weak.status_code, weak.json()["errors"][0]["field"]) == (400, "password")
    made = boss.post(f"{API}/admin/users", {"username": "new", "password": "first sign in 7"})
    assert made.json()["must_change_password"] is True and "password" not in made.json()
    group = boss.post(f"{API}/admin/groups", {"name": "ML"})
    assert boss.post(f"{group['Location']}/people", {"username": "new"}).status_code == 201
    assert boss.get(group["Location"]).json()["size"] == 1
    closed = boss.patch(made["Location"], {"is_active": False}, headers={"If-Match": made["ETag"]})
    assert closed.json()["is_active"] is False
    assert boss.post(f"{made['Location']}/unlock").status_code == 204
    assert boss.post(f"{made['Location']}/password", {"password": "second try 88"}).status_code == 200
    person = f"{group['Location']}/people/{made.json()['id']}"
    assert boss.delete(person).status_code == 204
    of_the_last = f"{API}/admin/users/{w.platform_admin.pk}"
    last = boss.patch(of_the_last, {"is_active": False}, headers={"If-Match": "*"})
    assert (last.status_code, last.json()["code"]) == (409, "LAST_PLATFORM_ADMIN")
    assert User.objects.get(pk=w.platform_admin.pk).is_active


def test_the_overview_of_a_workspace_asks_who_one_is_once(
    w: World, client: Any, django_assert_max_num_queries: Any
) -> None:
    client.force_login(w.editor)
    client.get("/w/team-a/overview")
    with django_assert_max_num_queries(37) as asked:
        assert client.get("/w/team-a/overview").status_code == 200
    members = [q for q in asked.captured_queries if '"tenants_member"' in q["sql"]]
    assert len(members) == 1
