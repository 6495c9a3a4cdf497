"""Invalid tenants, members, accounts, groups, roles and keys are refused by field, and change nothing."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rest_framework.test import APIClient

from tenants.models import Role
from tests.api.conftest import As
from tests.api.refusals import Bad, faults
from tests.builders import tenancy
from tests.builders.world import World

NOWHERE: Final = "00000000-0000-7000-8000-000000000000"
PAST: Final = "2020-01-01T00:00:00Z"
STRONG: Final = "quite another 22"


def tenant(**values: Any) -> dict[str, Any]:
    return {"parent": "{root}", "kind": "folder", "name": "Fresh"} | values


def user(**values: Any) -> dict[str, Any]:
    return {"username": "fresh", "password": STRONG} | values


def role(**values: Any) -> dict[str, Any]:
    return {"name": "Fresh", "points": ["job.view"]} | values


MEMBERS: Final = "tenants/{team}/members"
ROLES: Final = "tenants/{team}/roles"
ROBOTS: Final = "tenants/{team}/service-accounts"
KEYS: Final = "workspaces/team-a/keys"

ROWS: Final = [
    # Tenants: types, names, unicode, the tree.
    Bad("POST", "tenants", [], "non_field_errors"),
    Bad("POST", "tenants", {}, "parent"),
    Bad("POST", "tenants", tenant(parent=7), "parent"),
    Bad("POST", "tenants", tenant(parent="root"), "parent"),
    Bad("POST", "tenants", tenant(parent=NOWHERE), "parent"),
    Bad("POST", "tenants", tenant(parent=None), "parent"),
    Bad("POST", "tenants", tenant(parent="{team}"), "parent"),
    Bad("POST", "tenants", tenant(parent="{closed}"), "parent"),
    Bad("POST", "tenants", tenant(kind="galaxy"), "kind"),
    Bad("POST", "tenants", tenant(kind=["folder"]), "kind"),
    Bad("POST", "tenants", tenant(name=""), "name"),
    Bad("POST", "tenants", tenant(name=7.5e300), "name"),
    Bad("POST", "tenants", tenant(name={"en": "Fresh"}), "name"),
    Bad("POST", "tenants", tenant(name="x" * 121), "name"),
    Bad("POST", "tenants", tenant(name="a\u0000b"), "name"),
    Bad("POST", "tenants", tenant(name="a\u0007b"), "name"),
    Bad("POST", "tenants", tenant(name="safe\u202egnp.exe"), "name"),
    Bad("POST", "tenants", tenant(name="zero\u200bwidth"), "name"),
    Bad("POST", "tenants", tenant(name="\ud800"), "name"),
    Bad("POST", "tenants", tenant(name="a/b"), "name"),
    Bad("POST", "tenants", tenant(name="<script>alert(1)</script>"), "name"),
    Bad("POST", "tenants", tenant(name="研究"), "slug"),
    Bad("POST", "tenants", tenant(name="---"), "name"),
    Bad("POST", "tenants", tenant(name="TEAM A"), "name"),
    Bad("POST", "tenants", tenant(name="\uff34eam a"), "name"),
    Bad("POST", "tenants", tenant(name="  Team   A "), "name"),
    Bad("POST", "tenants", tenant(slug="team-a"), "slug"),
    Bad("POST", "tenants", tenant(slug="Team"), "slug"),
    Bad("POST", "tenants", tenant(slug="a" * 64), "slug"),
    Bad("POST", "tenants", tenant(slug="-a"), "slug"),
    Bad("POST", "tenants", tenant(slug="kube-system"), "slug"),
    Bad("POST", "tenants", tenant(slug="default"), "slug"),
    Bad("POST", "tenants", tenant(path="/"), "path"),
    Bad("POST", "tenants", tenant(archived_at=None), "archived_at"),
    Bad("PATCH", "tenants/{team}", {"name": "Team B"}, "name"),
    Bad("PATCH", "tenants/{team}", {"name": "\u202eTeam"}, "name"),
    Bad("PATCH", "tenants/{team}", {"name": None}, "name"),
    Bad("PATCH", "tenants/{team}", {"slug": "team-z", "name": "Team Z"}, "slug"),
    Bad("PATCH", "tenants/{team}", {}, "name"),
    Bad("POST", "tenants/{research}/move", {"parent": "{research}"}, "parent"),
    Bad("POST", "tenants/{research}/move", {"parent": "{deep}"}, "parent"),
    Bad("POST", "tenants/{research}/move", {"parent": "{team}"}, "parent"),
    Bad("POST", "tenants/{research}/move", {"parent": "{closed}"}, "parent"),
    Bad("POST", "tenants/{research}/move", {"parent": None}, "parent"),
    Bad("POST", "tenants/{research}/move", {"parent": "{deep}", "force": True}, "force"),
    Bad("POST", "tenants/{twin}/move", {"parent": "{root}"}, "name"),
    # Members.
    Bad("POST", MEMBERS, {}, "role"),
    Bad("POST", MEMBERS, {"role": "editor"}, "user"),
    Bad("POST", MEMBERS, {"role": "editor", "user": "ed", "group": "ml"}, "user"),
    Bad("POST", MEMBERS, {"role": "editor", "user": "nobody"}, "user"),
    Bad("POST", MEMBERS, {"role": "editor", "user": ["ed"]}, "user"),
    Bad("POST", MEMBERS, {"role": "editor", "user": "a\u0000"}, "user"),
    Bad("POST", MEMBERS, {"role": "editor", "user": None}, "user"),
    Bad("POST", MEMBERS, {"role": "editor", "group": "nobodies"}, "group"),
    Bad("POST", MEMBERS, {"role": "emperor", "user": "ed"}, "role"),
    Bad("POST", MEMBERS, {"role": "platform-admin", "user": "ed"}, "role"),
    Bad("POST", MEMBERS, {"role": "", "user": "ed"}, "role"),
    Bad("POST", MEMBERS, {"role": "x" * 61, "user": "ed"}, "role"),
    Bad("POST", MEMBERS, {"role": "editor", "user": "ed", "tenant": "team-b"}, "tenant"),
    Bad("POST", MEMBERS, {"role": "editor", "user": "robot@team-b"}, "user"),
    Bad("PATCH", "tenants/{team}/members/{member}", {"role": "emperor"}, "role"),
    Bad("PATCH", "tenants/{team}/members/{member}", {"role": "viewer", "user": "otto"}, "user"),
    Bad("POST", "admin/members", {"role": "admin", "user": "ed"}, "role"),
    Bad("POST", "admin/members", {"role": "Helper", "user": "ed"}, "role"),
    # Custom roles.
    Bad("POST", ROLES, role(name=""), "name"),
    Bad("POST", ROLES, role(name="Editor"), "name"),
    Bad("POST", ROLES, role(name="Helper"), "name"),
    Bad("POST", ROLES, role(name="x" * 61), "name"),
    Bad("POST", ROLES, role(name="\u2066Helper"), "name"),
    Bad("POST", ROLES, role(points=[]), "points"),
    Bad("POST", ROLES, role(points="job.view"), "points"),
    Bad("POST", ROLES, role(points=["world.rule"]), "points.0"),
    Bad("POST", ROLES, role(points=[{}]), "points.0"),
    Bad("POST", ROLES, role(points=["cluster.edit"]), "points"),
    Bad("POST", ROLES, role(points=["job.view"] * 101), "points"),
    Bad("POST", ROLES, role(description="x" * 201), "description"),
    Bad("POST", ROLES, role(tenant="team-b"), "tenant"),
    Bad("PATCH", f"{ROLES}/{{role}}", {"name": "viewer"}, "name"),
    Bad("PATCH", f"{ROLES}/{{role}}", {"points": ["audit.view", 7]}, "points.1"),
    # Accounts.
    Bad("POST", "admin/users", user(username=""), "username"),
    Bad("POST", "admin/users", user(username="ED"), "username"),
    Bad("POST", "admin/users", user(username="a b"), "username"),
    Bad("POST", "admin/users", user(username="a\u202eb"), "username"),
    Bad("POST", "admin/users", user(username="x" * 151), "username"),
    Bad("POST", "admin/users", user(email="nowhere"), "email"),
    Bad("POST", "admin/users", user(password="short"), "password"),
    Bad("POST", "admin/users", user(password="12345678901234"), "password"),
    Bad("POST", "admin/users", user(password="x" * 201), "password"),
    Bad("POST", "admin/users", user(password=None), "password"),
    Bad("POST", "admin/users", user(is_superuser=True), "is_superuser"),
    Bad("PATCH", "admin/users/{ed}", {"is_active": "perhaps"}, "is_active"),
    Bad("PATCH", "admin/users/{ed}", {"is_active": None}, "is_active"),
    Bad("PATCH", "admin/users/{ed}", {}, "is_active"),
    Bad("PATCH", "admin/users/{ed}", {"is_active": True, "is_superuser": True}, "is_superuser"),
    Bad("POST", "admin/users/{ed}/password", {"password": "password"}, "password"),
    Bad("POST", "me/password", {"old": "wrong", "new": STRONG}, "old"),
    Bad("POST", "me/password", {"old": "a long password 1", "new": "short"}, "new"),
    Bad("POST", "me/password", {"old": "a long password 1"}, "new"),
    Bad("POST", ROBOTS, {"name": "Robot"}, "name"),
    Bad("POST", ROBOTS, {"name": "ro bot"}, "name"),
    Bad("POST", ROBOTS, {"name": "机器"}, "name"),
    Bad("POST", ROBOTS, {"name": "x" * 64}, "name"),
    Bad("POST", ROBOTS, {"name": "robot"}, "name"),
    Bad("POST", ROBOTS, {"name": "other", "home": "team-b"}, "home"),
    # Groups.
    Bad("POST", "admin/groups", {"name": "ml"}, "name"),
    Bad("POST", "admin/groups", {"name": "ML"}, "name"),
    Bad("POST", "admin/groups", {"name": ""}, "name"),
    Bad("POST", "admin/groups", {"name": "m\u0000l"}, "name"),
    Bad("POST", "admin/groups", {"name": "fresh", "claim": "x" * 201}, "claim"),
    Bad("POST", "admin/groups", {"name": "fresh", "claim": "staff"}, "claim"),
    Bad("POST", "admin/groups", {"name": "fresh", "people": ["ed"]}, "people"),
    Bad("PATCH", "admin/groups/{group}", {"name": "staff"}, "name"),
    Bad("PATCH", "admin/groups/{group}", {"size": 4}, "size"),
    Bad("POST", "admin/groups/{group}/people", {}, "username"),
    Bad("POST", "admin/groups/{group}/people", {"username": "nobody"}, "username"),
    Bad("POST", "admin/groups/{group}/people", {"username": {"a": 1}}, "username"),
    Bad("POST", "admin/groups/{group}/people", {"username": "robot@team-a"}, "username"),
    Bad("POST", "admin/groups/{group}/people", {"username": "ed", "role": "admin"}, "role"),
    # Access keys.
    Bad("POST", KEYS, {"name": ""}, "name"),
    Bad("POST", KEYS, {"name": ["ci"]}, "name"),
    Bad("POST", KEYS, {"name": "ci\u202e"}, "name"),
    Bad("POST", KEYS, {"name": "ci", "expires_at": PAST}, "expires_at"),
    Bad("POST", KEYS, {"name": "ci", "expires_at": "2999-02-30T00:00:00Z"}, "expires_at"),
    Bad("POST", KEYS, {"name": "ci", "expires_at": 1e30}, "expires_at"),
    Bad("POST", KEYS, {"name": "ci", "scopes": ["job.view", "root"]}, "scopes.1"),
    Bad("POST", KEYS, {"name": "ci", "scopes": ["job.view"] * 101}, "scopes"),
    Bad("POST", KEYS, {"name": "ci", "token": "alt_x"}, "token"),
    Bad("POST", KEYS, {"name": "ci", "user": "otto"}, "user"),
    Bad("POST", KEYS, {"name": "ci", "service_account": "robot@team-b"}, "service_account"),
    Bad("POST", "me/keys", {"name": "ci", "expires_at": PAST}, "expires_at"),
    Bad("POST", "me/keys", {"name": "ci", "colour": "red"}, "colour"),
    Bad("POST", "me/keys/{prefix}/rotate", {"grace_s": -1}, "grace_s"),
    Bad("POST", "me/keys/{prefix}/rotate", {"grace_s": 1e30}, "grace_s"),
    Bad("POST", "me/keys/{prefix}/rotate", {"grace_s": 604_801}, "grace_s"),
    # Bodies that are invalid or too large.
    Bad("POST", "tenants", b"{", ""),
    Bad("POST", "tenants", b"\xff\xfe", ""),
    Bad("POST", "tenants", b'{"name": NaN}', ""),
    Bad("POST", "tenants", b"[" * 100_000, ""),
    Bad("POST", "tenants", b'{"name": "' + b"x" * 2**20 + b'"}', ""),
    Bad("POST", "tenants?dry_run=perhaps", tenant(), "dry_run"),
    Bad("POST", "tenants?colour=red", tenant(), "colour"),
]  # fmt: skip


@pytest.fixture
def names(w: World) -> dict[str, str]:
    """Return one thing of each kind, by the names that the rows use."""
    research = tenancy.folder("research")
    deep = tenancy.folder("deep", tenancy.folder("middle", research))
    twin = tenancy.folder("twin", research)
    type(twin).unscoped.filter(pk=twin.pk).update(name="Team A")
    closed = tenancy.folder("closed")
    type(closed).unscoped.filter(pk=closed.pk).update(archived_at=closed.created_at, archived_with=closed.pk)
    tenancy.group("staff", claim="staff")
    for place in (w.workspace, w.other_workspace):
        tenancy.service_account("robot", place)
    tenancy.access_key(w.platform_admin)
    return {
        "root": str(tenancy.root().pk),
        "team": str(w.workspace.pk),
        "research": str(research.pk),
        "deep": str(deep.pk),
        "twin": str(twin.pk),
        "closed": str(closed.pk),
        "member": str(w.editor.memberships.get().pk),
        "role": str(tenancy.custom_role(w.workspace, "Helper", "job.view").pk),
        "group": str(tenancy.group("ml").pk),
        "ed": str(w.editor.pk),
        "prefix": w.platform_admin.access_keys.get().prefix,
    }


@pytest.fixture
def client(w: World, as_user: As, names: dict[str, str]) -> APIClient:
    """Return a client with all rights, so that only the content of a request is refused."""
    tenancy.member(w.platform_admin, tenancy.root(), Role.ADMIN)
    return as_user(w.platform_admin)


def test_what_cannot_be_is_refused_by_field(client: APIClient, names: dict[str, str]) -> None:
    assert not faults(client, ROWS, names)


def test_what_the_rows_spoil_is_good(client: APIClient, names: dict[str, str]) -> None:
    def made(path: str, body: dict[str, Any]) -> int:
        return int(client.post(f"/api/v1/{path}", body, format="json").status_code)

    filled = tenant(parent=names["root"])
    assert [
        made("tenants", filled),
        made("admin/users", user()),
        made(f"tenants/{names['team']}/roles", role()),
        made(KEYS, {"name": "ci", "expires_at": "2999-01-01T00:00:00Z", "scopes": ["job.view"]}),
        made("admin/groups", {"name": "fresh", "claim": "fresh"}),
    ] == [201] * 5
